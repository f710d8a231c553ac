"""What `accredit doctor --production` runs: the checklist of docs/how-to/run-in-production.md.

`files`, `stored` and `running` find out `facts`: what is known, or why it is not. `configured` and `there` hold the
lines of the checklist, each a function of these facts alone. `checklist` runs them in order, and prints their
`results`.

Nothing is changed, no secret is printed, no program is run, and nobody is asked but the configuration's own store and
the gateway of this machine.
"""
