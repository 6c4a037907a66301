// SPDX-License-Identifier: Apache-2.0
// Tables that sort and filter, and the details of a layer.

const wordsOf = (input) => input.value.toLowerCase().split(/\s+/).filter(Boolean);
const SOME = 400; // rows that are drawn at once; more are drawn as one scrolls

// columns: { title, css, hint, value(row): for sorting, text(row): shown }. A column of numbers has the class n. options: { id, label, kinds:
// { value: words }, kindOf(row), css(row), order: [column, descending], placeholder, more: elements for the tools }. Returns elements; `.rows()`
// are those that match, in the shown order, `.reach(row)` scrolls to one, and `.all()` draws all of them.
// A column without any value is left out.
const dataTable = (all, rows, options) => {
  const known_ = new Map(), cells = new Map(), isNumber = (c) => (c.css ?? '').split('.').includes('n');
  const valueOf = (c, row) => (c.value ? c.value(row) : c.text(row));
  const columns = rows.length ? all.filter((c) => !isNumber(c) || rows.some((row) => known(valueOf(c, row)))) : all;
  const words = (row) => known_.get(row)
    ?? known_.set(row, columns.filter((c) => !isNumber(c)).map((c) =>
    valueOf(c, row)).join(' ').toLowerCase()).get(row);
  const body = h('tbody'), status = h('span.muted.shown', { id: options.id === 'layers' ? 'shown' : null,
    role: 'status' });
  const filter = h('input.filter', { id: options.id === 'layers' ? 'filter' : null, type: 'search',
    placeholder: options.placeholder ?? 'Filter: name, op', 'aria-label': options.filter
    ?? 'Filter the table of layers' });
  const kind = options.kinds ? h('select', { id: 'kind', 'aria-label': 'Kind' },
    Object.entries(options.kinds).map(([value, text]) => h('option', { value }, text))) : null;
  const none = h('p.none', { hidden: true }, 'No layer matches the filter.');
  let sorted = rows, matching = rows, drawn = 0;

  const element = (row) => {
    if (cells.has(row)) return cells.get(row);
    const tr = h('tr', { 'data-kind': options.kindOf?.(row), class: options.css?.(row) }, columns.map((c) => {
      const v = c.value ? c.value(row) : undefined,
        css = [c.css, c.level && 'db', c.level && level(c.level(row))].filter(Boolean).join('.');
      return h(css ? `td.${css}` : 'td', { 'data-v': isNumber(c) ? (known(v) ? v : '') : null }, c.text(row));
    }));
    cells.set(row, tr);
    return tr;
  };
  const draw = (n) => body.replaceChildren(...matching.slice(0, drawn = Math.min(n, matching.length)).map(element));
  const update = () => {
    const w = wordsOf(filter);
    matching = sorted.filter((row) => w.every((x) => words(row).includes(x))
      && (!kind?.value || options.kindOf(row) === kind.value));
    status.textContent = `${count(matching.length)} of ${count(rows.length)}`;
    none.hidden = matching.length > 0 || !rows.length;
    draw(SOME);
  };
  const heads = columns.map((c, k) => {
    const css = [c.css, c.level && 'db'].filter(Boolean).join('.'), th = h(css ? `th.${css}` : 'th', { scope: 'col', title: c.hint, 'aria-sort': 'none' },
      button(c.title, c.title, () => sort(k, th.getAttribute('aria-sort') === 'ascending')));
    th.firstChild.removeAttribute('aria-label');
    return th;
  });
  const sort = (k, down) => {
    const c = columns[k], number = isNumber(c), sign = down ? -1 : 1;
    const order = (a, b) => {
      const x = valueOf(c, a), y = valueOf(c, b);
      if (!number) return sign * String(x ?? '').localeCompare(String(y ?? ''));
      return known(x) && known(y) ? sign * (x - y) : known(y) - known(x); // what is not known is last
    };
    sorted = [...rows].sort(order);
    heads.forEach((th, i) => th.setAttribute('aria-sort', i === k ? (down ? 'descending' : 'ascending') : 'none'));
    update();
  };
  filter.addEventListener('input', update);
  kind?.addEventListener('change', update);
  const view = h('div.layers', { tabindex: 0, role: 'region', 'aria-label': options.label },
    h('table.sortable', { id: options.id }, h('thead', {}, h('tr', {}, heads)), body));
  view.addEventListener('scroll',
    () => { if (drawn < matching.length
    && view.scrollTop + 2 * view.clientHeight > view.scrollHeight) draw(drawn + SOME); }, { passive: true });
  const hints = columns.filter((c) => c.hint);
  const parts = [h('div.tools', {}, filter, kind, options.more, status), view, none,
    hints.length ? h('details.meanings', {}, h('summary', {}, 'What the columns mean'),
      h('dl', {}, hints.map((c) => [h('dt', {}, c.title), h('dd', {}, c.hint)]))) : null];
  const [by, down] = options.order ?? [0, false];
  sort(Math.max(0, columns.indexOf(all[by])), down);
  parts.rows = () => matching;
  parts.all = () => draw(matching.length);
  parts.reach = (row) => {
    const at = matching.indexOf(row);
    if (at >= drawn) draw(at + SOME);
    if (at >= 0) element(row).scrollIntoView({ block: 'nearest' });
  };
  parts.mark = (row) => {
    body.querySelector('.current')?.classList.remove('current');
    if (row) element(row).classList.add('current');
  };
  return parts;
};

