"""Text that anybody may have written, made fit for a terminal. No I/O."""


def one_line(text: str) -> str:
    """What is not printable (line ends, control sequences, changes of writing direction) is escaped."""
    return "".join(char if char.isprintable() else ascii(char)[1:-1] for char in text)
