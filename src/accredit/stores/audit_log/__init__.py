"""The audit log in a store: the signed records of calls, one chain per writer. I/O: a file, a database, a process.

- Writing: `queue` writes the log that is at one of the `places`. Its transactions are `requests`. They work over
  `tables`, which `file_tables` implements for an SQLite file, and `stores.postgres.log_tables` for a database. A
  `writer` runs them, in a process beside the gateway (`process`, `writer_main`) or in a thread.
- Reading: `reading` defines the interface. `reader` reads a file; `stores.postgres.log_reader` reads a database.
  `calls` joins a call's records.
- `verifying` verifies a log on all cores, and `pruning` shortens the log in a file.
"""
