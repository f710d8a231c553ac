"""The desk: the process on a person's machine that holds their key, shows them asks, and signs what they allow.

- `settings`, `names`, `journal`: its files;
- `book`: pending asks and their limits (no I/O);
- `unlock`, `prompts`: the key, and the passphrase that unlocks it;
- `desk`: the steps from an ask to a signed certificate;
- `socket`, `client`, `peers`: the Unix socket, for programs and commands of the same user;
- `sessions`, `admission`, `api`, `views`, `static/`: the page;
- `serving`, `browser`: the process itself.

The desk has no authority of its own: it only gives out certificates signed by the person's key.
"""
