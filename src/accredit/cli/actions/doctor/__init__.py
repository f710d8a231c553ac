"""What `accredit doctor` runs: looks at what there is, and says what is wrong, and which command mends it.

`findings` is what a look gives, `surroundings` what all of them look at; a file for each subject: `keys`, `setup`
(the configuration and its store), `gateways` (and clocks), `desks`, `entries` (in hosts' files) and `versions`;
`examine` runs them all at one time.

Nothing is changed, no secret is printed, no program that a file names is run, and no server is asked but gateways, for
their health.
"""
