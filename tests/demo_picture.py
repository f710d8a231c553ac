"""Draws the part of the demo in which a proof is needed, as a terminal shows it: `make pictures` writes
`docs/images/demo.svg`. I/O: runs `make demo ARGS=--once`, writes that file.

It draws what was printed, and nothing that differs from run to run.
"""

import subprocess
import sys
from html import escape
from pathlib import Path

ROOT = Path(__file__).parents[1]
PICTURE = ROOT / "docs/images/demo.svg"
BEGIN, END = "4. No proof, no call", "  A host that knows nothing of proofs"
LAST = "Nothing malformed got through, and nobody did what no human has allowed."
COLOURS = {"\N{CHECK MARK}": "#7ee787", "\N{MULTIPLICATION SIGN}": "#ff7b72"}
TEXT, QUIET, GROUND = "#e6edf3", "#8b949e", "#0d1117"
LINE_PIXELS, MARGIN_PIXELS, CHARACTER_PIXELS = 20, 24, 8.45


def main() -> int:
    """Runs the demo and writes the picture; returns the exit code."""
    done = subprocess.run(["make", "demo", "ARGS=--once"], cwd=ROOT, capture_output=True, text=True, check=True)
    PICTURE.write_text(draw(drawn_lines(done.stdout)), "utf-8")
    print(f"wrote {PICTURE}")
    return 0


def drawn_lines(printed: str) -> list[str]:
    """The lines of the demo that the picture shows."""
    part = printed[printed.index(BEGIN) : printed.index(END)].rstrip().splitlines()
    return ["$ make demo ARGS=--once", "...", *part, "...", LAST]


def draw(lines: list[str]) -> str:
    """An SVG with a line of text for each line, in a dark frame: what passes green, what is refused red."""
    width = 2 * MARGIN_PIXELS + round(CHARACTER_PIXELS * max(map(len, lines)))
    height = 2 * MARGIN_PIXELS + LINE_PIXELS * len(lines)
    rows = [draw_line(line, MARGIN_PIXELS + LINE_PIXELS * (at + 0.75)) for at, line in enumerate(lines)]
    return "\n".join([
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height}" width="{width}" height="{height}"'
        ' role="img" font-family="ui-monospace, SFMono-Regular, Menlo, Consolas, monospace" font-size="14">',
        f'<rect width="100%" height="100%" rx="8" fill="{GROUND}"/>',
        *rows,
        "</svg>\n",
    ])  # fmt: skip


def draw_line(line: str, y: float) -> str:
    """One line at a height; its mark, if it has one, gives it its colour."""
    mark = next((COLOURS[each] for each in line[:6] if each in COLOURS), QUIET if line.startswith(("$", ".")) else TEXT)
    return f'<text x="{MARGIN_PIXELS}" y="{y:g}" fill="{mark}" xml:space="preserve">{escape(line, quote=False)}</text>'


if __name__ == "__main__":
    sys.exit(main())
