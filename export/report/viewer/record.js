// SPDX-License-Identifier: Apache-2.0
// The record, elements of the page, and numbers as texts. All texts reach the page as text nodes, never as markup.
const page = JSON.parse(document.getElementById('record').textContent);

// Control, format and private characters would reorder or hide text: they are shown as escapes.
const shown = (s) => String(s).replace(/[\p{Cc}\p{Cf}\p{Co}\p{Cs}\p{Zl}\p{Zp}]/gu,
  (c) => `\\u${c.codePointAt(0).toString(16).padStart(4, '0')}`);
const baseName = (path) => String(path ?? '').split('/').at(-1);

// h('td.n.bad', { title: 'x' }, child, ...): an element. Children are elements, texts, lists of them, or null.
const add = (e, children) => {
  for (const c of children.flat(Infinity)) if (c !== null && c !== undefined && c !== false) e.append(c instanceof Node
    ? c : shown(c));
  return e;
};
const build = (e, classes, attributes, children) => {
  if (classes.length) e.setAttribute('class', classes.join(' '));
  const plain = attributes && !Array.isArray(attributes) && !(attributes instanceof Node)
    && typeof attributes === 'object';
  for (const [k, v] of Object.entries(plain ? attributes : {})) {
    if (k.startsWith('on')) e.addEventListener(k.slice(2), v);
    else if (v !== null && v !== false && v !== undefined) e.setAttribute(k, v === true ? '' : v);
  }
  return add(e, plain ? children : [attributes, ...children]);
};
const h = (what, attributes, ...children) => {
  const [tag, ...classes] = what.split('.');
  return build(document.createElement(tag), classes, attributes, children);
};
const svg = (what, attributes, ...children) => {
  const [tag, ...classes] = what.split('.');
  return build(document.createElementNS('http://www.w3.org/2000/svg', tag), classes, attributes, children);
};
const button = (text, label, run, more) => h('button', { type: 'button', 'aria-label': label, onclick: run, ...more },
  text);
// A name may break after its slashes.
const nameOf = (name) => (name
  ? String(name).split(/(?<=[^/ ]\/)/).flatMap((part, i) => (i ? [h('wbr'), part] : [part])) : ['(no name)']);

// Numbers. null and undefined were not measured.
const known = (v) => typeof v === 'number' && Number.isFinite(v);
const minus = (s) => s.replace('-', '−');
const fixed = (v, digits = 2) => (known(v) ? minus(v.toFixed(digits)) : '–');
const decibel = (v, digits = 2) => (known(v) ? `${fixed(v, digits)} dB` : '–');
const count = (v) => (known(v) ? v.toLocaleString('en-US') : '–');
const short = (v) => {
  if (!known(v)) return '–';
  if (Math.abs(v) >= 999.5 && Math.abs(v) < 1e9) return minus(Math.round(v).toLocaleString('en-US'));
  const text = v === 0 ? '0' : Math.abs(v) < 1e-4 ? v.toExponential(2) : v.toPrecision(3);
  return text.includes('e') ? text.replace(/(\.\d*?)0+e/, '$1e').replace('.e', 'e').replaceAll('-', '−')
    : minus(text.includes('.') ? text.replace(/\.?0+$/, '') : text);
};
// "98.83 → 98.99", or one figure if both are the same.
const fromTo = (before, after) => (before === after ? before : `${before} → ${after}`);
const percent = (share, digits = 2) => (!known(share) ? '–' : share > 0 && share < 0.00005 ? '< 0.01\u00a0%' : share === 0
  ? '0\u00a0%' : `${(100 * share).toFixed(digits)}\u00a0%`);
const bytes = (n) => {
  if (!known(n)) return '–';
  const units = ['bytes', 'KB', 'MB', 'GB'];
  let k = 0;
  for (; n >= 1024 && k < 3; k++) n /= 1024;
  return `${k === 0 || n >= 99.95 ? Math.round(n) : n.toFixed(1)}\u00a0${units[k]}`;
};
const plural = (n, noun) => `${count(n)} ${noun}${n === 1 ? '' : 's'}`;
// "uint8" for "u8", "float8e4m3fn" for itself.
const typeName = (t) => String(t ?? '–').replace(/^u(\d+)$/, 'uint$1').replace(/^i(\d+)$/, 'int$1').replace(/^f(\d+)$/,
  'float$1');

