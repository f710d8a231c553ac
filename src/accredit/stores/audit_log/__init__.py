"""The audit log in an SQLite file: the signed records of calls, one chain for each writer. I/O: the file, a process.

Written by `queue`, with `kept` for outcomes that wait and `writer_locks` for who is alive; done in a transaction by
`requests`, `transactions` and `appender`; in a process beside the gateway (`process`, `channel`, `writer_main`) or a
`thread`. Read by `reader`, `members` and `calls`, which joins a call's records; shortened by `pruning`.
"""
