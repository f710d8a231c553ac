"""Finds, edits and restores the configuration files of hosts, the programs in which people talk to models. I/O: these
files.

What can't be edited safely is left alone, and the error says what to do by hand.
"""
