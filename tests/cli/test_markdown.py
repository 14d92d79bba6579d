"""A run as Markdown: no text from outside becomes a link, a mention or markup."""

from __future__ import annotations

import re
from collections.abc import Iterable

import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from markdown_it import MarkdownIt
from markdown_it.token import Token
from rackrate_cli.printing.failures import RunFailure
from rackrate_cli.printing.markdown import markdown
from rackrate_cli.reading.documents import read_results

from .conftest import results, verdict

#: What GitHub makes a link or a mention of, and what Markdown and HTML obey.
HOSTILE = (
    "www.evil.test",
    "http://evil.test/x",
    "mail@evil.test",
    "@evil-team",
    "#1 evil/evil#2 GH-3 evil",
    "evil 0123456789abcdef0123456789abcdef01234567",
    "[x](http://evil.test)|@team<img src=evil>`",
    "`` www.evil.test ` @evil",
    "evil \\` www.evil.test \\|",
    "evil\n\n# @evil\r\n| a | b |",
)
#: GitHub's limit of a comment.
MOST_CHARACTERS = 65_536


def document(text: str) -> str:
    """A failed run whose results and failure contain the text wherever they have text."""
    names = ("test", "metric", "unit", "arm", "baseline", "reason", "drift")
    of_text = dict.fromkeys(names, text)
    cause = {"cause": text, "count": 1, "where": [text]}
    content = results(
        text,
        verdicts=[verdict(**of_text), verdict(), verdict(**of_text | {"arm": "other"})],
        trials={"planned": 2, "measured": 1, "failed": 1, "causes": [cause]},
        warnings=[text],
        conclusion=text,
    )
    return markdown(text, read_results(content, "r"), RunFailure(text, text)).decode()


def inline(tokens: Iterable[Token]) -> Iterable[Token]:
    """The parts of paragraphs, headings and cells."""
    for token in tokens:
        yield from token.children or ()


def obeyed(text: str) -> tuple[list[str], list[str]]:
    """What a reader of GitHub's Markdown may obey in the document, and all kinds of its parts."""
    tokens = MarkdownIt("commonmark").enable("table").parse(document(text))
    plain = [part.content for part in inline(tokens) if part.type != "code_inline"]
    kinds = {token.type for token in tokens} | {part.type for part in inline(tokens)}
    return plain, sorted(kinds)


PARTS = obeyed("plain")[1]


@pytest.mark.parametrize("text", HOSTILE)
def test_text_from_outside_stands_in_code_only(text: str) -> None:
    plain, kinds = obeyed(text)
    assert not [part for part in plain if re.search(r"evil|[@#`\[\\<|]|0123", part)]
    assert kinds == PARTS


@given(st.text(st.sampled_from("`|\\@# .w*_<>&~$\n\r\tx"), min_size=1, max_size=12))
@example("`")
@example("\\")
@example(" ` ")
def test_no_text_changes_the_structure_or_leaves_its_code(text: str) -> None:
    plain, kinds = obeyed(text)
    assert set(kinds) <= set(PARTS)
    assert not [part for part in plain if re.search(r"[@#`\\<|$]", part)]


def test_every_row_of_a_table_has_five_cells_whatever_its_names_contain() -> None:
    tokens = MarkdownIt("commonmark").enable("table").parse(document("a|b\\|c`|"))
    kinds = [token.type for token in tokens]
    assert kinds.count("td_open") == 5 * (kinds.count("tr_open") - kinds.count("th_open") // 5)


def test_a_comment_is_shorter_than_github_takes_and_tells_what_it_leaves_out() -> None:
    many = [f"{number} \U0001f4a5 {'`' * 300}" for number in range(500)]
    content = results("r", warnings=many)
    text = markdown("r", read_results(content, "r")).decode()
    assert len(text.encode("utf-16-le")) // 2 < MOST_CHARACTERS - 500
    written = sum(f" {number} \U0001f4a5" in text for number in range(500))
    lines = int(re.findall(r"(\d+) more lines", text)[-1])
    assert 0 < written < 500
    assert -(-lines // 2) == 500 - written, "each warning is a line after an empty one"


def test_one_long_text_is_cut_and_leaves_room_for_the_rest() -> None:
    text = markdown("r", read_results(results("r", warnings=["x" * 99_999, "last"]), "r")).decode()
    (cut,) = (line for line in text.splitlines() if "xxx" in line)
    assert cut.count("x") + int(re.findall(r"(\d+) more characters", cut)[0]) == 99_999
    assert "last" in text
