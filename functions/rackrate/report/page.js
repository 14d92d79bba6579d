// A menu at each figure, which saves it as SVG and its values as CSV. Without this script the page
// lacks only these menus. It reads the page and fetches nothing.
'use strict';
const SVG = 'http://www.w3.org/2000/svg', XLINK = 'http://www.w3.org/1999/xlink';
const MARGIN = 12, FONT = getComputedStyle(document.body).fontFamily;
// The first rule of the style sheet has the colors of light mode, also while the page is dark.
const light = document.styleSheets[0].cssRules[0].style;
const pen = document.createElement('canvas').getContext('2d');

const made = (tag, attributes, ...content) => {
  const element = document.createElementNS(SVG, tag);
  for (const [name, value] of Object.entries(attributes)) element.setAttribute(name, value);
  element.append(...content);
  return element;
};
// XML allows fewer characters than HTML.
const plain = text => text.replace(/\s+/g, ' ').trim()
  .replace(/[^\x20-\ud7ff\ue000-\ufffd\u{10000}-\u{10ffff}]/gu, '\ufffd');
const widthOf = (text, size, weight = 400) => {
  pen.font = `${weight} ${size}px ${FONT}`;
  return pen.measureText(text).width;
};
// The text in lines; a word that is longer than a line goes on in the next.
const lines = (text, room, size, weight = 400) => {
  const found = [''];
  for (const word of plain(text).split(' ')) {
    let gap = found.at(-1) && ' ';
    if (widthOf(found.at(-1) + gap + word, size, weight) > room && gap) gap = (found.push(''), '');
    found[found.length - 1] += gap;
    for (const sign of word) {
      if (widthOf(found.at(-1) + sign, size, weight) > room) found.push('');
      found[found.length - 1] += sign;
    }
  }
  return found.filter(Boolean);
};

// A figure as a file of its own: title, legend, chart, how to read it, and the run.
const standalone = figure => {
  const chart = figure.querySelector('svg.chart').cloneNode(true);
  const [, , width, height] = chart.getAttribute('viewBox').split(' ').map(Number);
  const room = Math.max(width, 320), all = made('svg', {'font-family': FONT, role: 'img',
    'stroke-linejoin': 'round', 'aria-labelledby': chart.getAttribute('aria-labelledby')});
  const paper = all.appendChild(made('rect', {style: 'fill:var(--paper)'}));
  let y = MARGIN;
  const write = (text, size, colour, weight = 400) => {
    for (const line of lines(text, room, size, weight)) {
      all.append(made('text', {x: MARGIN, y: y + size,
        style: `fill:var(--${colour});font-size:${size}px;font-weight:${weight}`}, line));
      y += 1.35 * size;
    }
  };
  write(chart.querySelector('title').textContent, 13, 'ink', 600);
  let x = MARGIN;
  for (const item of figure.querySelectorAll('.legend li')) {
    const name = lines(item.textContent, room - 38, 11), wide = 38 + widthOf(name[0], 11);
    if (x > MARGIN && x + wide > MARGIN + room) { x = MARGIN; y += 16; }
    const symbol = document.querySelector(item.querySelector('use').getAttribute('href'));
    all.append(made('svg', {x, y: y + 3, width: 34, height: 12,
      viewBox: symbol.getAttribute('viewBox')}, ...symbol.cloneNode(true).childNodes),
      ...name.map((line, row) => made('text', {x: x + 38, y: y + 13 + 16 * row,
        style: 'fill:var(--ink);font-size:11px'}, line)));
    y += 16 * (name.length - 1);
    x += wide + 16;
  }
  y += x > MARGIN ? 24 : 8;
  for (const name of ['class', 'style', 'role', 'aria-labelledby']) chart.removeAttribute(name);
  for (const [name, value] of Object.entries({x: MARGIN, y, width, height, overflow: 'visible'}))
    chart.setAttribute(name, value);
  all.append(chart);
  y += height + 8;
  write(chart.querySelector('desc').textContent, 11, 'quiet');
  y += 6;
  const warning = document.querySelector('.lab');
  write(document.title + (warning ? `. ${warning.textContent}` : ''), 11, 'ink');
  const size = {width: room + 2 * MARGIN, height: Math.ceil(y + MARGIN)};
  all.setAttribute('viewBox', `0 0 ${size.width} ${size.height}`);
  for (const each of [all, paper])
    for (const [name, value] of Object.entries(size)) each.setAttribute(name, value);
  for (const each of all.querySelectorAll('[style]'))
    each.setAttribute('style', each.getAttribute('style')
      .replace(/var\((--[\w-]+)\)/g, (_, name) => light.getPropertyValue(name).trim()));
  // Programs other than browsers know only the older form of a reference.
  for (const each of all.querySelectorAll('[href]')) {
    each.setAttributeNS(XLINK, 'xlink:href', each.getAttribute('href'));
    each.removeAttribute('href');
  }
  return new XMLSerializer().serializeToString(all);
};

const table = figure => {
  const {rows, columns} = JSON.parse(figure.dataset.values);
  const cell = (column, row) => Array.isArray(column) ? column[row]
    : column.of[column.at ? column.at[row] : 0];
  const quoted = value => /[",\r\n]/.test(value) ? `"${value.replaceAll('"', '""')}"` : value;
  const written = [Object.keys(columns)];
  for (let row = 0; row < rows; row += 1)
    written.push(Object.values(columns).map(column => String(cell(column, row) ?? '')));
  return written.map(cells => `${cells.map(quoted).join(',')}\n`).join('');
};

const save = (name, type, content) => {
  const link = document.createElement('a');
  link.href = URL.createObjectURL(new Blob([content], {type}));
  link.download = name;
  link.click();
  setTimeout(() => URL.revokeObjectURL(link.href), 60000);
};

for (const figure of document.querySelectorAll('figure')) {
  const title = plain(figure.querySelector('svg.chart > title').textContent);
  const file = `${document.title.replace(/^rackrate: /, '')} ${title}`
    .replace(/[^\w.-]+/g, '-').slice(0, 150).replace(/^[-.]+|[-.]+$/g, '');
  const menu = document.createElement('details'), head = document.createElement('summary');
  menu.className = 'save';
  head.textContent = 'Save';
  head.setAttribute('aria-label', `Save: ${title}`);
  menu.append(head);
  const offer = (kind, type, written) => {
    const button = document.createElement('button');
    button.type = 'button';
    button.textContent = kind;
    button.setAttribute('aria-label', `${kind} of ${title}`);
    button.addEventListener('click',
      () => save(`${file}.${kind.toLowerCase()}`, type, written(figure)));
    menu.append(button);
  };
  offer('SVG', 'image/svg+xml', standalone);
  if (figure.dataset.values) offer('CSV', 'text/csv', table);
  figure.insertBefore(menu, figure.querySelector('details'));
}
