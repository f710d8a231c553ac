"""The audit log in a store: the signed records of calls, one chain per writer. I/O: a file, a database, a process.

Written by `queue`, with `kept` for delayed outcomes and `writer_locks` to tell live writers. Its transactions are
`requests`; their rules, `transactions` and `appender`, work over `tables`, implemented by `file_tables` for an SQLite
file and by `stores.postgres.log_tables` for a database. They run in a process beside the gateway (`process`, `channel`,
`writer_main`) or in a `thread`. Read as `reading` defines, a file by `reader` with `members`, a database by
`stores.postgres.log_reader`; `calls` joins a call's records. Verified by `verifying` on all cores; a file is shortened
by `pruning`.
"""
