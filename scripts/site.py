"""A hook for MkDocs that adds pages for the files outside docs/ that a page links to.

MkDocs knows only docs/. A link from there to a template or to CONTRIBUTING.md works in the
repository but would be broken in the site. This hook makes a page under source/ for each such file
and points the links to it. Markdown becomes a page itself; any other file is shown as code. MkDocs
reports links to files that do not exist.

It also makes the sample pages (scripts/samples.py). They are in no commit, so only the site has the
links to them, in the places of their marks.
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

from scripts import samples

ROOT = Path(__file__).resolve().parents[1]
DOCS = "docs"
#: The site's directory for the files from outside docs/.
SOURCE = "source"

_LANGUAGES = {".yaml": "yaml", ".yml": "yaml", ".json": "json", ".py": "python"}
#: The page that has a mark for each sample page, such as `<!-- samples/run.html -->`.
SAMPLES = "samples.md"
_FENCE = re.compile(r"^\s*(```+|~~~+)")
# A code span, which stays unchanged, or the target of a link or an image.
_SPAN_OR_TARGET = re.compile(r"(?P<code>`+[^`]*`+)|(?<=\]\()(?P<target>[^)\s]+)(?=\))")


def on_files(files: Files, config: MkDocsConfig) -> Files:
    """Add a page for each file outside docs/ that a page links to, or one of the added pages."""
    waiting = list(files.documentation_pages())
    while waiting:
        file = waiting.pop()
        for target in _outside(_origin(file.src_uri), file.content_string):
            if files.get_file_from_path(_page_of(target)) is None:
                added = File.generated(config, _page_of(target), content=_shown(target))
                files.append(added)
                waiting.append(added)
    if files.get_file_from_path(SAMPLES) is not None:
        for path, html in samples.pages().items():
            files.append(File.generated(config, path, content=html))
    return files


def on_page_markdown(markdown: str, page: Page, config: MkDocsConfig, files: Files) -> str:
    """Change links to files outside docs/ into links to their pages."""
    origin = _origin(page.file.src_uri)
    if page.file.src_uri == SAMPLES:
        for path in samples.pages():
            markdown = markdown.replace(f"<!-- {path} -->", f"[Open the page]({path})")

    def pointed(target: str) -> str:
        path, anchor = _resolved(origin, target)
        if path is None:
            return target
        there = path.removeprefix(f"{DOCS}/") if _in_docs(path) else _page_of(path)
        return posixpath.relpath(there, posixpath.dirname(page.file.src_uri) or ".") + anchor

    return rewritten(markdown, pointed)


def rewritten(markdown: str, change: Callable[[str], str]) -> str:
    """Change the target of each link in Markdown. Code stays unchanged."""
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
    result: list[str] = []

    def keep(target: str) -> str:
        result.append(target)
        return target

    rewritten(markdown, keep)
    return result


def _outside(origin: str, markdown: str) -> Iterator[str]:
    """The files outside docs/ that a Markdown file links to."""
    for target in targets(markdown):
        path, _ = _resolved(origin, target)
        if path is not None and not _in_docs(path):
            yield path


def _resolved(origin: str, target: str) -> tuple[str | None, str]:
    """The file of the repository that a link leads to, or None, and the link's anchor."""
    parts = urlsplit(target)
    if parts.scheme or parts.netloc or not parts.path or parts.path.startswith("/"):
        return None, ""
    path = posixpath.normpath(posixpath.join(posixpath.dirname(origin), parts.path))
    anchor = f"#{parts.fragment}" if parts.fragment else ""
    return (path if (ROOT / path).is_file() else None), anchor


def _in_docs(path: str) -> bool:
    return path.startswith(f"{DOCS}/")


def _page_of(path: str) -> str:
    """The site's path, relative to docs/, for a file from outside docs/."""
    # Remove leading dots, because MkDocs ignores files that begin with one.
    shown = "/".join(part.lstrip(".") for part in path.split("/"))
    return f"{SOURCE}/{shown}" if path.endswith(".md") else f"{SOURCE}/{shown}.md"


def _origin(uri: str) -> str:
    """The file of the repository that a page shows."""
    if uri.startswith(f"{SOURCE}/"):
        return uri.removeprefix(f"{SOURCE}/")
    return f"{DOCS}/{uri}"


def _shown(path: str) -> str:
    """A file as a page. The search leaves out files that are shown as code."""
    text = (ROOT / path).read_text("utf-8")
    if path.endswith(".md"):
        return text
    language = _LANGUAGES.get(Path(path).suffix, "text")
    head = "---\nsearch:\n  exclude: true\nhide: [toc]\n---\n"
    return f"{head}\n# {path}\n\n`````{language}\n{text.rstrip()}\n`````\n"
