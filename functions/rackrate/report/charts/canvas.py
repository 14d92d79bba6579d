"""The base of all charts: a matplotlib figure, and the conversion of its SVG for the page.

matplotlib is imported when the first chart is drawn, because the import takes a second and other
stages do not need it.
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
from typing import TYPE_CHECKING, Any, NamedTuple

from markupsafe import Markup

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

#: A chart's width in units. A unit is about 0.8 CSS pixels on a phone and 1.3 on a wide screen.
#: Text of 11 units is readable on both, and no text is smaller.
WIDTH = 400
FONT_SIZE = 11
#: Charts with more dots than this draw them as an image, because vectors would dominate the page's
#: size.
MOST_VECTORS = 1500

#: Placeholders for the page's colors, which depend on light or dark mode. Each is replaced by
#: `var(--name)`.
INK, QUIET, LINE, PAPER, BAND = "#010a01", "#010a02", "#010a03", "#010a04", "#010a05"
_VARIABLES = {INK: "ink", QUIET: "quiet", LINE: "line", PAPER: "paper", BAND: "band"}
#: The number of colors for arms in the style sheet.
COLOURS = 6
_VARIABLES |= {f"#010b{index:02x}": f"arm-{index}" for index in range(COLOURS)}
#: Colors of the dots in an image, which cannot follow the page. They show on white and on black.
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
    "axes.axisbelow": True,
    "axes.labelcolor": QUIET,
    "axes.linewidth": 1,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.unicode_minus": True,
    "figure.facecolor": "none",
    "grid.color": LINE,
    "grid.linewidth": 0.8,
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
#: Characters that XML does not allow but matplotlib would write.
_CONTROL = re.compile(r"[\x00-\x08\x0b\x0c\x0e-\x1f\ud800-\udfff\ufffe\uffff]")

#: The tips by the artist's id: one text for each mark that the artist draws.
Tips = Mapping[str, Sequence[str]]


def colour(arm: int) -> str:
    """The placeholder for an arm's color."""
    return f"#010b{arm % COLOURS:02x}"


def fixed_colour(arm: int) -> str:
    """An arm's color in an image, where it cannot follow the page."""
    return _FIXED[arm % COLOURS]


