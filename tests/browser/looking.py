"""What the tests look for in a page: axe-core's rules, and what these do not tell."""

from __future__ import annotations

import math
from typing import Any

from axe_playwright_python.base import AXE_SCRIPT
from axe_playwright_python.sync_playwright import Axe

from tests.browser.opening import Opened

#: Rules of axe-core that run only when they are asked for.
MORE_RULES = ("duplicate-id", "identical-links-same-purpose", "td-has-header")
CONTRAST = "color-contrast"
#: All rows of a table look alike, and axe-core takes a quarter of a minute for thousands of cells.
LATER_ROWS = "tr:nth-child(n+12)"


def faults(page: Opened) -> list[str]:
    """What axe-core finds in a page, or leaves to a person to judge; all but contrast."""
    rules = {name: {"enabled": True} for name in MORE_RULES} | {CONTRAST: {"enabled": False}}
    return _axe(page, ("violations", "incomplete"), {"rules": rules})


def faint_text(page: Opened) -> list[str]:
    """Text that stands out less than WCAG asks for; `figure_contrasts` has that of figures."""
    options = {"runOnly": [CONTRAST]}
    return _axe(page, ("violations",), options, {"exclude": ["svg *", LATER_ROWS]})


def figure_contrasts(page: Opened) -> dict[str, Any]:
    """What axe-core leaves open: the contrast of each text in a figure, under "text", and the least
    of what each arm is drawn with, under "shapes"; and the luminance of the page's "paper".
    """
    page.in_page(AXE_SCRIPT)
    found: dict[str, Any] = page.in_page(_FIGURE_CONTRASTS)
    return found


def _axe(
    page: Opened,
    kinds: tuple[str, ...],
    options: dict[str, Any],
    context: dict[str, Any] | None = None,
) -> list[str]:
    """The results of some kinds, each as `rule: element`."""
    answer = Axe().run(page.tab, context, {**options, "resultTypes": kinds}).response
    assert answer["passes"], "axe-core looked at nothing"
    return [
        f"{rule['id']}: {element['html'][:120]}"
        for kind in kinds
        for rule in answer[kind]
        for element in rule["nodes"]
    ]


#: What assistive technology calls an element; other scripts begin with it.
_NAMED = """const named = each => each.getAttribute('aria-label')
  || (each.getAttribute('aria-labelledby') || '').split(/\\s+/).filter(Boolean)
    .map(id => document.getElementById(id)?.textContent ?? '').join(' ');
"""

_FIGURE_CONTRASTS = (
    f"() => {{ {_NAMED}"
    + """
  const {Color, flattenColors, getContrast} = axe.commons.color;
  const parsed = css => { const colour = new Color(); colour.parseString(css); return colour };
  const behind = each => each === null ? new Color(255, 255, 255, 1)
    : flattenColors(parsed(getComputedStyle(each).backgroundColor), behind(each.parentElement));
  const solid = (each, property) => { const style = getComputedStyle(each);
    if (style[property] === 'none') return null;
    const colour = parsed(style[property]);
    colour.alpha *= style.opacity * style[property + 'Opacity'];
    return colour };
  // What is painted under a point of a figure: the shapes before the text in its own figure.
  const painted = (text, figure) => { const box = text.getBoundingClientRect();
    const x = box.x + box.width / 2, y = box.y + box.height / 2;
    let paper = behind(figure);
    for (const shape of figure.querySelectorAll('rect, path, circle, polygon')) {
      if (shape.closest('defs, clipPath')
          || !(shape.compareDocumentPosition(text) & Node.DOCUMENT_POSITION_FOLLOWING)) continue;
      const area = shape.getBoundingClientRect();
      if (x < area.left || x > area.right || y < area.top || y > area.bottom) continue;
      const at = new DOMPoint(x, y).matrixTransform(shape.getScreenCTM().inverse());
      const fill = solid(shape, 'fill');
      if (fill && shape.isPointInFill(at)) paper = flattenColors(fill, paper);
    }
    return paper };
  const text = {}, shapes = {};
  const keep = (into, what, value) => { into[what] = Math.min(into[what] ?? Infinity, value) };
  for (const each of document.querySelectorAll('svg text')) {
    if (!each.textContent.trim() || !each.checkVisibility()) continue;
    const figure = each.closest('svg');
    keep(text, `${each.textContent.trim().slice(0, 24)} in ${named(figure).slice(0, 40)}`,
      getContrast(painted(each, figure), solid(each, 'fill')));
  }
  for (const each of document.querySelectorAll('svg [style*="--arm-"]')) {
    if (each.closest('symbol, defs') || !each.checkVisibility()) continue;
    const paper = behind(each.closest('svg')), drawn = ['fill', 'stroke']
      .map(property => solid(each, property)).filter(colour => colour && colour.alpha > 0.5);
    if (drawn.length) keep(shapes, each.getAttribute('style').match(/--arm-\\d+/)[0],
      Math.max(...drawn.map(colour => getContrast(paper, colour))));
  }
  return {text, shapes, paper: behind(document.body).getRelativeLuminance()};
}"""
)

