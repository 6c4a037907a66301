// SPDX-License-Identifier: Apache-2.0
// Plots as SVG, in units of a pixel. They draw only measured values.

const power = (x, y, p) => svg('text', { x, y, 'text-anchor': 'end' }, '10',
  svg('tspan', { dy: -4, 'font-size': 8 }, fixed(p, 0)));
// Round values inside [lo, hi], about `most` of them.
const ticks = (lo, hi, most) => {
  const rough = (hi - lo) / most, unit = 10 ** Math.floor(Math.log10(rough)), part = rough / unit;
  const step = (part <= 1 ? 1 : part <= 2 ? 2 : part <= 5 ? 5 : 10) * unit, list = [];
  for (let v = Math.ceil(lo / step - 1e-9) * step; v <= hi + step * 1e-9; v += step) list.push(Math.abs(v) < step * 1e-9 ? 0 : v);
  return list;
};

// A plot with axes: { x: [lo, hi], y: [lo, hi], logY } and functions that place values.
class Plot {
  constructor(title, x, y, { width = 330, height = 172, left = 46, right = 10, top = 10, bottom = 36 } = {}) {
    const widened = ([lo, hi]) => (lo < hi ? [lo, hi] : [lo - 1, lo + 1]);
    Object.assign(this, { width, height, left, right, top, bottom, x: widened(x), y: widened(y) });
    this.root = svg('svg', { width, height, viewBox: `0 0 ${width} ${height}`, role: 'img' }, svg('title', {}, title));
  }
  add(...parts) { add(this.root, parts); return this; }
  across(v) { return +(this.left + ((v - this.x[0]) / (this.x[1] - this.x[0])) * (this.width - this.left - this.right)).toFixed(1); }
  up(v) { return +(this.height - this.bottom - ((v - this.y[0]) / (this.y[1] - this.y[0])) * (this.height - this.top - this.bottom)).toFixed(1); }
  get base() { return this.height - this.bottom; }
  tickY(v, text) { return this.add(svg('path.grid', { d: `M${this.left} ${this.up(v)}H${this.width - this.right}` }),
    text instanceof Node ? text : svg('text', { x: this.left - 6, y: this.up(v) + 4, 'text-anchor': 'end' }, text)); }
  powers() { // of ten, about five at most
    const step = Math.max(1, Math.ceil((this.y[1] - this.y[0]) / 5));
    for (let v = Math.ceil(this.y[0]); v <= this.y[1]; v += step) this.tickY(v,
      power(this.left - 6, this.up(v) + 4, v));
    return this;
  }
  axisY(most = 4, text = short) { ticks(...this.y, most).forEach((v) => this.tickY(v, text(v))); return this; }
  axisX(label, { most = 5, list = ticks(...this.x, most), text = short } = {}) {
    this.add(svg('path.axis', { d: `M${this.left} ${this.base + 0.5}H${this.width - this.right}` }));
    for (const v of list) this.add(svg('path.axis', { d: `M${this.across(v)} ${this.base}v4` }),
      svg('text', { x: this.across(v), y: this.base + 16, 'text-anchor': 'middle' }, text(v)));
    return this.add(svg('text', { x: this.left + (this.width - this.left - this.right) / 2, y: this.height - 4,
      'text-anchor': 'middle' }, label));
  }
  vertical(css, v) { return this.add(svg(`path.${css}`, { d: `M${this.across(v)} ${this.top}V${this.base}` })); }
  dot(css, x, y, r) { return this.add(svg(`circle.${css}`, { cx: this.across(x), cy: this.up(y), r })); }
  line(css, points) { // gaps where y is not known
    let pen = false;
    const d = points.map(([x, y]) => {
      const part = known(y) ? `${pen ? 'L' : 'M'}${this.across(x)} ${this.up(y)}` : '';
      pen = known(y);
      return part;
    }).join('');
    return this.add(svg(`path.${css}`, { d }));
  }
}

