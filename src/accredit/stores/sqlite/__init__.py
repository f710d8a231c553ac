"""Storage in one SQLite file, shared by all processes of a machine that open it. I/O: the file, in a thread.

- `store`: challenges and uses, and the thread that waits for the disk
- `forgetting`: deletes expired rows
- `revocation_lists`: signed lists
- `database`: the file, and the jobs on it; `schema` its tables
- `untouched`: reads a file that has to stay as it is
"""
