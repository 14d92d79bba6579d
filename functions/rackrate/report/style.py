"""The page's style sheet: light and dark mode, wide and narrow screens, and print."""

from __future__ import annotations

# The arms' colors are Okabe and Ito's, which readers with color blindness can distinguish, shaded
# for contrast with the background. Markers and line styles also distinguish the arms.
STYLE = """
:root { color-scheme: light dark; --ink: #1b2230; --quiet: #596377; --paper: #fff; --line: #dfe3ea;
  --arm-0: #c65200; --arm-1: #0069a8; --arm-2: #00805c; --arm-3: #a8487f; --arm-4: #8f6a00;
  --arm-5: #5b5f66; --good: #00704f; --bad: #b3261e; --doubt: #85550a; --band: #dfe7f2;
  --link: #0a58a8; --panel: #f6f8fb; }
@media screen and (prefers-color-scheme: dark) { :root { --ink: #e7eaf0; --quiet: #a3adbd;
  --paper: #12161d; --line: #2e3643; --arm-0: #ff9248; --arm-1: #5fb6ee; --arm-2: #2fc79a;
  --arm-3: #e59ac7; --arm-4: #ecc34f; --arm-5: #b4bac4; --good: #44cf9f; --bad: #ff8a80;
  --doubt: #e9b949; --band: #233044; --link: #7ab8f5; --panel: #181e27; } }
* { box-sizing: border-box; }
html { scroll-behavior: smooth; scroll-padding-top: 3rem; -webkit-text-size-adjust: 100%; }
@media (prefers-reduced-motion: reduce) { html { scroll-behavior: auto; } }
body { font: 16px/1.55 system-ui, -apple-system, "Segoe UI", Roboto, "Liberation Sans", sans-serif;
  color: var(--ink); background: var(--paper); max-width: 72rem; margin: 0 auto;
  padding: 1.5rem 1.25rem 3rem; overflow-wrap: anywhere; }
h1 { font-size: 1.45rem; line-height: 1.25; margin: 0 0 .2rem; }
h2 { font-size: 1.25rem; margin: 0 0 .6rem; } h3 { font-size: 1.02rem; margin: 1.4rem 0 .4rem; }
p { margin: .5rem 0; max-width: 46rem; } a { color: var(--link); }
a:focus-visible, button:focus-visible, summary:focus-visible, [tabindex]:focus-visible {
  outline: 3px solid var(--link); outline-offset: 2px; border-radius: 2px; }
.skip { position: absolute; left: -100rem; } .skip:focus { left: 1rem; top: .5rem; padding: .4rem;
  background: var(--paper); z-index: 1; }
section { margin-top: 2.6rem; padding-top: 1.4rem; border-top: 1px solid var(--line); }
main > section:first-child { margin-top: 1rem; border-top: 0; padding-top: .4rem; }
main > section:first-child > h2 { position: absolute; width: 1px; height: 1px; overflow: hidden;
  clip-path: inset(50%); }
nav ul { display: flex; flex-wrap: wrap; gap: .2rem 1.1rem; list-style: none; padding: 0;
  margin: .6rem 0 0; font-size: .92rem; }
.quiet, figcaption, caption { color: var(--quiet); font-size: .88rem; font-weight: 400; }
figcaption strong { color: var(--ink); font-size: .95rem; }
.headline { font-size: 1.35rem; line-height: 1.4; font-weight: 600; margin: .4rem 0 .8rem; }
.lab { position: sticky; top: 0; z-index: 2; max-width: none; margin: 0 0 1rem;
  padding: .35rem .8rem; color: #1b2230; background: #ffd166; font-size: .92rem; }
.lab::before { content: "\\25b3\\00a0"; }
.tiles { display: grid; grid-template-columns: repeat(auto-fill, minmax(11.5rem, 1fr)); gap: .7rem;
  list-style: none; padding: 0; margin: 1rem 0; }
.tiles li { display: flex; flex-direction: column; gap: .1rem; padding: .7rem .8rem;
  background: var(--panel); border: 1px solid var(--line); border-radius: .4rem; }
.tiles .change { font-size: 1.55rem; line-height: 1.25; font-weight: 600;
  font-variant-numeric: tabular-nums; }
.timeline td, .timeline th.number { text-align: center; padding: .3rem .7rem; }
.timeline .whole { color: var(--good); } .timeline .part { color: var(--doubt); }
.timeline .none { color: var(--bad); font-weight: 600; }
.meaning { display: grid; grid-template-columns: repeat(auto-fit, minmax(min(100%, 17rem), 1fr));
  gap: .2rem 2rem; } .meaning h3 { margin-top: .4rem; }
.failed, .warning { border-left: 4px solid var(--bad); padding-left: .8rem; white-space: pre-wrap; }
.warning { border-color: var(--doubt); } .noted { border-left: 4px solid var(--doubt);
  padding-left: .8rem; margin: 1rem 0; }
.scroll { overflow-x: auto; max-width: 100%; margin: .5rem 0; }
table { border-collapse: collapse; font-size: .88rem; overflow-wrap: normal; }
caption { text-align: left; padding-bottom: .3rem; }
th, td { text-align: left; padding: .35rem 1rem .35rem 0; border-bottom: 1px solid var(--line);
  vertical-align: top; } th { font-weight: 600; }
td.listed { min-width: 16rem; }
td.number { font-variant-numeric: tabular-nums; white-space: nowrap; }
.verdicts { width: 100%; margin: .4rem 0; overflow-wrap: anywhere; }
.verdicts td, .verdicts th { padding-top: .7rem; padding-bottom: .7rem; }
.verdicts th svg { max-width: 17rem; margin-top: .3rem; }
.verdicts td svg.chart { max-width: 17rem; margin: 0 0 .2rem; }
.verdicts td:nth-child(4) svg.chart { max-width: 13rem; margin-top: .1rem; }
.verdicts td:nth-child(3) { min-width: 16rem; } .verdicts td:nth-child(4) { min-width: 14rem; }
.verdicts td:nth-child(2) { overflow-wrap: normal; } .level { white-space: nowrap; }
.narrow { display: none; } .figures-of { font-variant-numeric: tabular-nums; white-space: nowrap; }
.scroll thead th { white-space: nowrap; vertical-align: bottom; }
.better, .worse, .inconclusive, .no { font-weight: 600; } .better { color: var(--good); }
.worse { color: var(--bad); } .inconclusive { color: var(--doubt); }
.better::before { content: "\\25b2\\00a0"; } .worse::before { content: "\\25bc\\00a0"; }
.no::before { content: "=\\00a0"; } .inconclusive::before { content: "?\\00a0"; }
.figures { display: grid; grid-template-columns: repeat(auto-fill, minmax(min(100%, 26rem), 1fr));
  gap: 1.6rem 2.4rem; align-items: start; margin: 1rem 0; }
.figures > * { min-width: 0; } figure { margin: 0; display: flow-root; }
.figures > .wide { grid-column: 1 / -1; }
.verdict h3 { margin-top: .4rem; } figcaption { margin-bottom: .4rem; }
svg.chart { display: block; width: 100%; max-width: 34rem; height: auto; overflow: visible;
  font-family: inherit; stroke-linejoin: round; stroke-linecap: butt; }
svg.chart text { font-weight: 400; font-variant-numeric: tabular-nums; }
.keys { position: absolute; } .key { width: 2.1em; height: .75em; vertical-align: -.02em; }
.legend { display: flex; flex-wrap: wrap; gap: 0 1.2rem; list-style: none; padding: 0;
  margin: 0 0 .3rem; font-size: .88rem; }
ul { padding-left: 1.2rem; margin: .4rem 0; } li { max-width: 46rem; }
summary { cursor: pointer; padding: .2rem 0; } details { margin: .3rem 0; }
.save { float: right; margin-left: 1rem; text-align: right; }
.save button { font: inherit; font-size: .88rem; color: var(--ink); background: var(--panel);
  padding: .15rem .6rem; margin-left: .4rem; border: 1px solid var(--line); border-radius: .3rem;
  cursor: pointer; }
#method > details { border-bottom: 1px solid var(--line); padding: .3rem 0; }
pre { background: var(--panel); padding: .8rem; font-size: .82rem; margin: 0; }
footer { margin-top: 3rem; border-top: 1px solid var(--line); color: var(--quiet);
  font-size: .88rem; }
@media (max-width: 47rem) { body { padding: 1rem .9rem 2rem; }
  .headline { font-size: 1.15rem; } }
@media screen and (max-width: 62rem) {
  .verdicts, .verdicts tbody, .verdicts tr, .verdicts th, .verdicts td { display: block;
    width: 100%; } .verdicts thead { display: none; }
  .verdicts tr { border-bottom: 2px solid var(--line); padding: .6rem 0; }
  .verdicts td, .verdicts th { border: 0; padding: .15rem 0; min-width: 0; }
  .verdicts td::before { content: attr(data-label); display: block; color: var(--quiet);
    font-size: .8rem; } .verdicts .narrow { display: block; }
  .verdicts caption { display: block; } .verdicts td svg.chart { max-width: 19rem; }
  .verdicts td:nth-child(4) svg.chart { max-width: 13rem; } }
@media print { figure details { display: none; }
  details::details-content { content-visibility: visible; display: block; block-size: auto; }
  .lab { position: static; border: 2px solid; } .tiles li { break-inside: avoid; }
  body { max-width: none; padding: 0; font-size: 11pt; } nav, .skip { display: none; }
  .scroll { overflow: visible; } figure, tr, .verdict { break-inside: avoid; }
  .figures { grid-template-columns: 1fr; } table { overflow-wrap: anywhere; font-size: 8pt; }
  th, td { padding-right: .4rem; } td .quiet, th .quiet { font-size: inherit; }
  .scroll thead th, .level, .figures-of, td.number { white-space: normal; }
  .verdicts td:nth-child(n) { min-width: 0; } pre { white-space: pre-wrap; } }
"""
