"""Text that pods and nodes wrote. Nobody can rely on its length or its characters."""

from __future__ import annotations

from rackrate_text.printable import printable

#: The most characters of a fact that a node or a tool reports of itself. Names of objects have 253.
MOST_CHARACTERS = 253


def plain(text: str, most: int = MOST_CHARACTERS) -> str:
    """The text in one line that can be stored and printed: clipped, without control characters.

    Lone surrogates, which JSON may escape, cannot be encoded, and become question marks.
    """
    # What is cut off need not be looked at; of a run of spaces one stays.
    start = printable(text[: 4 * most].encode(errors="replace").decode())
    words = "".join(each if each.isprintable() else " " for each in start).split()
    line = " ".join(words)
    return line if len(line) <= most else f"{line[: most - 1]}…"