const numbered = { title: '#', css: 'n' };
// The column of numbers of rows that no other member numbers.
const numberOf = (rows) => {
  const places = new Map(rows.map((row, i) => [row, i + 1]));
  return { ...numbered, value: (row) => places.get(row), text: (row) => String(places.get(row)) };
};
const shareBar = (share) => svg('svg.sharebar', { width: 64, height: 9, 'aria-hidden': true },
  svg('rect.bars', { width: (64 * share).toFixed(1), height: 9 }));
// A name with its operator below it on narrow screens, which have no column for it.
const withOp = (name, op) => [name, h('span.muted.under', {}, op ?? '')];
const link = (i, name) => h('a', { href: `#L${i + 1}` }, nameOf(name));
const simpleTable = (label, heads, rows, id) => h('div.scroll', { tabindex: 0, role: 'region', 'aria-label': label },
  h('table', { id },
  h('thead', {}, h('tr', {}, heads.map(([text, css]) => h(css ? `th.${css}` : 'th', { scope: 'col' }, text)))),
  h('tbody', {}, rows.map((r) =>
    h('tr', {}, r.map((cell, k) => h(heads[k][1] ? `td.${heads[k][1]}` : 'td', {}, cell)))))));
const command = (text) => {
  const code = h('code', {}, String(text ?? '').split(' ').flatMap((w, i) => [i ? ' ' : null,
    h('span', {}, w.split(/(?<=[/=:,_])/).flatMap((part, k) => (k ? [h('wbr'), part] : [part])))]));
  const copy = h('button.copy', { type: 'button', onclick: async () => {
    try {
      await navigator.clipboard.writeText(text);
      copy.textContent = 'Copied';
    } catch {
      getSelection().selectAllChildren(code);
      copy.textContent = 'Selected';
    }
    setTimeout(() => { copy.textContent = 'Copy'; }, 1500);
  } }, 'Copy');
  return h('div.command', {}, code, copy);
};
const shellWord = (w) => (/^[\w@%+=:,./-]+$/.test(w) ? w : `'${String(w).replaceAll("'", "'\\''")}'`);
const shell = (words) => (Array.isArray(words) ? words.map(shellWord).join(' ') : String(words ?? ''));

const state = { local: false };
const localSwitch = () => h('label.switch', {},
  h('input', { type: 'checkbox', checked: state.local,
  onchange: (e) => { state.local = e.target.checked; app.redraw(); } }), 'Local errors');

