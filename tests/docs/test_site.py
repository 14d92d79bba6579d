"""The documentation's site: it builds, refuses broken links, and works without a network."""

from __future__ import annotations

import json
import logging
import re
import shutil
from html.parser import HTMLParser
from pathlib import Path
from urllib.parse import urlsplit

import pytest
from mkdocs.commands.build import build
from mkdocs.config import load_config
from mkdocs.exceptions import Abort

from scripts import site
from tests.docs.blocks import PAGES, ROOT, blocks_of

pytestmark = pytest.mark.rest

CONFIG = ROOT / "mkdocs.yml"
#: Attributes that make a browser fetch something.
FETCHES = {"src", "srcset", "data", "poster"}
LOADED_LINKS = {"stylesheet", "icon", "preload", "prefetch", "preconnect", "modulepreload"}


def built(directory: Path, docs: Path | None = None, nav: list[str] | None = None) -> Path:
    """Build the site of a docs directory, by default ours. Raises Abort on any warning."""
    chosen = {"docs_dir": str(docs), "nav": nav} if docs else {}
    target = directory / "site"
    # The test runner's log level would hide MkDocs' warnings, which have to be counted.
    logging.getLogger("mkdocs").setLevel(logging.INFO)
    config = load_config(str(CONFIG), site_dir=str(target), **chosen)
    build(config)
    return target


@pytest.fixture(scope="module")
def pages(tmp_path_factory):
    target = built(tmp_path_factory.mktemp("ours"))
    return {str(path.relative_to(target)): path for path in target.rglob("*.html")}


