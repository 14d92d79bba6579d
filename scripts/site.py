"""What the site needs beyond MkDocs: pages for the files outside docs/ that a page links to.

MkDocs knows only docs/. A link from there to a template or to CONTRIBUTING.md works where the
repository is read, and would be broken in the site. This hook gives each such file a page under
source/ and points the links to it; Markdown becomes a page as it is, anything else a page that
shows it. A link to a file that is not there is left to MkDocs, which refuses it.
"""

from __future__ import annotations

import posixpath
import re
from collections.abc import Callable, Iterator
from pathlib import Path
from urllib.parse import urlsplit

from mkdocs.config.defaults import MkDocsConfig
from mkdocs.structure.files import File, Files
from mkdocs.structure.pages import Page

ROOT = Path(__file__).resolve().parents[1]
DOCS = "docs"
#: Where the site has the files from outside docs/.
SOURCE = "source"

_LANGUAGES = {".yaml": "yaml", ".yml": "yaml", ".json": "json", ".py": "python"}
_FENCE = re.compile(r"^\s*(```+|~~~+)")
# A code span, which is left alone, or the target of a link or an image.
_SPAN_OR_TARGET = re.compile(r"(?P<code>`+[^`]*`+)|(?<=\]\()(?P<target>[^)\s]+)(?=\))")


def on_files(files: Files, config: MkDocsConfig) -> Files:
    """Add a page for each file outside docs/ that a page, or one of these pages, links to."""
    waiting = list(files.documentation_pages())
    while waiting:
        file = waiting.pop()
        for target in _outside(_origin(file.src_uri), file.content_string):
            if files.get_file_from_path(_page_of(target)) is None:
                added = File.generated(config, _page_of(target), content=_shown(target))
                files.append(added)
                waiting.append(added)
    return files


def on_page_markdown(markdown: str, page: Page, config: MkDocsConfig, files: Files) -> str:
    """Point links to files outside docs/ to their pages."""
    origin = _origin(page.file.src_uri)

    def pointed(target: str) -> str:
        path, anchor = _resolved(origin, target)
        if path is None:
            return target
        there = path.removeprefix(f"{DOCS}/") if _in_docs(path) else _page_of(path)
        return posixpath.relpath(there, posixpath.dirname(page.file.src_uri) or ".") + anchor

    return rewritten(markdown, pointed)


def rewritten(markdown: str, change: Callable[[str], str]) -> str:
    """Markdown with the target of each link changed; code stays as it is."""
    lines, fence = [], ""
    for line in markdown.splitlines(keepends=True):
        mark = _FENCE.match(line)
        if mark and not fence:
            fence = mark[1]
        elif mark and mark[1].startswith(fence):
            fence = ""
        elif not fence:
            line = _SPAN_OR_TARGET.sub(lambda m: m["code"] or change(m["target"]), line)
        lines.append(line)
    return "".join(lines)


def targets(markdown: str) -> list[str]:
    """The targets of the links and images of a Markdown text, without those in code."""
    found: list[str] = []

    def keep(target: str) -> str:
        found.append(target)
        return target

    rewritten(markdown, keep)
    return found


def _outside(origin: str, markdown: str) -> Iterator[str]:
    """The files outside docs/ that a Markdown file links to."""
    for target in targets(markdown):
        found, _ = _resolved(origin, target)
        if found is not None and not _in_docs(found):
            yield found


def _resolved(origin: str, target: str) -> tuple[str | None, str]:
    """The file of the repository a link leads to, and its anchor; None when it leads to no file."""
    parts = urlsplit(target)
    if parts.scheme or parts.netloc or not parts.path or parts.path.startswith("/"):
        return None, ""
    path = posixpath.normpath(posixpath.join(posixpath.dirname(origin), parts.path))
    anchor = f"#{parts.fragment}" if parts.fragment else ""
    return (path if (ROOT / path).is_file() else None), anchor


def _in_docs(path: str) -> bool:
    return path.startswith(f"{DOCS}/")


def _page_of(path: str) -> str:
    """Where the site has a file from outside docs/, relative to docs/."""
    # MkDocs leaves out what begins with a dot.
    shown = "/".join(part.lstrip(".") for part in path.split("/"))
    return f"{SOURCE}/{shown}" if path.endswith(".md") else f"{SOURCE}/{shown}.md"


def _origin(uri: str) -> str:
    """The file of the repository that a page is made of."""
    if uri.startswith(f"{SOURCE}/"):
        return uri.removeprefix(f"{SOURCE}/")
    return f"{DOCS}/{uri}"


def _shown(path: str) -> str:
    """A file as a page. Files that are shown as they are stay out of the search."""
    text = (ROOT / path).read_text("utf-8")
    if path.endswith(".md"):
        return text
    language = _LANGUAGES.get(Path(path).suffix, "text")
    head = "---\nsearch:\n  exclude: true\nhide: [toc]\n---\n"
    return f"{head}\n# {path}\n\n`````{language}\n{text.rstrip()}\n`````\n"
