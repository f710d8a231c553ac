"""What the commands about keys, delegations and proofs run. Loaded when one of them runs, not for `--help`.

`terms` reads what was asked for, `vocabulary` says which scopes there can be, `documents` reads files, `words` says
things as people do, `paper` prints them; the others are one command each.
"""
