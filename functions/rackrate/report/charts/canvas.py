"""What all charts are drawn on: a matplotlib figure, and its SVG made part of a page.

Matplotlib is imported when the first chart is drawn: it takes a second that other stages need not
wait for.
"""

from __future__ import annotations

import io
import os
import re
import tempfile
import warnings
import xml.etree.ElementTree as ET
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

#: Units of a chart's width. A telephone shows them at about 0.8 CSS pixels each, a wide screen at
#: 1.3: what is written in 11 units can be read on both, and nothing is smaller.
WIDTH = 400
FONT_SIZE = 11
#: From so many dots on they are drawn as an image: as vectors they would be most of the page.
MOST_VECTORS = 1500

#: Stand-ins for the page's colours, which depend on the reader's: each becomes `var(--name)`.
INK, QUIET, LINE, PAPER, BAND = "#010a01", "#010a02", "#010a03", "#010a04", "#010a05"
_VARIABLES = {INK: "ink", QUIET: "quiet", LINE: "line", PAPER: "paper", BAND: "band"}
#: How many colours the style sheet has for arms.
COLOURS = 6
_VARIABLES |= {f"#010b{index:02x}": f"arm-{index}" for index in range(COLOURS)}
#: Of an image's dots, which cannot follow the page: seen on white and on black.
_FIXED = ("#d55e00", "#2b83c4", "#009e73", "#c66fa0", "#b98600", "#7f7f7f")

_MARKERS = ("o", "s", "^", "D", "v", "P")
_DASHES: tuple[Any, ...] = (
    *("-", (0, (4, 1.6)), (0, (1.2, 1.4)), (0, (6, 1.5, 1.2, 1.5)), (0, (2.5, 1.2)), (0, (8, 3))),
)

_STYLE = {
    "svg.fonttype": "none",
    "text.parse_math": False,
    "font.family": "DejaVu Sans",
    "font.size": FONT_SIZE,
    "text.color": INK,
    "axes.edgecolor": LINE,
    "axes.facecolor": "none",
    "axes.labelcolor": QUIET,
    "axes.linewidth": 1,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.unicode_minus": True,
    "figure.facecolor": "none",
    "xtick.color": LINE,
    "ytick.color": LINE,
    "xtick.labelcolor": QUIET,
    "ytick.labelcolor": QUIET,
    "xtick.major.size": 3,
    "ytick.major.size": 0,
    "lines.linewidth": 1.6,
}
_SVG = "{http://www.w3.org/2000/svg}"
_HREF = "{http://www.w3.org/1999/xlink}href"
_COLOUR = re.compile(r"#010[ab][0-9a-f]{2}")
_LONG_NUMBER = re.compile(r"-?\d+\.\d{3,}")
_FONT = re.compile(r"font-family:[^;]*;?|font:[^;]*;?")
#: What XML cannot say, and matplotlib would write all the same.
_CONTROL = re.compile(r"[\x00-\x08\x0b\x0c\x0e-\x1f\ud800-\udfff\ufffe\uffff]")

#: For each artist's id a text for each mark it has drawn.
Tips = Mapping[str, Sequence[str]]


def colour(arm: int) -> str:
    """The stand-in for an arm's colour."""
    return f"#010b{arm % COLOURS:02x}"


def fixed_colour(arm: int) -> str:
    """An arm's colour where it cannot follow the page."""
    return _FIXED[arm % COLOURS]


