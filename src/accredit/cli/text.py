"""Text that anybody may have written, made fit for a terminal. No I/O."""


def two_lines(what: str, remedy: str) -> str:
    """How every command says what is wrong, and what to do."""
    return f"error: {one_line(what)}\nhelp: {one_line(remedy)}"


def one_line(text: str) -> str:
    """What is not printable (line ends, control sequences, changes of writing direction) is escaped."""
    return "".join(char if char.isprintable() else ascii(char)[1:-1] for char in text)
