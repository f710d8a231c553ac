"""The audit log in an SQLite file: the signed records of calls, one chain per writer. I/O: the file, a process.

Written by `queue`, with `kept` for outcomes that wait and `writer_locks` for which writers are alive; its transactions
are `requests`, `transactions` and `appender`, run in a process beside the gateway (`process`, `channel`, `writer_main`)
or in a `thread`. Read by `reader`, `members` and `calls`, which joins a call's records; shortened by `pruning`.
"""
