"""Storage of the front door (`ports.DoorStore`): one table in any kind of store.

- `rows`: the table, and how its rows are sealed
- `steps`: what each method does, as statements and answers, for all kinds of store
- `places`: runs these in memory, in a file, in a database
"""
