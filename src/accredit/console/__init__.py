"""The desk: the process on a person's machine that holds their key, shows what is asked, and signs what they allow.

- `settings`, `names`, `journal`: its files;
- `book`: which asks wait, and how many may (no I/O);
- `unlock`, `prompts`: the key, and the passphrase that unlocks it;
- `desk`: what is done with an ask, whoever decides it;
- `socket`, `client`, `peers`: the Unix socket, for programs and commands of the same user;
- `sessions`, `admission`, `api`, `live`, `views`, `static/`: the page;
- `serving`, `browser`: the process itself.

It grants nothing by itself: what it gives out is a certificate that the person's key has signed.
"""
