"""Requests to agents by A2A 1.0 (JSON-RPC binding), as far as they are decided and judged. No I/O.

- `shapes`: the objects of the protocol, and which methods there are, with what their params and results are
- `requests`: a request is read strictly; `call`: the request as the decision sees it
- `answers`: what an agent answers, and each event of its streams
- `cards`: an agent's card as clients see it
- `errors`: how A2A words refusals
"""