const histogramPlot = (l) => {
  const g = l.histogram, lo = l.chosen?.min ?? g.min, hi = l.chosen?.max ?? g.max,
    step = (g.max - g.min) / g.counts.length;
  const top = Math.log10(Math.max(1, ...g.counts)) + 0.3, p = new Plot(`How many values of each size: ${l.name}`,
    [Math.min(g.min, lo), Math.max(g.max, hi)], [0, top]);
  p.add(svg('rect.span', { x: p.across(lo), y: p.top, width: Math.max(1, p.across(hi) - p.across(lo)),
    height: p.base - p.top }));
  for (let v = 0; v <= top; v += top > 4 ? 2 : 1) p.tickY(v, v >= 4 ? power(p.left - 6, p.up(v) + 4, v)
    : String(10 ** v));
  const bars = (inside) => g.counts.map((n, i) => {
    const from = g.min + step * i, middle = from + step / 2;
    if (!n || (middle >= lo && middle <= hi) !== inside) return '';
    return `M${p.across(from)} ${p.base}V${Math.min(p.up(Math.log10(n)), p.base - 1.5)}H${(p.across(from + step) - 0.6).toFixed(1)}V${p.base}z`;
  }).join('');
  return p.add(svg('path.bars', { d: bars(true) }), svg('path.bars.clipped', { d: bars(false) })).vertical('limit',
    lo).vertical('limit', hi).axisX('value').root;
};

// The objective over the threshold, the choice and the runner-up; null if fewer than two thresholds are known.
const curvePlot = (l) => {
  const s = l.solver ?? {}, refused = s.refused ?? [], admitted = (s.curve ?? []).filter((c) => known(c[1]));
  const all = [...admitted, ...refused].sort((a, b) => a[0] - b[0]), size = (r) => Math.max(-r.min, r.max);
  if (all.length < 2 || all[0][0] === all.at(-1)[0]) return null;
  const choice = size(l.chosen), xs = [...all.map((c) => c[0]), choice],
    ys = [...all.map((c) => c[1]), ...(known(s.objective) ? [s.objective] : [])];
  let y = [Math.min(...ys), Math.max(...ys)];
  const log = y[0] > 0 && y[1] > 30 * y[0], at = (v) => (log ? Math.log10(v) : v);
  if (log) y = [Math.floor(Math.log10(y[0])), Math.ceil(Math.log10(y[1]))];
  const p = new Plot(`What the solver saw: ${l.name}`, [Math.min(...xs), Math.max(...xs)], y);
  if (log) p.powers();
  else p.axisY();
  if (refused.length) p.line('line.refused', all.map((c) => [c[0], at(c[1])]));
  p.line('line', admitted.map((c) => [c[0], at(c[1])])).vertical('limit', choice);
  if (s.runner_up && known(s.runner_up.objective)) p.dot('dot2', size(s.runner_up), at(s.runner_up.objective), 3);
  if (known(s.objective)) p.dot('dot', choice, at(s.objective), 4);
  return p.axisX('threshold: the larger magnitude of the range').root;
};

const channelPlot = (l) => {
  const c = l.channels, each = c.count / c.min.length,
    p = new Plot(`Least and largest weight of each channel: ${l.name}`, [-0.5, c.min.length - 0.5],
    [Math.min(0, ...c.min), Math.max(0, ...c.max)]);
  const wide = Math.max(0.5, Math.min(12, (p.width - p.left - p.right) / c.min.length * 0.7));
  const d = c.min.map((low, i) =>
    `M${p.across(i)} ${Math.max(p.up(low), p.up(c.max[i]) + 0.7).toFixed(1)}V${p.up(c.max[i])}`).join('');
  p.axisY().add(svg('path.line', { d, style: `stroke-width:${wide.toFixed(2)}` }));
  const list = ticks(0, Math.max(1, c.min.length - 1), 5).filter(Number.isInteger);
  return p.axisX('channel', { list, text: (v) => count(Math.round(v * each)) }).root;
};

