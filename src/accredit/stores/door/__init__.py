"""Storage of the front door, the gateway's OAuth server (`ports.DoorStore`): one table in any kind of store.

- `rows`: the table, and how its rows are sealed
- `steps`: the methods, and their rules
"""
