"""Checks of a page: axe-core's rules, and what axe-core does not check."""

from __future__ import annotations

import math
from typing import Any

from axe_playwright_python.base import AXE_SCRIPT
from axe_playwright_python.sync_playwright import Axe

from tests.browser.opening import Opened

#: Rules of axe-core that run only when they are asked for.
MORE_RULES = ("duplicate-id", "identical-links-same-purpose", "td-has-header")
CONTRAST = "color-contrast"


def faults(page: Opened) -> list[str]:
    """The faults that axe-core finds or leaves to a person to judge, except contrast."""
    rules = {name: {"enabled": True} for name in MORE_RULES} | {CONTRAST: {"enabled": False}}
    return _axe(page, ("violations", "incomplete"), {"rules": rules})


def faint_text(page: Opened) -> list[str]:
    """Text with too little contrast for WCAG. For text in figures see `figure_contrasts`."""
    page.in_page(_TAKE_OUT)
    try:
        return _axe(page, ("violations",), {"runOnly": [CONTRAST]})
    finally:
        page.in_page(_PUT_BACK)


def figure_contrasts(page: Opened) -> dict[str, Any]:
    """Contrasts in figures, which axe-core does not check.

    "text" has the contrast of each text, "shapes" the least contrast of each arm's shapes, and
    "paper" the luminance of the page's background.
    """
    page.in_page(AXE_SCRIPT)
    contrasts: dict[str, Any] = page.in_page(_FIGURE_CONTRASTS)
    return contrasts


def _axe(page: Opened, kinds: tuple[str, ...], options: dict[str, Any]) -> list[str]:
    """axe-core's results of these kinds, each as `rule: element`."""
    answer = Axe().run(page.tab, None, {**options, "resultTypes": kinds}).response
    assert answer["passes"], "axe-core looked at nothing"
    return [
        f"{rule['id']}: {element['html'][:120]}"
        for kind in kinds
        for rule in answer[kind]
        for element in rule["nodes"]
    ]


#: Take out what figures hold, and each row, item and paragraph in which all texts look like earlier
#: ones, until `_PUT_BACK`: axe-core takes 2 ms for each text. Two texts look alike here if they are
#: equal in all that their contrast depends on.
_TAKE_OUT = """() => {
  const text = each => [...each.childNodes].some(node => node.nodeType === 3 && node.data.trim());
  const look = each => { const style = getComputedStyle(each), chain = [];
    for (let it = each; it; it = it.parentElement) { const behind = getComputedStyle(it);
      chain.push(behind.backgroundColor, behind.backgroundImage, behind.opacity) }
    return [style.color, style.fontSize, style.fontWeight, ...chain].join() };
  const seen = new Set(), repeated = each => { if (!each.checkVisibility()) return false;
    const looks = [each, ...each.querySelectorAll('*')].filter(text).map(look);
    const known = looks.every(each => seen.has(each));
    looks.forEach(each => seen.add(each));
    return known };
  window.takenOut = [...document.querySelectorAll('svg > *'),
    ...[...document.querySelectorAll('tr, li, p')].filter(repeated)]
    .map(each => [each, document.createComment('')]);
  for (const [each, place] of takenOut) each.replaceWith(place) }"""
_PUT_BACK = "() => { for (const [each, place] of takenOut.reverse()) place.replaceWith(each) }"

#: The accessible name of an element. Other scripts begin with this one.
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

#: All figures: each one's name, size, number of shapes and kind.
FIGURES = f"""() => {{ {_NAMED}
  return [...document.querySelectorAll('svg[role=img]')].map(each => ({{
    name: named(each).trim(),
    kind: each.closest('figure')?.dataset.figure ?? '',
    width: each.getBoundingClientRect().width, height: each.getBoundingClientRect().height,
    shapes: each.querySelectorAll('path, circle, line, rect, use, polyline, image').length,
    hidden: !each.checkVisibility() }}))
}}"""

#: References of links and styles to ids that no element of the page has.
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

#: Elements that extend past the window's edge, unless their container scrolls. Elements entirely
#: past the left edge are allowed, because they become visible by keyboard.
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

#: The number of texts in figures, and those smaller than `least` CSS pixels on the screen.
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

#: The color of each arm in a legend, and the shape of its marker and line.
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

#: Regions that scroll sideways but have no name or cannot be reached with Tab.
UNREACHED_SCROLLERS = """() => [...document.querySelectorAll('body *')]
  .filter(each => ['auto', 'scroll'].includes(getComputedStyle(each).overflowX)
    && (each.tabIndex !== 0 || !each.getAttribute('aria-label')
      && !each.getAttribute('aria-labelledby')))
  .map(each => each.textContent.slice(0, 40))"""


def difference(one: tuple[int, ...], other: tuple[int, ...]) -> float:
    """The distance of two colors (sRGB, 0 to 255) in CIELAB (CIE 1976)."""
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
