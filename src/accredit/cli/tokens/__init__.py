"""What `accredit token` runs.

`issuing` keys and tokens · `verifying` what a token is worth.
"""
