"""The audit log in a store: the signed records of calls, one chain per writer. I/O: a file, a database, a process.

Written by `queue`, with `kept` for outcomes that wait and `writer_locks` for which writers are alive. Its transactions
are `requests`; their rules, `transactions` and `appender`, know of `tables` what every store has: `file_tables` are
those of an SQLite file, `stores.postgres.log_tables` those of a database. They are run in a process beside the gateway
(`process`, `channel`, `writer_main`) or in a `thread`. Read as `reading` says, a file by `reader` with
`members`, a database by `stores.postgres.log_reader`; `calls` joins a call's records. Verified by `verifying` on all
cores; a file is shortened by `pruning`.
"""
