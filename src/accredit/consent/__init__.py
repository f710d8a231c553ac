"""A person's consent to calls: asks, answers, and the constraint that binds a certificate to certain calls. No I/O.

- `asks`: an agent's question. `answers`: the person's answer, and the conditions under which it allows the call.
- `offers`: the choices that the person has. `shown`: the call as the person sees it.
- `call`: the constraint: its codec, its evaluator, and its text for people.
"""
