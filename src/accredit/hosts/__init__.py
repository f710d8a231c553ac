"""The configuration files of the programs that people talk to models in: found, edited, and put back. I/O: these files.

What can't be edited safely is not touched, and the error says what to do by hand.
"""
