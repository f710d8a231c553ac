"""What `accredit doctor --production` runs: the checklist of docs/how-to/run-in-production.md.

`facts` is what is known, or why it is not; `files`, `stored` and `running` find it out; `configured` and `there` hold
the lines, each a function of facts alone; `checklist` has them in order, runs them and prints what they come to
(`results`).

Nothing is changed, no secret is printed, no program is run, and nobody is asked but the configuration's own store and
the gateway of this machine.
"""