const layerColumns = (r) => [
  { ...numbered, value: (i) => i + 1, text: (i) => String(i + 1) },
  { title: 'tensor', css: 'name', value: (i) => r.layers[i].name, text: (i) => withOp(link(i, r.layers[i].name), r.layers[i].op) },
  { title: 'outputs, dB', css: 'n',
    hint: 'SQNR of the outputs if only the operator of this tensor is quantized: the effect of the layer',
    value: (i) => r.effect(r.layers[i]), level: (i) => r.effect(r.layers[i]),
    text: (i) => fixed(r.effect(r.layers[i])) },
  ...[['tensor, dB', 'n.local', 'sqnr_db', 2, 'SQNR of the tensor, with everything before it quantized too'],
    ['alone, dB', 'n.more.local', 'sqnr_alone_db', 2,
      'SQNR from rounding this tensor alone, with everything before it exact'],
    ['cosine', 'n.more.local', 'cosine', 5,
      'cosine similarity of the quantized tensor and the float one; 1 is equal']].map(([title, css, key, digits,
      hint]) => (
    { title, css, hint, value: (i) => r.layers[i][key], level: digits === 2 ? (i) => r.layers[i][key] : null,
      text: (i) => fixed(r.layers[i][key], digits) })),
  { title: 'clipped', css: 'n.more', hint: 'share of the values more than half a step outside the chosen range',
    value: (i) => r.layers[i].clipped_fraction, text: (i) => percent(r.layers[i].clipped_fraction) },
  { title: 'lost', css: 'n.more.lost', hint: 'share of the non-zero values that round to zero',
    value: (i) => r.layers[i].lost_fraction, text: (i) => percent(r.layers[i].lost_fraction) },
  { title: 'acc. bits', css: 'n.more',
    hint: 'bits that the accumulator needs at most, whatever the data; sign included',
    value: (i) => r.layers[i].accumulator_bits, text: (i) => fixed(r.layers[i].accumulator_bits, 0) },
  { title: 'op', css: 'op', text: (i) => r.layers[i].op },
  { title: 'kind', css: 'more.kind', text: (i) => r.layers[i].kind },
  { title: 'type', css: 'more', text: (i) => typeOf(r.layers[i]) },
];

// Scales of a layer: a number, a list, or { count, min, max } of very many.
const scaleText = (l) => {
  const s = l.scale;
  if (typeof s === 'number' || s === null) return `${short(s)}, ${Array.isArray(l.zero_point) ? l.zero_point[0] : l.zero_point ?? '–'}`;
  const n = Array.isArray(s) ? s.length : s?.count, lo = Array.isArray(s) ? Math.min(...s) : s?.min,
    hi = Array.isArray(s) ? Math.max(...s) : s?.max;
  return `${count(n)} scale${n === 1 ? '' : 's'} along axis ${l.axis}${l.block ? ` in blocks of ${l.block}` : ''}, ${short(lo)} to ${short(hi)}`;
};

const layerFacts = (r, l) => {
  const o = l.observed ?? {}, c = l.chosen ?? {}, s = l.solver ?? {}, w = l.weight_rounding, b = l.bias_correction,
    choice = l.choice ?? {};
  const facts = [
    known(l.sqnr_db) && ['local error',
      `${decibel(l.sqnr_db)}, with all before it quantized too; cosine ${fixed(l.cosine, 6)}`],
    known(l.sqnr_alone_db) && ['its own rounding', `${decibel(l.sqnr_alone_db)}, with all before it exact`],
    l.node && [l.kind === 'weight' ? 'read by' : 'made by', nameOf(l.node)],
    ['scale, zero point', scaleText(l)],
    l.one_scale && ['one scale', l.one_scale],
    ['observed', [`${short(o.min)} to ${short(o.max)}, ${count(o.count)} values`,
      (o.nan || o.inf) ? h('b.bad', {}, `, ${count(o.nan)} NaN, ${count(o.inf)} infinite`) : null]],
    ['chosen range', `${short(c.min)} to ${short(c.max)} by ${l.method ?? '–'}${choice.taken_for === 'steps' ? ' (all values are multiples of one step, which is the scale)' : choice.gain_db > 0 ? ` (${fixed(choice.gain_db)} dB less noise of the outputs than with mse)` : ''}; clipped ${percent(l.clipped_fraction)}`],
    (known(s.known?.min) || known(s.known?.max)) && ['possible range',
      `${known(s.known.min) ? short(s.known.min) : '−∞'} to ${known(s.known.max) ? short(s.known.max) : '∞'}: guaranteed by the operators before it, for any input`],
    known(s.objective) && ['objective',
      `${short(s.objective)} for the chosen range${known(s.objective_minmax) ? `, ${short(s.objective_minmax)} for the observed extremes` : ''}; the error that ${l.method} minimizes, over ${plural(s.candidates ?? 0, 'range')}`],
    w && ['rounding', `${w.method}${w.reason ? `: ${w.reason}` : ''}${w.judged_on ? `; mean squared error of its output, on ${w.judged_on === 'all' ? 'all' : 'held-out'} samples: ${short(w.error_nearest)} to the nearest${w.method === 'compensated' ? `, ${short(w.error)} compensated (${w.outputs_nearest} of ${w.outputs} outputs stay nearest)` : ''}` : ''}`],
    b && ['bias corrected', `by ${short(b.rms)} (root mean square), ${short(b.max)} at most`],
    l.scales_raised > 0 && ['for the accumulator',
      `${plural(l.scales_raised, 'scale')} raised, by a factor of ${short(l.scale_raise_max)} at most`],
    known(l.max_abs) && ['largest error',
      short(l.max_abs)],
    known(l.saturated_fraction) && ['at the ends', `${percent(l.saturated_fraction)} of the values have the lowest or highest level`],
  ];
  return h('dl', {}, facts.filter(Boolean).map(([term, text]) => [h('dt', {}, term), h('dd', {}, text)]));
};