class Elements(HTMLParser):
    """The elements of a page, and the text of its paragraphs."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.elements: list[tuple[str, dict[str, str | None]]] = []
        self.paragraphs: list[str] = []
        self._open = False
        self.feed(text)

    def handle_starttag(self, tag, attributes):
        self.elements.append((tag, dict(attributes)))
        if tag == "p":
            self._open = True
            self.paragraphs.append("")

    def handle_endtag(self, tag):
        self._open = self._open and tag != "p"

    def handle_data(self, data):
        if self._open:
            self.paragraphs[-1] += data


def test_every_page_is_in_the_site_and_in_its_navigation(pages):
    expected = {
        str(path.relative_to(ROOT / "docs").with_suffix(".html")).replace("README", "index")
        for path in (ROOT / "docs").rglob("*.md")
    }
    assert expected <= set(pages)
    linked = {
        attributes.get("href")
        for tag, attributes in Elements(pages["index.html"].read_text("utf-8")).elements
        if tag == "a" and "md-nav__link" in (attributes.get("class") or "")
    }
    assert expected - {"index.html"} <= linked


def test_reading_a_page_loads_nothing_from_elsewhere(pages):
    loaded = set()
    for path in pages.values():
        for tag, attributes in Elements(path.read_text("utf-8")).elements:
            fetched = {value for name, value in attributes.items() if name in FETCHES and value}
            if tag == "link" and LOADED_LINKS & set((attributes.get("rel") or "").split()):
                fetched.add(attributes["href"] or "")
            loaded |= {url for url in fetched if urlsplit(url).scheme in ("http", "https")}
            loaded |= {url for url in fetched if url.startswith("//")}
    for style in pages["index.html"].parent.rglob("*.css"):
        text = style.read_text("utf-8")
        loaded |= set(re.findall(r"(?:url\(|@import )['\"]?((?:https?:)?//[^)'\"]+)", text))
    assert loaded == set()


def test_the_search_knows_the_pages_and_not_the_files_shown_as_they_are(pages):
    index = json.loads(
        (pages["index.html"].parent / "search" / "search_index.json").read_text("utf-8")
    )
    places = {entry["location"].partition("#")[0] for entry in index["docs"]}
    assert {"troubleshooting.html", "plan.html", "reading-a-verdict.html"} <= places
    assert any("NodesUnavailable" in entry["title"] for entry in index["docs"])
    assert not [each for each in places if each.endswith((".yaml.html", ".py.html", ".yml.html"))]


def test_what_is_a_list_or_a_table_where_it_is_written_is_one_in_the_site(pages):
    """GitHub and GitLab need no empty line before a list, and less indentation in it."""
    torn = [
        f"{name}: {line}"
        for name, path in pages.items()
        for paragraph in Elements(path.read_text("utf-8")).paragraphs
        for line in paragraph.splitlines()
        if re.match(r"\s*([-*] |\d+\. |\| |```)", line)
    ]
    assert torn == []


def test_every_heading_is_one_in_the_site(pages):
    """A table or a paragraph takes in a heading that follows it without an empty line."""
    for source in (ROOT / "docs").rglob("*.md"):
        text = source.read_text("utf-8")
        for block in blocks_of(source):
            text = text.replace(block.text, "")
        name = str(source.relative_to(ROOT / "docs").with_suffix(".html"))
        shown = Elements(pages[name.replace("README", "index")].read_text("utf-8")).elements
        headings = [tag for tag, _ in shown if re.fullmatch(r"h[1-6]", tag)]
        assert len(headings) == len(re.findall(r"^#{1,6} ", text, re.MULTILINE)), source.name


def test_a_file_outside_of_docs_has_a_page_that_shows_it_and_its_links_hold(pages):
    shown = pages["source/template.yaml.html"].read_text("utf-8")
    assert "TreatmentStrategy" in shown
    contributing = pages["source/CONTRIBUTING.html"].read_text("utf-8")
    assert 'href="../architecture.html"' in contributing
    assert 'href="lint/index.html"' in contributing


@pytest.fixture
def small(tmp_path):
    """A directory for docs with two pages that link to nothing else."""
    docs = tmp_path / "docs"
    docs.mkdir()
    shutil.copy(ROOT / "docs" / "site.css", docs)
    (docs / "index.md").write_text("# Page\n\n[other](other.md#other)\n")
    (docs / "other.md").write_text("# Other\n")
    return docs


def test_a_link_that_leads_nowhere_is_an_error(tmp_path, small):
    links = (
        "[lost](no-such-page.md)",
        "[lost](../templates/no-such.yaml)",
        "[lost](#no-such-heading)",
        "[lost](other.md#no-such-heading)",
        "[a folder](./plans/)",
        "[rooted](/other.md)",
        "![lost](no-such.svg)",
    )
    with (small / "index.md").open("a") as page:
        page.write("\n\n".join(links))
    with pytest.raises(Abort, match=f"Aborted with {len(links)} warnings"):
        built(tmp_path, small, ["index.md", "other.md"])


def test_a_page_that_nobody_would_find_is_an_error(tmp_path, small):
    with pytest.raises(Abort, match="Aborted with 1 warnings"):
        built(tmp_path, small, ["index.md"])


@pytest.mark.parametrize("path", PAGES, ids=lambda path: str(path.relative_to(ROOT)))
def test_links_hold_where_the_repository_is_read(path):
    """Links that the hook rewrites for the site must also work on GitHub and GitLab."""
    text = path.read_text("utf-8")
    for target in site.targets(text):
        parts = urlsplit(target)
        if parts.scheme:
            assert parts.scheme in ("https", "http", "mailto"), target
            assert parts.scheme == "mailto" or "." in parts.netloc, target
        elif parts.path:
            assert (path.parent / parts.path).exists(), target
    for _, attributes in Elements(text).elements:
        for name in attributes.keys() & FETCHES:
            assert (path.parent / (attributes[name] or "")).is_file(), attributes


@pytest.mark.parametrize("path", sorted((ROOT / "docs").glob("*.svg")), ids=lambda p: p.name)
def test_a_diagram_says_what_it_shows_and_needs_nothing_else(path):
    text = path.read_text("utf-8")
    assert "<title" in text and "<desc" in text and 'role="img"' in text
    assert "prefers-color-scheme: dark" in text
    assert set(re.findall(r"https?://[^\"\s]+", text)) == {"http://www.w3.org/2000/svg"}
    assert any(f"]({path.name})" in page.read_text("utf-8") for page in PAGES)


def test_code_is_left_alone_when_links_are_pointed_elsewhere():
    text = "`[a](b)` [c](d)\n```text\n[e](f)\n```\n[g](h)\n"
    assert site.targets(text) == ["d", "h"]
    assert site.rewritten(text, str.upper) == "`[a](b)` [c](D)\n```text\n[e](f)\n```\n[g](H)\n"


@pytest.mark.parametrize("name", ["run", "campaign"])
def test_a_sample_page_is_reached_and_says_that_it_is_of_a_lab(pages, name):
    linked = {
        attributes.get("href")
        for tag, attributes in Elements(pages["samples.html"].read_text("utf-8")).elements
        if tag == "a"
    }
    assert f"samples/{name}.html" in linked
    text = pages[f"samples/{name}.html"].read_text("utf-8")
    sample = Elements(text).elements
    assert [tag for tag, attributes in sample if tag == "aside" and attributes["class"] == "lab"]
    links = {attributes["href"] for tag, attributes in sample if tag == "a"}
    assert all(link.startswith(("#", "https://")) for link in links), "no other file is in the site"
    assert text.count("<figure ") >= 2
