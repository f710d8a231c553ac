"""OAuth for hosts that speak nothing else: the grammar of the gateway's authorization server. No I/O.

- `forms`: the parameters of a request
- `uris`: the ids of clients, their redirect URIs, the allow-list
- `clients`: their metadata documents, and registration
- `requests`: authorize, token, revoke
- `answers`: the server's metadata, redirects, tokens
- `access_tokens`: the tokens that the gateway gives to clients
"""