const accumulatorPlot = (l, limit) => {
  const most = Math.max(limit, l.accumulator_bits), p = new Plot('Bits of the accumulator', [0, most], [0, 1],
    { height: 76, bottom: 26, top: 6 });
  [['proved', l.accumulator_bits, 12], ['seen', l.accumulator_bits_seen, 31]].filter((row) =>
    row[1]).forEach(([words, bits, y]) => p.add(
    svg('text', { x: p.left - 6, y: y + 10, 'text-anchor': 'end' }, words),
    svg(bits > limit ? 'path.bars.out' : 'path.bars', { d: `M${p.left} ${y}H${p.across(bits)}v13H${p.left}z` }),
    svg('text.strong', { x: p.across(bits) + 4, y: y + 10 }, bits)));
  return p.vertical('limit', limit).axisX('', { list: Array.from({ length: most / 8 + 1 }, (_, k) => 8 * k),
    text: String }).root;
};

const intervalPlot = (a, names) => {
  if (!a.fp32_interval || !a.int8_interval) return null;
  const lo = Math.min(a.fp32_interval[0], a.int8_interval[0]), hi = Math.max(a.fp32_interval[1], a.int8_interval[1]),
    pad = (hi - lo) * 0.06;
  if (!(lo < hi)) return null;
  const p = new Plot('Accuracy with 95 % intervals', [100 * (lo - pad), 100 * (hi + pad)], [0, 1],
    { width: 290, height: 68, left: 44, bottom: 22, top: 4 });
  for (const v of ticks(...p.x, 4)) p.add(svg('path.grid', { d: `M${p.across(v)} 4V46` }),
    svg('text', { x: p.across(v), y: 60, 'text-anchor': 'middle' }, `${+v.toFixed(2)} %`));
  [['line', 'dot', a.fp32_interval, a.fp32], ['line2', 'dot2', a.int8_interval,
    a.int8]].forEach(([line, dot, [low, high], at], i) => p.add(
    svg('text', { x: 36, y: 18 + 20 * i, 'text-anchor': 'end' }, names[i]),
    svg(`path.${line}`, { style: 'stroke-dasharray:none;stroke-width:2',
      d: `M${p.across(100 * low)} ${14 + 20 * i}H${p.across(100 * high)}` }),
    svg(`circle.${dot}`, { cx: p.across(100 * at), cy: 14 + 20 * i, r: 4 })));
  return p.root;
};

// Points with x, y and a mark [class, path relative to the centre]; the line joins those that no other beats.
const MARKS = { float: ['dot4', 'm-4-4h8v8h-8z'], best: ['dot', 'm-4.5 0a4.5 4.5 0 1 0 9 0a4.5 4.5 0 1 0-9 0z'],
  default: ['dot2', 'm0-5l5 9h-10z'], integers: ['dot3', 'm-5 0l5-5l5 5l-5 5z'],
  tried: ['tried', 'm-2.5 0a2.5 2.5 0 1 0 5 0a2.5 2.5 0 1 0-5 0z'] };
const placementPlot = (points) => {
  const xs = points.map((q) => q.ms), ys = points.map((q) => q.db).filter(known);
  if (!ys.length) return null;
  const spread = (list, part, least) => { const lo = Math.min(...list), hi = Math.max(...list),
    by = Math.max((hi - lo) / part, least); return [lo - by, hi + by]; };
  const p = new Plot('SQNR of the outputs over latency', spread(xs, 12,
    Math.max(...xs) * 1e-3).map((v) => Math.max(0, v)), spread(ys, 8, 0.5));
  const y = (q) => p.up(Math.max(p.y[0], Math.min(q.db ?? (q.db = p.y[1]), p.y[1])));
  const best = points.filter((q) => !points.some((o) => o.ms <= q.ms && (o.db ?? 1e9) >= (q.db ?? 1e9)
    && (o.ms < q.ms || (o.db ?? 1e9) > (q.db ?? 1e9)))).sort((a, b) => a.ms - b.ms);
  p.axisY().add(svg('text', { x: p.left - 6, y: p.base + 16, 'text-anchor': 'end' }, 'dB'));
  p.add(svg('path.line', { d: best.map((q, i) => (i ? `H${p.across(q.ms)}V${y(q)}`
    : `M${p.across(q.ms)} ${y(q)}`)).join('') }));
  for (const q of [...points].sort((a,
    b) => (a.mark !== 'tried') - (b.mark !== 'tried'))) p.add(svg(`path.${MARKS[q.mark][0]}`,
    { d: `M${p.across(q.ms)} ${y(q)}${MARKS[q.mark][1]}` }));
  return p.axisX('latency, ms').root;
};