#: Every figure that is drawn: its name, how large it is, of how many shapes, of which kind.
FIGURES = f"""() => {{ {_NAMED}
  return [...document.querySelectorAll('svg[role=img]')].map(each => ({{
    name: named(each).trim(),
    kind: each.closest('figure')?.dataset.figure ?? '',
    width: each.getBoundingClientRect().width, height: each.getBoundingClientRect().height,
    shapes: each.querySelectorAll('path, circle, line, rect, use, polyline, image').length,
    hidden: !each.checkVisibility() }}))
}}"""

#: What links and styles refer to within the page by ids that no element has.
DANGLING = """() => {
  const dangling = new Set();
  const check = id => { if (!document.getElementById(id)) dangling.add(id) };
  for (const each of document.querySelectorAll('*'))
    for (const {name, value} of each.attributes) {
      for (const found of value.matchAll(/url\\(['"]?#([^'")]+)['"]?\\)/g)) check(found[1]);
      if (/^(xlink:)?href$/.test(name) && value.startsWith('#') && value !== '#')
        check(decodeURIComponent(value.slice(1)));
    }
  return [...dangling];
}"""

#: Elements that stick out of the window, unless what holds them scrolls; what lies beyond its left
#: edge altogether is kept for those who come to it by keyboard.
OUT_OF_SIGHT = """() => {
  const scrolls = each => { for (let it = each.parentElement; it; it = it.parentElement)
    if (['auto', 'scroll', 'hidden', 'clip'].includes(getComputedStyle(it).overflowX)) return true;
    return false };
  const wide = document.documentElement.clientWidth;
  return [...document.body.querySelectorAll('*')]
    .filter(each => each.checkVisibility() && !each.closest('svg svg, svg *'))
    .filter(each => { const box = each.getBoundingClientRect();
      return box.width > 1 && box.right > 0 && (box.right > wide + 1 || box.left < -1)
        && !scrolls(each) })
    .map(each => `${each.tagName}.${each.getAttribute('class')}`);
}"""

#: Text in figures, of which some may be smaller on the screen than so many CSS pixels.
SMALL_TEXT = """least => {
  const texts = [...document.querySelectorAll('svg text')]
    .filter(each => each.textContent.trim() && each.checkVisibility());
  const small = new Set();
  for (const each of texts) {
    const to = each.getScreenCTM(), size = parseFloat(getComputedStyle(each).fontSize)
      * Math.sqrt(Math.abs(to.a * to.d - to.b * to.c));
    if (size < least - 0.01) small.add(`${size.toFixed(1)}: ${each.textContent.slice(0, 30)}`);
  }
  return {texts: texts.length, small: [...small].slice(0, 20)};
}"""

#: For each arm in a legend: its colour, and the shape of its marker and line.
LEGENDS = """() => {
  const arms = {};
  for (const use of document.querySelectorAll('figure svg.key use')) {
    const symbol = document.querySelector(use.getAttribute('href'));
    const shapes = [...symbol.querySelectorAll('path')];
    const colours = shapes.flatMap(each => { const style = getComputedStyle(each);
      return [style.fill, style.stroke] }).filter(each => each !== 'none');
    arms[use.getAttribute('href')] = {colour: colours.at(-1),
      shape: shapes.map(each => each.getAttribute('d')
        + getComputedStyle(each).strokeDasharray).join(' ')};
  }
  return arms;
}"""

#: Regions that scroll sideways and have no name, or that Tab does not reach.
UNREACHED_SCROLLERS = """() => [...document.querySelectorAll('body *')]
  .filter(each => ['auto', 'scroll'].includes(getComputedStyle(each).overflowX)
    && (each.tabIndex !== 0 || !each.getAttribute('aria-label')
      && !each.getAttribute('aria-labelledby')))
  .map(each => each.textContent.slice(0, 40))"""


def difference(one: tuple[int, ...], other: tuple[int, ...]) -> float:
    """How far two colours (sRGB, 0 to 255) are apart in CIELAB (CIE 1976)."""
    return math.dist(_lab(one), _lab(other))


def _lab(colour: tuple[int, ...]) -> tuple[float, float, float]:
    linear = [
        v / 12.92 if v <= 0.04045 else ((v + 0.055) / 1.055) ** 2.4
        for v in (channel / 255 for channel in colour[:3])
    ]
    r, g, b = linear
    x = (0.4124 * r + 0.3576 * g + 0.1805 * b) / 0.9505
    y = 0.2126 * r + 0.7152 * g + 0.0722 * b
    z = (0.0193 * r + 0.1192 * g + 0.9505 * b) / 1.089
    fx, fy, fz = (v ** (1 / 3) if v > 0.008856 else 7.787 * v + 16 / 116 for v in (x, y, z))
    return 116 * fy - 16, 500 * (fx - fy), 200 * (fy - fz)
