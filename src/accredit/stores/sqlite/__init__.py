"""What is kept in one SQLite file, shared by all processes of a machine that have it open. I/O: the file, in a thread.

`store` challenges and uses, over `tables` (what is done in a transaction) · `forgetting` how rows end ·
`revocation_lists` signed lists · `database` the file, `schema` its tables, `worker` the thread that waits for the disk.
"""
