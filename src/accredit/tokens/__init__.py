"""Bearer tokens: their places in a request, their validity, their rights, and the challenges to clients. No I/O.

- `carried`: finds and removes them
- `claims`: reads them
- `key_sets`, `discovery`: the keys of their issuers, and where these are
- `introspection`: asking an issuer about tokens that are not JWTs
- `verify`: the verifier and its cache, and what a valid token may do
- `challenges`: the headers and the metadata document for clients
- `issued`: tokens that accredit issues itself, to clients and to the server behind it
- `access`: tokens that the gateway gets for that server
"""
