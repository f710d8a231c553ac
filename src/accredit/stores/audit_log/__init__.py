"""The audit log in a store: the signed records of calls, one chain per writer. I/O: a file, a database, a process.

- Writing: `queue` writes the log. It uses `writer_locks` to know which writers are alive. Its transactions are
  `requests`. Their rules (`transactions`, `appender`) work over `tables`, which `file_tables` implements for an SQLite
  file, and `stores.postgres.log_tables` for a database. A `writer` runs them, in a process beside the gateway
  (`process`, `writer_main`) or in a `thread`.
- Reading: `reading` defines the interface. `reader` reads a file; `stores.postgres.log_reader` reads a database.
  `calls` joins a call's records.
- `verifying` verifies a log on all cores, and `pruning` shortens the log in a file.
"""
