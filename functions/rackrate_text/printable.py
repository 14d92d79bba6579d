"""Text that came from outside, made safe to show. Pure."""

from __future__ import annotations

import re

#: What ends a string that a terminal takes for itself: BEL, or ST in its two forms.
_END = r"(?:\x07|\x1b\\|\x9c)"
#: The sequences that a terminal obeys (ECMA-48): strings such as titles and the clipboard (OSC,
#: DCS, SOS, PM, APC), then control sequences (CSI), then the others, and each with its introducer
#: of one byte (C1) too. A string without an end loses only its introducer. It ends at the next
#: control character at the latest, so that many introducers do not each search the whole text.
_SEQUENCES = re.compile(
    rf"(?:\x1b[\]PX^_]|[\x9d\x90\x98\x9e\x9f])[^\x07\x1b\x80-\x9f\n]*+{_END}"
    r"|(?:\x1b\[|\x9b)[0-?]*[ -/]*[@-~]?"
    r"|\x1b[ -/]*[0-~]?"
)
#: Control characters other than tab and line feed, lone surrogates, and the marks that change the
#: direction of the text around them, so that it reads as what it is not (CVE-2021-42574).
_CONTROLS = re.compile(
    "[\x00-\x08\x0b-\x1f\x7f-\x9f\u061c\u200b\u200e\u200f\u2028-\u202e\u2060-\u2069\ufeff"
    "\ud800-\udfff]"
)


def printable(text: str) -> str:
    """The text without what a terminal would obey instead of showing; lines and tabs stay.

    Carriage returns become line feeds, because a terminal would overwrite the line.
    """
    shown = _SEQUENCES.sub("", text.replace("\r\n", "\n"))
    return _CONTROLS.sub("", shown.replace("\r", "\n"))
