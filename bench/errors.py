"""What stops a benchmark: one line for the person who started it. No I/O."""


class BenchError(Exception):
    """A figure that would be wrong is not printed: the run ends with this text instead."""
