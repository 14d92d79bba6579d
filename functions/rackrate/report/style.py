"""The page's style sheet: light and dark, on a screen and on paper."""

from __future__ import annotations

from rackrate.report.figures import COLOURS

_COLOURS = "".join(
    f"""
circle.arm-{i} {{ fill: var(--arm-{i}); }} line.arm-{i} {{ stroke: var(--arm-{i}); }}
path.arm-{i} {{ stroke: var(--arm-{i}); }} .key.arm-{i} {{ background: var(--arm-{i}); }}"""
    for i in range(COLOURS)
)

STYLE = (
    """
:root { color-scheme: light dark; --ink: #1d2430; --quiet: #667085; --paper: #fff; --line: #e3e7ee;
  --arm-0: #c2410c; --arm-1: #1d4ed8; --arm-2: #047857; --arm-3: #7e22ce; --arm-4: #a16207;
  --arm-5: #be185d; --good: #047857; --bad: #b91c1c; --doubt: #92600a; --band: #e8eef7; }
@media (prefers-color-scheme: dark) { :root { --ink: #e6e9ef; --quiet: #98a2b3; --paper: #12161d;
  --line: #2a313c; --arm-0: #fb923c; --arm-1: #7aa2ff; --arm-2: #34d399; --arm-3: #c084fc;
  --arm-4: #facc15; --arm-5: #f472b6; --good: #34d399; --bad: #f87171; --doubt: #e3b341;
  --band: #1f2836; } }
body { font: 16px/1.5 system-ui, sans-serif; color: var(--ink); background: var(--paper);
  max-width: 60rem; margin: 2rem auto; padding: 0 1rem; overflow-wrap: break-word; }
h1 { font-size: 1.5rem; margin-bottom: .2rem; } h2 { font-size: 1.2rem; margin-top: 2.4rem; }
h3 { font-size: 1rem; margin: 1.6rem 0 .3rem; }
.quiet, figcaption { color: var(--quiet); font-size: .9rem; } .lead { font-size: 1.1rem; }
.scroll { overflow-x: auto; } table { border-collapse: collapse; width: 100%; font-size: .9rem; }
th, td { text-align: left; padding: .35rem .8rem .35rem 0; border-bottom: 1px solid var(--line);
  vertical-align: top; overflow-wrap: normal; } th { font-weight: 600; }
td.number { font-variant-numeric: tabular-nums; white-space: nowrap; }
.better { color: var(--good); font-weight: 600; } .worse { color: var(--bad); font-weight: 600; }
.inconclusive { color: var(--doubt); }
.failed { border-left: 4px solid var(--bad); padding-left: .8rem; white-space: pre-wrap; }
.warning { border-left: 4px solid var(--doubt); padding-left: .8rem; margin: .6rem 0;
  white-space: pre-wrap; }
ul { padding-left: 1.2rem; margin: .4rem 0; } summary { cursor: pointer; }
figure { margin: 1rem 0; } svg { width: 100%; height: auto; display: block; }
.grid { stroke: var(--line); } .tick { fill: var(--quiet); font-size: 11px; }
.band { fill: var(--band); } .interval { stroke: var(--ink); stroke-width: 5; }
.wider { stroke: var(--ink); stroke-width: 1.5; } .ratio { fill: var(--ink); }
.ceiling { stroke-dasharray: 5 4; stroke-width: 1.5; }
path.marked { fill: var(--paper); stroke-width: 2; }
.key { display: inline-block; width: .7em; height: .7em; border-radius: 50%;
  margin: 0 .3em 0 .8em; }"""
    + _COLOURS
    + """
@media print { body { max-width: none; margin: 0; } .scroll { overflow: visible; } }
"""
)
