"""What the tests look for in a page: functions that run in it, and the colours that they find."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

#: What assistive technology calls an element; other scripts begin with it.
_NAMED = """const named = each => each.getAttribute('aria-label')
  || (each.getAttribute('aria-labelledby') || '').split(/\\s+/).filter(Boolean)
    .map(id => document.getElementById(id)?.textContent ?? '').join(' ');
"""

#: Every figure that is drawn: its name, how large it is, of how many shapes, of which kind.
FIGURES = f"""() => {{ {_NAMED}
  return [...document.querySelectorAll('svg[role=img]')].map(each => ({{
    name: named(each).trim(),
    kind: each.closest('figure')?.dataset.figure ?? '',
    width: each.getBoundingClientRect().width, height: each.getBoundingClientRect().height,
    shapes: each.querySelectorAll('path, circle, line, rect, use, polyline, image').length,
    hidden: !each.checkVisibility() }}))
}}"""

#: Ids that several elements have, and references within the page to ids that none has.
REFERENCES = """() => {
  const ids = [...document.querySelectorAll('[id]')].map(each => each.id);
  const twice = [...new Set(ids.filter((id, at) => ids.indexOf(id) !== at))];
  const known = new Set(ids), dangling = new Set();
  const check = id => { if (!known.has(id)) dangling.add(id) };
  for (const each of document.querySelectorAll('*'))
    for (const {name, value} of each.attributes) {
      for (const found of value.matchAll(/url\\(['"]?#([^'")]+)['"]?\\)/g)) check(found[1]);
      if (/^(xlink:)?href$/.test(name) && value.startsWith('#') && value !== '#')
        check(decodeURIComponent(value.slice(1)));
      if (['aria-labelledby', 'aria-describedby', 'aria-controls', 'for', 'headers'].includes(name))
        value.split(/\\s+/).forEach(check);
    }
  return {twice, dangling: [...dangling]};
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

#: The worst contrast of each kind of text, and of what arms are drawn with; the paper's luminance.
CONTRASTS = (
    f"() => {{ {_NAMED}"
    + """
  const canvas = new OffscreenCanvas(1, 1).getContext('2d', {willReadFrequently: true});
  const rgba = css => { canvas.clearRect(0, 0, 1, 1); canvas.fillStyle = css;
    canvas.fillRect(0, 0, 1, 1); const [r, g, b, a] = canvas.getImageData(0, 0, 1, 1).data;
    return [r, g, b, a / 255] };
  const over = (top, below) => [0, 1, 2].map(n => top[n] * top[3] + below[n] * (1 - top[3]));
  const luminance = colour => { const [r, g, b] = colour.slice(0, 3).map(v => v / 255)
    .map(v => v <= 0.04045 ? v / 12.92 : ((v + 0.055) / 1.055) ** 2.4);
    return 0.2126 * r + 0.7152 * g + 0.0722 * b };
  const contrast = (one, other) => { const [dark, light] =
    [luminance(one), luminance(other)].sort((a, b) => a - b);
    return (light + 0.05) / (dark + 0.05) };
  const white = getComputedStyle(document.documentElement).colorScheme.includes('dark')
    && matchMedia('(prefers-color-scheme: dark)').matches ? [18, 18, 18] : [255, 255, 255];
  const behind = each => { const layers = [];
    for (let it = each; it; it = it.parentElement)
      if (!(it instanceof SVGElement) || it instanceof SVGSVGElement)
        layers.push(rgba(getComputedStyle(it).backgroundColor));
    return layers.reduceRight((below, top) => over(top, below), white) };
  const solid = (each, property) => { const style = getComputedStyle(each);
    if (style[property] === 'none') return null;
    const colour = rgba(style[property]);
    colour[3] *= style.opacity * style[property + 'Opacity'];
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
      if (fill && shape.isPointInFill(at)) paper = over(fill, paper);
    }
    return paper };
  const text = {}, shapes = {};
  const keep = (into, what, value) => {
    into[what] = Math.min(into[what] ?? Infinity, Math.round(value * 100) / 100) };
  const words = document.createTreeWalker(document.body, NodeFilter.SHOW_TEXT);
  const seen = new Map();
  while (words.nextNode()) {
    const each = words.currentNode.parentElement;
    if (!words.currentNode.data.trim() || !each.checkVisibility()) continue;
    if (each.closest('svg')) {
      if (each.closest('title, desc, defs, style')) continue;
      const figure = each.closest('svg'), shown = each.closest('text');
      if (!shown) continue;
      const paper = painted(shown, figure);
      const ink = solid(each, 'fill');
      keep(text, `${each.textContent.trim().slice(0, 24)} in ${named(figure).slice(0, 40)}`,
        contrast(over(ink, paper), paper));
    } else {
      const style = getComputedStyle(each), kind = `${each.tagName} .${each.className} `
        + `${each.parentElement.tagName} .${each.parentElement.className} ${style.color}`;
      if (seen.has(kind) && seen.get(kind) > 20) continue;
      seen.set(kind, (seen.get(kind) ?? 0) + 1);
      const paper = behind(each);
      keep(text, kind, contrast(over(rgba(style.color), paper), paper));
    }
  }
  for (const each of document.querySelectorAll('svg [style*="--arm-"]')) {
    if (each.closest('symbol, defs') || !each.checkVisibility()) continue;
    const paper = behind(each.closest('svg')), best = ['fill', 'stroke']
      .map(property => solid(each, property)).filter(colour => colour && colour[3] > 0.5);
    if (best.length) keep(shapes, each.getAttribute('style').match(/--arm-\\d+/)[0],
      Math.max(...best.map(colour => contrast(over(colour, paper), paper))));
  }
  return {text, shapes, paper: luminance(behind(document.body))};
}"""
)

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

#: Tables whose cells have no header, and regions that scroll but cannot be reached.
ACCESSIBLE = """() => {
  const faults = [];
  for (const table of document.querySelectorAll('table')) {
    const heads = [...table.querySelectorAll('th')];
    if (!heads.length || heads.some(each => !each.getAttribute('scope')))
      faults.push(`a table without headers: ${table.textContent.slice(0, 40)}`);
  }
  for (const each of document.querySelectorAll('body *'))
    if (['auto', 'scroll'].includes(getComputedStyle(each).overflowX)
        && (each.tabIndex !== 0 || !each.getAttribute('aria-label')
          && !each.getAttribute('aria-labelledby')))
      faults.push(`what scrolls has no name or no tab stop: ${each.textContent.slice(0, 40)}`);
  return faults;
}"""


def properties(node: Mapping[str, Any]) -> dict[str, Any]:
    """The properties of a node of the accessibility tree."""
    return {each["name"]: each["value"].get("value") for each in node.get("properties", [])}


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