// Expected error over file size: the least for each size, files of one type, the choice and the limit.
const sizePlot = (size, rows) => {
  const at = (v) => Math.log10(Math.max(v, 1e-12)), all = [...rows,
    ...(size.uniform ?? [])].filter((r) => known(r.expected_error));
  if (!all.length) return null;
  const hi = Math.max(size.limit, ...all.map((r) => r.bytes)), lo = Math.min(size.limit, ...all.map((r) => r.bytes)),
    unit = hi >= 1 << 20 ? 1 << 20 : 1 << 10;
  const ys = all.map((r) => at(r.expected_error)), p = new Plot('Expected error over file size',
    [lo / unit, hi / unit], [Math.floor(Math.min(...ys)), Math.ceil(Math.max(...ys))],
    { width: 640, height: 250, left: 52, right: 40, top: 22, bottom: 38 });
  p.powers().vertical('limit', size.limit / unit).line('line', rows.map((r) => [r.bytes / unit, at(r.expected_error)]));
  for (const r of rows) p.dot('dot', r.bytes / unit, at(r.expected_error), r.chosen ? 5 : 2);
  for (const u of size.uniform ?? []) if (known(u.expected_error)) p.dot('dot2', u.bytes / unit, at(u.expected_error),
    4).add(svg('text', { x: p.across(u.bytes / unit) + 7, y: p.up(at(u.expected_error)) + 4 }, `int${u.bits}`));
  return p.axisX(`file size, ${unit > 1024 ? 'MB' : 'KB'}`, { most: 8 }).root;
};

const HIGHEST = 100; // dB: more are drawn at the upper edge
// The points that fit into a plot: many layers are drawn in groups of neighbours, of which the worst stands for all.
const grouped = (points, most, log) => {
  const size = Math.ceil(points.length / most), worse = (a, b) => known(b.values[0]) && !(log ? a.values[0] >= b.values[0] : a.values[0] <= b.values[0]);
  if (size < 2) return points.map((p) => ({ ...p, layers: [p.number] }));
  return Array.from({ length: Math.ceil(points.length / size) }, (_, k) => {
    const all = points.slice(k * size, (k + 1) * size), worst = all.reduce((a, b) => (worse(a, b) ? b : a)),
      of = (part, i) => { const v = all.map((p) => p.values[i]).filter(known); return v.length ? part(...v) : null; };
    return { ...worst, layers: all.map((p) => p.number), mark: all.find((p) => p.mark)?.mark,
      values: worst.values.map((_, i) => of(log ? Math.max : Math.min, i)), best: of(log ? Math.min : Math.max, 0),
      title: `Layers ${all[0].number} to ${all.at(-1).number}, the worst: ${worst.title}` };
  });
};
// Lines along the network, and a level across it. points: { number, title, mark, layers, best, values: [...] }; lines: [{ css, dot, r }] for each
// value, the first on top. The range up to `best` is shaded.
const networkPlot = (points, lines, { width, css, label, log = false, top, level: all }) => {
  const values = [...points.flatMap((p) => [...p.values, p.best]), all?.db].filter(known);
  const y = log ? [Math.floor(Math.min(-1, ...values.filter((v) => v > 0).map(Math.log10))) - 1, 0]
    : [Math.floor(values.reduce((a, v) => Math.min(a, v), 0) / 10) * 10,
    Math.min(HIGHEST, Math.ceil(values.reduce((a, v) => Math.max(a, v), 10) / 10) * 10)];
  const p = new Plot(label, [0, points.length], y, { width, height: 390, right: 14, top: 22 });
  p.root.setAttribute('class', `points ${css}`);
  p.root.setAttribute('role', 'group');
  p.root.setAttribute('aria-label', label);
  p.root.firstChild.remove(); // the browser's own hint would lie over the plot
  p.add(svg('text', { x: 4, y: 12 }, top));
  if (log) for (let v = y[0]; v <= 0; v += y[0] < -5 ? 2 : 1) p.tickY(v,
    v === y[0] ? 'none' : v > -3 ? percent(10 ** v, 0) : power(p.left - 6, p.up(v) + 4, v));
  else p.axisY(6, (v) => fixed(v, 0));
  const place = (v) => (known(v) ? (log ? Math.log10(Math.max(v, 10 ** y[0])) : Math.min(v, y[1])) : null), list = [];
  for (let i = 0, step = Math.max(1, ...ticks(0, Math.max(2, points.length), width > 500 ? 12 : 5).slice(1,
    2)); i < points.length; i += Math.round(step)) list.push(i + 0.5);
  p.add(svg('path.span', { d: points.map((q, i) => (known(q.best)
    ? `M${p.across(i)} ${p.up(place(q.best))}H${p.across(i + 1)}V${p.up(place(q.values[0]))}H${p.across(i)}z` : '')).join('') }));
  if (all) p.add(svg('path.total', { d: `M${p.left} ${p.up(place(all.db))}H${p.width - p.right}` }));
  lines.forEach((l, k) => p.line(l.css, points.map((q, i) => [i + 0.5, place(q.values[k])])));
  const small = points.length > width / 8;
  p.add(points.map((q, i) => {
    const dots = lines.map((l, k) => (known(q.values[k])
      ? svg(`circle.${l.dot}`, { cx: p.across(i + 0.5), cy: p.up(place(q.values[k])), r: small ? 1.6 : l.r }) : null)).reverse();
    const a = svg('a', { href: `#L${q.number}`, tabindex: -1, 'data-x': p.across(i + 0.5), 'data-layers': q.layers.join(' '),
      'aria-label': q.title }, dots);
    const first = q.values.find(known);
    return q.mark ? [a, svg('circle.mark', { cx: p.across(i + 0.5), cy: p.up(place(first)), r: 7 }),
      svg('text.marktext', { x: p.across(i + 0.5), y: p.up(place(first)) - 11, 'text-anchor': 'middle' }, q.mark)] : a;
  }));
  return p.axisX('number of the tensor in the table', { list, text: (v) => points[v - 0.5].number }).root;
};

