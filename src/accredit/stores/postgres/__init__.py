"""Storage in a PostgreSQL database, shared by gateways on any number of machines. I/O: connections to it.

`address` the database that a URL names · `driver` asyncpg, and what its failures mean · `session` finding the primary
and checking it · `worker` one connection and the batches on it · `schema` its tables and roles, `migration` making them
· `store` challenges and uses, over `challenges` and `uses`, their statements · `forgetting` deleting expired rows ·
`tasks` · `revocation_lists` signed lists · `log_tables` the audit log, `log_writer` running its requests, `log_reader`
reading it from a `snapshot`, `log_pruning`.
"""
