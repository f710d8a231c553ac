"""Storage in a PostgreSQL database, shared by gateways on any number of machines. I/O: connections to it.

- `address`: the database that a URL names
- `driver`: asyncpg, and its failures as our errors
- `session`: finds the primary and checks it
- `worker`: one connection, and the batches on it
- `schema`: the tables and roles; `migration` creates them
- `store`: challenges and uses; `challenges` and `uses` have its statements
- `forgetting`: deletes expired rows
- `revocation_lists`: signed lists
- `log_tables`: the audit log. `log_writer` runs its requests, `log_reader` reads it from a `snapshot`, `log_sink` reads
  it for a sink, and `log_pruning` shortens it
"""
