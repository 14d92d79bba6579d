"""The page's templates: where they lie, what they know, and how values become markup.

Every value is escaped, except the charts that `charts/` drew, the style and the script.
"""

from __future__ import annotations

import base64
import hashlib
import re
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any

from jinja2 import Environment, FileSystemLoader, StrictUndefined
from jinja2.ext import Extension
from jinja2.lexer import Token, TokenStream
from markupsafe import Markup

from rackrate.report.charts import canvas
from rackrate.report.tables import MOST_ROWS
from rackrate_text import units, words

_HERE = Path(__file__).parent
_STYLE = Markup((_HERE / "page.css").read_text("utf-8"))
_SCRIPT = Markup((_HERE / "page.js").read_text("utf-8"))
#: The script's source in a Content-Security-Policy. A browser runs no other script.
_HASH = f"sha256-{base64.b64encode(hashlib.sha256(_SCRIPT.encode()).digest()).decode()}"

_BLOCK = r"(?!/?(?:a|b|br|code|span|strong|svg|time|use)\b)[a-z!/]"
#: White space before or after the tag of a block, which a browser ignores.
_LAYOUT = re.compile(rf"\s+(?=<{_BLOCK})|(<{_BLOCK}[^<>]*>)\s+")


class Compact(Extension):
    """Removes a template's line breaks and indentation beside the tags of blocks.

    Without them a page of a large run is some 100 kB smaller.
    """

    def filter_stream(self, stream: TokenStream) -> Iterator[Token]:
        """The tokens of a template, with compact text."""
        for token in stream:
            if token.type == "data":
                token = Token(token.lineno, token.type, _LAYOUT.sub(r"\1", token.value))
            yield token


def code(words: str) -> Markup:
    """Words as markup, in which backticks enclose what a person types or reads in a file."""
    element = Markup("<code>{}</code>")
    parts = enumerate(words.split("`"))
    return Markup().join(element.format(part) if place % 2 else part for place, part in parts)


def _environment() -> Environment:
    environment = Environment(
        loader=FileSystemLoader(_HERE / "templates"),
        autoescape=True,
        auto_reload=False,
        undefined=StrictUndefined,
        finalize=lambda value: units.UNKNOWN if value is None else value,
        trim_blocks=True,
        lstrip_blocks=True,
        extensions=[Compact],
    )
    environment.policies["json.dumps_kwargs"] = {"separators": (",", ":"), "ensure_ascii": False}
    written = (
        *(units.change, units.changes, units.percent, units.quantity),
        *(words.counted, words.listed, words.metric_of_test, words.metric_words, code),
    )
    environment.filters.update({write.__name__: write for write in written})
    environment.globals.update(
        most_rows=MOST_ROWS,
        script=_SCRIPT,
        script_hash=_HASH,
        style=_STYLE,
        unknown=units.UNKNOWN,
    )
    return environment


_ENVIRONMENT = _environment()


class Part:
    """A section of a page: values for its template."""

    def __init__(
        self, anchor: str, name: str, /, *, heading: str = "", template: str = "", **values: Any
    ) -> None:
        """Describe a section.

        Args:
            anchor: its id, for links.
            name: its name among the links at the page's top.
            heading: its heading, if that is not its name.
            template: its template, such as `method` for `templates/method.html.jinja`, if that is
                not called as its id.
            values: the variables of the template.
        """
        self.anchor, self.name, self.heading = anchor, name, heading or name
        self._template, self._values = template or anchor, values

    @property
    def content(self) -> Markup:
        """Its markup."""
        return Markup(_render(self._template, self._values))


def page(*, arms: int, facts: Iterable[str], parts: Iterable[Part | None], **values: object) -> str:
    """A whole page as HTML, which needs no other file.

    Args:
        arms: the number of arms whose keys its legends and tables use.
        facts: what stands below the title; empty ones are left out.
        parts: its sections, to show and to link to; None for one without content.
        values: the other variables of the layout.
    """
    keys = Markup("".join(map(canvas.key, range(arms))))
    shown = [part for part in parts if part is not None]
    return _render("layout", {"keys": keys, "facts": filter(None, facts), "parts": shown, **values})


def _render(template: str, values: Mapping[str, object]) -> str:
    return _ENVIRONMENT.get_template(f"{template}.html.jinja").render(values)