const plotFigure = (plot, caption) => plot && h('figure', {}, plot, h('figcaption', {}, caption));
// The values and the channels of a layer, which come first.
const valuePlots = (l) => h('div.plots', {},
  l.histogram?.counts?.length ? plotFigure(histogramPlot(l),
    `Values per bar, logarithmic. Shaded: the chosen range; orange: clipped.${l.histogram.zeros ? ` Without ${plural(l.histogram.zeros, 'exact zero')}.` : ''}`)
    : l.kind === 'activation' ? h('p.note', {}, `No histogram: method ${l.method} keeps only the extremes.`) : null,
  l.channels ? plotFigure(channelPlot(l),
    `Least and largest weight of each channel${l.channels.count > l.channels.min.length ? ', of neighbours together' : ''}.`) : null);
const solverPlots = (r, l) => {
  const curve = curvePlot(l), limit = r.json.accumulator?.bits ?? 32;
  return h('div.plots', {},
    curve && plotFigure(curve, `Objective of ${l.method} for the ranges that the solver tried${l.solver.refused ? '; dotted: ranges that are not admitted because their error is too large' : ''}. The line and the full dot are its choice, found by moving each end of the range too${l.solver.runner_up ? '; the open dot is the best of those further away' : ''}.`),
    l.accumulator_bits ? plotFigure(accumulatorPlot(l, limit), `Bits of the accumulator, sign included; limit ${limit}.`)
      : null);
};

// What is known about the cause, and what can be done: for this layer, or for all if it is a source of error.
const layerAdvice = (r, l, i) => {
  const why = r.matters() ? r.suggestions.find((s) => s.layer === i || (s.name && s.name === l.node)) : null,
    advice = [...l.node ? r.adviceOn(l.node) : [], ...why ? r.advice().filter((a) => !a.node) : []];
  return [
    why ? [h('h3', {}, 'Cause'), h('p', {}, sentence(why.why))] : null,
    advice.map((a) => [h('h3', {},
      `${a.action}: ${r.gain(a).name ?? 'outputs'} ${fixed(r.gain(a).before)} → ${decibel(r.gain(a).after)}`),
      [accuracyText(r, a), costText(r, a.cost)].filter(Boolean).map((text) => h('p.note', {}, sentence(text))),
      command(a.shell ?? shell(a.command))]),
  ];
};

const layerDetail = (r, i) => {
  const l = r.layers[i], db = r.effect(l), effect = r.effects.get(l.node);
  return h('article', { 'data-layer': i + 1 },
    h('h2', {}, h('span.muted.number', {}, String(i + 1)), ' ', nameOf(l.name)),
    h('p.note', {}, `${l.op}, ${l.kind}, ${typeOf(l)}`),
    known(db) ? h('p.note', {}, h(`span.chip.${level(db)}`, {}, decibel(db)),
      ` of the outputs with only ${l.node ?? 'this layer'} quantized${effect ? (effect.measured ? ', measured' : ', estimated') : ''}`) : null, effectsNote(r),
    layerAdvice(r, l, i), valuePlots(l), layerFacts(r, l), solverPlots(r, l), l.node
      ? [h('h3', {}, 'To try this layer in float'), command(`--skip=${shellWord(l.node)}`)] : null);
};