// The plot for wide and for narrow windows, with a line of words about the point nearest to the pointer.
const networkFigure = (points, lines, about) => {
  const words = h('p.readout', { role: 'status' }, matchMedia('(hover: hover) and (min-width: 761px)').matches
    ? 'Point at a layer for its figures; click to open it.' : 'Tap a layer to open it.');
  const plots = [[1072, 'wide'], [366, 'narrow']].map(([width, css]) =>
    networkPlot(grouped(points, width / 3, about.log), lines, { width, css, ...about }));
  for (const plot of plots) {
    const links = [...plot.querySelectorAll('a')];
    let near = null;
    const nearest = (e) => {
      const box = plot.getBoundingClientRect(), x = (e.clientX - box.left) * (plot.viewBox.baseVal.width / box.width);
      return links.reduce((best, a) => (Math.abs(a.dataset.x - x) < Math.abs(best.dataset.x - x) ? a : best), links[0]);
    };
    const mark = (a) => {
      near?.classList.remove('near');
      (near = a).classList.add('near');
      words.textContent = a.getAttribute('aria-label');
    };
    plot.addEventListener('pointermove', (e) => mark(nearest(e)));
    plot.addEventListener('click', (e) => {
      if (e.target.closest('a')) return;
      mark(nearest(e));
      near.dispatchEvent(new MouseEvent('click', { bubbles: true, cancelable: true, detail: 1 }));
    });
  }
  return [h('div.scroll.chart', { tabindex: 0, role: 'region', 'aria-label': about.label }, plots), words];
};
const legend = (lines) => h('ul.legend', {},
  lines.map((l) => h('li', {}, svg('svg', { width: 26, height: 10, 'aria-hidden': true },
  svg(`path.${l.css}`, { d: 'M0 5H26' }), l.dot ? svg(`circle.${l.dot}`, { cx: 13, cy: 5, r: l.r }) : null), l.words)));
