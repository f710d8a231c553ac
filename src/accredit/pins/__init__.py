"""Pinned definitions: the lock, which holds the approved definitions of each server's tools, and the comparison of a
server with it.

A core without I/O. Files are read in `config`; servers are asked in `asking` and `gateway.admission`.
"""