def marker(arm: int) -> str:
    """An arm's marker: told apart without colours too, also where colours begin anew."""
    return _MARKERS[(arm + arm // COLOURS) % len(_MARKERS)]


def dashes(arm: int) -> Any:
    """An arm's line style."""
    return _DASHES[(arm + arm // COLOURS) % len(_DASHES)]


def clean(text: str) -> str:
    """A text without what XML has no way to write."""
    return _CONTROL.sub("\N{REPLACEMENT CHARACTER}", text)


def rendered(
    draw: Callable[[Figure], Tips | None],
    *,
    name: str,
    size: tuple[float, float],
    title: str = "",
    description: str = "",
) -> str:
    """A chart as an `svg` element for a page.

    Args:
        draw: draws on an empty figure; returns tips for marks, by the ids (`gid`) of their artists.
        name: names the chart within the page; ids begin with it.
        size: width and height in units.
        title: what it is; without one it is decoration, that screen readers pass over.
        description: what it shows, for those who do not see it.
    """
    matplotlib = _matplotlib()
    from matplotlib.backends.backend_svg import FigureCanvasSVG
    from matplotlib.figure import Figure

    with matplotlib.rc_context({**_STYLE, "svg.hashsalt": name}), warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of glyphs its own font lacks; the reader's has them
        figure = Figure(figsize=(size[0] / 72, size[1] / 72), dpi=144)
        canvas: Any = FigureCanvasSVG(figure)
        tips = draw(figure) or {}
        buffer = io.StringIO()
        canvas.print_svg(buffer, metadata={"Date": None})
    return _for_page(buffer.getvalue(), name, title, description, tips)


@cache
def _matplotlib() -> Any:
    """Matplotlib, with a directory for its caches that can be written to in a Lambda function."""
    place = Path(tempfile.gettempdir()) / f"rackrate-matplotlib-{os.getuid()}"
    os.environ.setdefault("MPLCONFIGDIR", str(place))
    import matplotlib

    return matplotlib


def axes(
    figure: Figure, *, left: float, right: float, top: float, bottom: float, **others: Any
) -> Axes:
    """Axes with margins in units."""
    width, height = (72 * inches for inches in figure.get_size_inches())
    frame = (left / width, bottom / height)
    return figure.add_axes(
        (*frame, 1 - (left + right) / width, 1 - (top + bottom) / height), **others
    )


def heading(figure: Figure, text: str) -> None:
    """What the vertical axis shows, at the chart's top."""
    height = 72 * figure.get_size_inches()[1]
    figure.text(0.005, 1 - 3 / height, text, color=QUIET, va="top")


def bare(ax: Axes) -> None:
    """Takes frame and ticks away."""
    ax.set_axis_off()


def _for_page(svg: str, name: str, title: str, description: str, tips: Tips) -> str:
    """Matplotlib's document as an element: named, coloured by the page, and small."""
    root = ET.fromstring(clean(svg))
    for group in list(root):
        if group.tag in (f"{_SVG}metadata", f"{_SVG}defs"):
            # Its style sheet would apply to the whole page; ours has what is needed of it.
            root.remove(group)
    for element in root.iter():
        element.tag = element.tag.removeprefix(_SVG)
        if _HREF in element.attrib:
            element.set("href", element.attrib.pop(_HREF).replace("\n", ""))
        if said := tips.get(element.get("id", "")):
            _tell(element, said)
    used = {href[1:] for each in root.iter() if (href := each.get("href", "")).startswith("#")}
    for element in root.iter():
        _tidy(element, name, used)
        element.text, element.tail = (element.text or "").strip() or None, None
    frame = ET.Element("svg", {"viewBox": root.get("viewBox", ""), "class": "chart"})
    if title:
        frame.attrib |= {"role": "img", "aria-labelledby": f"{name}-title {name}-desc"}
        for tag, said in (("title", title), ("desc", description)):
            ET.SubElement(frame, tag, {"id": f"{name}-{tag}"}).text = clean(said)
    else:
        frame.set("aria-hidden", "true")
    frame.extend(list(_needed(root)))
    return ET.tostring(frame, encoding="unicode")


def _tell(group: ET.Element, tips: Sequence[str]) -> None:
    """Puts a tip on each mark of a group, in the order in which they were drawn."""
    marks = list(_marks(group))
    if len(marks) != len(tips):
        return  # matplotlib left some out: no tip is better than another mark's
    for mark, tip in zip(marks, tips, strict=True):
        ET.SubElement(mark, "title").text = clean(tip)
    styles = {mark.get("style", "") for mark in marks}
    if len(styles) == 1:
        # Said once: of a thousand marks it would be most of the chart.
        group.set("style", styles.pop())
        for mark in marks:
            mark.attrib.pop("style", None)


def _marks(group: ET.Element) -> Iterator[ET.Element]:
    for child in group:
        tag = child.tag.removeprefix(_SVG)
        if tag in ("use", "path"):
            yield child
        elif tag != "defs":
            yield from _marks(child)


def _tidy(element: ET.Element, name: str, used: set[str]) -> None:
    """Keeps an id that is referred to, makes colours variables, and shortens numbers."""
    # Nothing is drawn beyond its axes; what matplotlib clips all the same, the grid, is not.
    element.attrib.pop("clip-path", None)
    found = element.attrib.pop("id", None)
    if found in used:
        element.set("id", f"{name}-{found}")
    if (href := element.get("href", "")).startswith("#"):
        element.set("href", f"#{name}-{href[1:]}")
    for attribute in ("d", "x", "y", "width", "height", "transform", "style"):
        value = element.get(attribute)
        if value is not None:
            element.set(attribute, _LONG_NUMBER.sub(_shorter, " ".join(value.split())))
    if (element.get("transform") or "").startswith("rotate(-0 "):
        del element.attrib["transform"]
    if style := element.get("style"):
        if element.tag == "text":
            style = _FONT.sub(_size_only, style)
        style = _COLOUR.sub(lambda m: f"var(--{_VARIABLES[m.group()]})", style)
        element.set("style", style.replace("; ", ";").replace(": ", ":").strip(" ;"))


def _size_only(font: re.Match[str]) -> str:
    size = re.search(r"[\d.]+px", font.group())
    return f"font-size:{size.group()};" if size else ""


def _shorter(number: re.Match[str]) -> str:
    short = f"{float(number.group()):.2f}".rstrip("0").rstrip(".")
    return "0" if short == "-0" else short


def _needed(root: ET.Element) -> Iterator[ET.Element]:
    """The elements without what is not seen, and without groups that add nothing."""
    for child in root:
        inner = list(_needed(child))
        unseen = child.tag == "path" and child.get("style") == "fill:none"
        if unseen or child.tag == "clipPath" or (child.tag == "defs" and not inner):
            continue
        if child.tag != "g" or child.attrib:
            for each in list(child):
                child.remove(each)
            child.extend(inner)
            yield child
        else:
            yield from inner


def key(arm: int) -> str:
    """An arm's line with its marker, as a `symbol` that legends refer to by the id `key-<arm>`."""

    def draw(figure: Figure) -> None:
        ax = axes(figure, left=0, right=0, top=0, bottom=0)
        bare(ax)
        ax.set_xlim(0, 1)
        ax.set_ylim(0, 1)
        ax.plot([0.02, 0.98], [0.5, 0.5], color=colour(arm), linestyle=dashes(arm), clip_on=False)
        ax.scatter([0.5], [0.5], s=40, marker=marker(arm), color=colour(arm), lw=0, clip_on=False)

    drawn = ET.fromstring(rendered(draw, name=f"k{arm}", size=(34, 12)))
    symbol = ET.Element("symbol", {"id": f"key-{arm}", "viewBox": drawn.get("viewBox", "")})
    symbol.extend(drawn)
    return ET.tostring(symbol, encoding="unicode")
