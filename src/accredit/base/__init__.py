"""What is everybody's: the clock, logs, a bounded memory, and helpers for text and addresses.

The lowest layer but for the errors and the limits. The cores use its memory and its text; not the clock, nor the logs.
"""