def marker(arm: int) -> str:
    """An arm's marker, which differs between arms even where colors repeat."""
    return _MARKERS[(arm + arm // COLOURS) % len(_MARKERS)]


def dashes(arm: int) -> Any:
    """An arm's line style."""
    return _DASHES[(arm + arm // COLOURS) % len(_DASHES)]


def clean(text: str) -> str:
    """The text with characters that XML does not allow replaced."""
    return _CONTROL.sub("\N{REPLACEMENT CHARACTER}", text)


class Chart(NamedTuple):
    """A chart.

    Attributes:
        draw: draws on an empty figure, and returns tips for marks by the ids (`gid`) of artists.
        width, height: its size in units.
    """

    draw: Callable[[Figure], Tips | None]
    width: float
    height: float

    def svg(self, name: str, title: str = "", description: str = "") -> Markup:
        """The chart as an `svg` element for a page.

        Args:
            name: the chart's name within the page, with which its ids begin.
            title: the title. A chart without one is decoration, which screen readers skip.
            description: a description for screen readers.
        """
        matplotlib = _matplotlib()
        from matplotlib.backends.backend_svg import FigureCanvasSVG
        from matplotlib.figure import Figure

        with matplotlib.rc_context({**_STYLE, "svg.hashsalt": name}), warnings.catch_warnings():
            warnings.simplefilter("ignore")  # its font lacks glyphs that the reader's font has
            figure = Figure(figsize=(self.width / 72, self.height / 72), dpi=144)
            canvas: Any = FigureCanvasSVG(figure)
            tips = self.draw(figure) or {}
            for artist in figure.findobj():
                artist.set_clip_on(False)  # a mark on the edge of the axes is shown whole
            buffer = io.StringIO()
            canvas.print_svg(buffer, metadata={"Date": None})
        return Markup(_for_page(buffer.getvalue(), name, title, description, tips))


@cache
def _matplotlib() -> Any:
    """The matplotlib module, with its cache in a directory that Lambda can write to."""
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


def with_side(
    figure: Figure, side: float, *, left: float, top: float, bottom: float
) -> tuple[Axes, Axes]:
    """Axes, and others with the same vertical axis at their right, `side` units wide."""
    main = axes(figure, left=left, right=side + 14, top=top, bottom=bottom)
    beside = axes(figure, left=WIDTH - side, right=4, top=top, bottom=bottom, sharey=main)
    for ax in (main, beside):
        ax.grid(axis="y")
    return main, beside


def heading(figure: Figure, text: str) -> None:
    """Write the label of the vertical axis at the top of the chart."""
    height = 72 * figure.get_size_inches()[1]
    figure.text(0.005, 1 - 3 / height, text, color=QUIET, va="top")


def _for_page(svg: str, name: str, title: str, description: str, tips: Tips) -> str:
    """matplotlib's document as an element with unique ids, the page's colors, and a small size."""
    root = ET.fromstring(clean(svg))
    for group in list(root):
        if group.tag in (f"{_SVG}metadata", f"{_SVG}defs"):
            # Its style sheet would apply to the whole page. Ours contains the needed rules.
            root.remove(group)
    for element in root.iter():
        element.tag = element.tag.removeprefix(_SVG)
        if _HREF in element.attrib:
            element.set("href", element.attrib.pop(_HREF).replace("\n", ""))
        if text := tips.get(element.get("id", "")):
            _tell(element, text)
    used = {href[1:] for each in root.iter() if (href := each.get("href", "")).startswith("#")}
    for element in root.iter():
        _tidy(element, name, used)
        element.text, element.tail = (element.text or "").strip() or None, None
    frame = ET.Element("svg", {"viewBox": root.get("viewBox", ""), "class": "chart"})
    if title:
        frame.attrib |= {"role": "img", "aria-labelledby": f"{name}-title {name}-desc"}
        for tag, text in (("title", title), ("desc", description)):
            ET.SubElement(frame, tag, {"id": f"{name}-{tag}"}).text = clean(text)
    else:
        frame.set("aria-hidden", "true")
    frame.extend(list(_needed(root)))
    return ET.tostring(frame, encoding="unicode")


def _tell(group: ET.Element, tips: Sequence[str]) -> None:
    """Put a tip on each mark of a group, in the order in which they were drawn."""
    marks = list(_marks(group))
    if len(marks) != len(tips):
        return  # matplotlib left some marks out, so tips could land on the wrong mark
    for mark, tip in zip(marks, tips, strict=True):
        ET.SubElement(mark, "title").text = clean(tip)
    styles = {mark.get("style", "") for mark in marks}
    if len(styles) == 1:
        # Set the style once, because for a thousand marks it would be most of the chart's size.
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
    """Keep an id only if it is used, turn colors into variables, and shorten numbers."""
    # Nothing is drawn outside the axes, so clipping is not needed.
    element.attrib.pop("clip-path", None)
    own_id = element.attrib.pop("id", None)
    if own_id in used:
        element.set("id", f"{name}-{own_id}")
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
    """The elements without invisible ones and without groups that add nothing."""
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
    """An arm's line and marker as a `symbol`, which legends use by its id `key-<arm>`."""

    def draw(figure: Figure) -> None:
        ax = axes(figure, left=0, right=0, top=0, bottom=0)
        ax.set_axis_off()
        ax.set(xlim=(0, 1), ylim=(0, 1))
        ax.plot([0.02, 0.98], [0.5, 0.5], color=colour(arm), linestyle=dashes(arm))
        ax.scatter([0.5], [0.5], s=40, marker=marker(arm), color=colour(arm), lw=0)

    drawn = ET.fromstring(Chart(draw, 34, 12).svg(f"k{arm}"))
    symbol = ET.Element("symbol", {"id": f"key-{arm}", "viewBox": drawn.get("viewBox", "")})
    symbol.extend(drawn)
    return ET.tostring(symbol, encoding="unicode")
