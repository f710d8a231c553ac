"""Storage of the front door (`ports.DoorStore`): one table in any kind of store.

- `rows`: the table, and how its rows are sealed
- `steps`: the rules of each method, as SQL statements and their answers, for all kinds of store
- `places`: runs these in memory, in a file, in a database
"""