// The type of a layer, or its bits if only some levels of the type are used.
const typeOf = (l) => (l.bits ? `${l.bits} bits` : typeName(l.type));

// The class of an SQNR, for its colour: l0 is 40 dB and more, l4 below 10 dB.
const LEVELS = [40, 30, 20, 10];
const level = (db) => (known(db) ? `l${LEVELS.filter((least) => db < least).length}` : null);

// What is looked up often in a report.
class Report {
  constructor(json) {
    this.json = json;
    this.layers = json.layers ?? [];
    this.ranking = json.ranking ?? [];
    this.grade = json.verdict?.grade ?? 'unknown';
    this.effects = new Map(this.ranking.map((e) => [e.node, e]));
    this.byNode = new Map(); // the activation that a node computes, else a weight that it reads
    this.layers.forEach((l, i) => {
      if (l.node && (!this.byNode.has(l.node) || (l.kind === 'activation'
        && this.layers[this.byNode.get(l.node)].kind !== 'activation'))) this.byNode.set(l.node, i);
    });
    this.ranked = this.ranking.filter((e) => known(e.output_sqnr_db)).sort((a, b) => a.output_sqnr_db - b.output_sqnr_db);
    this.noise = this.ranked.reduce((n, e) => n + 10 ** (-e.output_sqnr_db / 10), 0);
    // What makes less than a sixteenth of the noise of the outputs is no source of it that matters.
    const worst = this.worstOutput()?.sqnr_db ?? Infinity;
    this.suggestions = (json.suggestions ?? []).filter((s) => !(this.effects.get(s.name)?.output_sqnr_db > worst + 12));
    // No layer is marked if the loss of the whole network is too small to matter.
    this.marked = new Map(this.matters() ? this.suggestions.map((s, i) => [this.byNode.get(s.name) ?? s.layer, i + 1])
      : []);
  }
  // No operator is quantized: the outputs equal those of the float model because the file is that model.
  unchanged() { return this.json.quantized_ops === 0 && !this.layers.length && this.json.float_ops?.length > 0; }
  matters() { return this.grade !== 'good'; }
  // SQNR of the outputs with only this layer's operator quantized.
  effect(layer) { return layer.output_sqnr_db ?? layer.isolated_sqnr_db ?? this.effects.get(layer.node)?.output_sqnr_db
    ?? null; }
  // Share of a layer in the noise of all layers.
  noiseShare(e) { return known(e.output_sqnr_db) && this.noise > 0 ? 10 ** (-e.output_sqnr_db / 10) / this.noise : null; }
  outputs() { return (this.json.outputs ?? []).filter((o) => o.ordered !== true); }
  worstOutput() { return this.outputs().filter((o) => known(o.sqnr_db)).sort((a, b) => a.sqnr_db - b.sqnr_db)[0]
    ?? null; }
  // Advice that changes a figure that is shown.
  advice() { return (this.json.advice ?? []).filter((a) => fixed(this.gain(a).before) !== fixed(this.gain(a).after)); }
  // What an advice gains at the worst output that it changes: { name, before, after }. The name is null if there is one output.
  gain(a) {
    const all = a.measured?.outputs ?? [],
      o = all.filter((x) => known(x.sqnr_db_before) && fixed(x.sqnr_db_before) !== fixed(x.sqnr_db_after)).sort((x, y) => x.sqnr_db_before - y.sqnr_db_before)[0]
      ?? a.measured ?? {};
    return { name: all.length > 1 ? o.name : null, before: o.sqnr_db_before, after: o.sqnr_db_after };
  }
  adviceOn(node) { return this.advice().filter((a) => a.node && String(a.node).split(', ').includes(node)); }
}
