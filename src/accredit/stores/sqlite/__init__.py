"""Storage in one SQLite file, shared by all processes of a machine that open it. I/O: the file, in a thread.

- `store`: challenges and uses; `tables` has its transactions
- `forgetting`: deletes expired rows
- `revocation_lists`: signed lists
- `database`: the file; `schema` its tables; `worker` the thread that waits for the disk
- `untouched`: reads a file that has to stay as it is
"""
