"""Storage in one SQLite file, shared by all processes of a machine that open it. I/O: the file, in a thread.

`store` challenges and uses, over `tables`, its transactions · `forgetting` deleting expired rows · `revocation_lists`
signed lists · `database` the file, `schema` its tables, `worker` the thread that waits for the disk.
"""
