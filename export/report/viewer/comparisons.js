// SPDX-License-Identifier: Apache-2.0
// The screens of two reports, and of two models.

// ---- Two reports ----

const figure = (unit, v) => (!known(v) ? '–' : unit === 'share' ? `${fixed(100 * v)} %` : unit === 'bytes' ? bytes(v)
  : unit === '' ? fixed(v, 0) : unit === 'number' ? short(v) : `${unit === 'ms' ? short(v) : fixed(v, unit === 'nats' ? 4 : 2)} ${unit}`);
const change = (f) => {
  const by = f.change, sign = by < 0 ? '−' : '+';
  if (!known(by)) return '–';
  if (by === 0) return 'same';
  if (f.unit === 'bytes' || f.unit === 'ms') return f.values[0] > 0
    ? `${sign}${fixed(100 * Math.abs(by) / f.values[0], 1)} %` : '–';
  return f.unit === 'share' ? `${sign}${fixed(100 * Math.abs(by))} points` : f.unit === '' ? `${sign}${Math.abs(by)}` : f.unit === 'number' ? `${sign}${short(Math.abs(by))}`
    : `${sign}${fixed(Math.abs(by), f.unit === 'nats' ? 4 : 2)} ${f.unit}`;
};
// A change for the worse that matters.
const isLoss = ({ unit, values: [from, to], change: by }) => (unit === 'share' ? Math.abs(by) >= 0.005 : unit === 'dB'
  ? to < 40 && Math.abs(by) >= 0.5 : unit === 'nats' ? Math.abs(by) >= 0.01 : Math.abs(by) >= 0.01 * Math.abs(from));
const changes = () => {
  const json = (v) => (v === null || v === undefined ? 'not in this report' : typeof v === 'string' ? v : JSON.stringify(v)),
    pair = (a, from = typeName) => (a[0] === a[1] ? from(a[0]) : `${from(a[0])} → ${from(a[1])}`);
  const what = (l) => l.changed.map((c) => (c === 'type' ? `type ${pair(l.type)}` : c === 'method'
    ? `method ${pair(l.method, String)}` : c === 'parameters' ? (l.changed.includes('type') || l.changed.includes('method') ? null
    : 'scale or zero point') : c)).filter(Boolean).join(', ') || 'only its input or weight values';
  const range = (l, k) => (known(l.min?.[k]) ? `${short(l.min[k])} to ${short(l.max[k])}` : '–'), rows = page.layers;
  const column = (title, css, value, text) => ({ title, css, value, text });
  // Layers are ordered by the change of their noise: 20 dB of 60 matter less than 2 dB of 20.
  const noise = ({ output_sqnr_db: [a, b] }) => Math.abs(10 ** (-a / 10) - 10 ** (-b / 10));
  const db = (title, css, key, k, more = '') => ({ title, css: `n${css}${more}`, value: (l) => l[key]?.[k], text: (l) => fixed(l[key]?.[k]),
    level: css ? null : (l) => l[key]?.[k] });
  const t = dataTable([numberOf(rows),
    { ...column('tensor', 'name', (l) => l.name, (l) => withOp(nameOf(l.name), l.op)) },
    column('change, dB', 'n.db', (l) => (known(l.change_db) ? noise(l) : null),
    (l) => (known(l.change_db) ? h(l.change_db < -0.5 && l.output_sqnr_db?.[1] < 40 ? 'span.bad' : 'span', {},
    `${l.change_db >= 0 ? '+' : '−'}${fixed(Math.abs(l.change_db))}`) : '–')),
    db('first, dB', '', 'output_sqnr_db', 0, '.more'), db('second, dB', '', 'output_sqnr_db', 1, '.effect'),
    db('first tensor, dB', '.local', 'sqnr_db', 0), db('second tensor, dB', '.local', 'sqnr_db', 1),
    column('what changed', 'what.more', what, what),
      ...[0, 1].map((k) => column(`${['first', 'second'][k]} range`, 'n.more', (l) => l.max?.[k], (l) => range(l, k))),
      column('op', 'op', null, (l) => l.op)],
  rows, { id: 'layers', label: 'Layers that differ', kinds: { '': 'all', activation: 'activations',
    weight: 'weights' }, kindOf: (l) => l.kind, placeholder: 'Filter: name, op, what changed', order: [2, true], more: localSwitch() });
  return Object.assign([h('header', {}, h('h2.title', {}, `Two reports of ${baseName(page.model.file)}`),
    h('p.verdict', {}, page.records.map((j, k) => [k ? ' → ' : null, gradeOf(new Report(j))]), ' ', sentence(page.verdict.text)), h('p.note', {}, 'Changes are from the first report to the second.')),
    page.notes?.length ? h('section.warnings', {}, h('h3', {}, 'What is not comparable'),
      h('ul', {}, page.notes.map((n) => h('li', {}, unbroken(n))))) : null,
    h('h2', {}, 'Figures'), simpleTable('Figures', [['figure'], ['first', 'n'], ['second', 'n'], ['change', 'n']],
      page.figures.map((f) => [f.name, figure(f.unit, f.values[0]), figure(f.unit, f.values[1]),
      h(f.change * f.better < 0 && isLoss(f) ? 'span.bad' : 'span', {}, change(f))]), 'figures'),
    h('h2', {}, 'Options that differ'), page.options.length ? simpleTable('Options',
      [['option'], ['first', 'name'], ['second', 'name']],
      page.options.map((o) => [h('code', {}, `--${o.name}`), json(o.values[0]), json(o.values[1])]), 'options')
      : h('p', {}, 'All options are the same.'),
    h('h2', {}, `Layers that differ: ${page.layers.length} of ${page.layers_in_both}`),
      h('p.note', {}, 'SQNR of the outputs with only the operator of the tensor quantized, the largest change of noise first. Ranges are those that the scales cover.'), t,
    [0, 1].map((k) => {
      const names = page[k ? 'only_in_second' : 'only_in_first'] ?? [],
        of = new Map((page.records[k].layers ?? []).map((l) => [l.name, l]));
      return names.length ? [h('h2', {}, `Quantized in the ${k ? 'second' : 'first'} report only: ${names.length}`),
        simpleTable(`Layers of the ${k ? 'second' : 'first'} report`, [['tensor', 'name'], ['type'], ['op'], ['kind']],
        names.map((n) => [nameOf(n), typeName(of.get(n)?.type), of.get(n)?.op ?? '', of.get(n)?.kind ?? '']))] : null;
    }),
    h('h2', {}, 'To get the same again'), command(page.command), h('dl.below', {},
      page.reports.map((f, k) => [h('dt', {}, `${k ? 'second' : 'first'} report`),
      h('dd', {}, f.file, h('br'), h('code', {}, page.records[k].command ?? ''))]))], { table: t });
};

// ---- Two models ----

const isEqual = (l) => l.differing === 0;
const dbOrEqual = (l) => (isEqual(l) ? 'equal' : fixed(l.sqnr_db));
const comparisonSummary = () => {
  const differing = page.outputs.filter((o) => !o.equal),
    worst = [...differing].sort((a, b) => (a.sqnr_db ?? -1e9) - (b.sqnr_db ?? -1e9))[0], layers = page.layers,
    first = layers.findIndex((l) => !isEqual(l)), steps = layers.map((l) => l.max_steps).filter(known);
  const tolerance = known(page.tolerance) ? [' The tolerance ', String(page.tolerance), ' is ',
    page.outputs.every((o) => (known(o.max_abs) ? o.max_abs <= page.tolerance : o.equal)) ? 'kept'
    : h('b.bad', {}, 'exceeded'), '.'] : null;
  const far = layers.map((l, i) => [l, i]).filter(([l]) => known(l.sqnr_db) && !isEqual(l)
    && !l.channels_scaled).sort((a, b) => a[0].sqnr_db - b[0].sqnr_db).slice(0, 3);
  return [h('header', {}, h('h2.title', {}, baseName(page.models[1].file)),
    h('p', {}, 'Compared with ', h('b.name', {}, baseName(page.models[0].file)), ' on ',
    h('b', {}, count(page.samples)), ` sample${page.samples === 1 ? '' : 's'} of `,
    h('b.name', {}, baseName(page.data.file)),
    `. ${plural(layers.length, 'layer')} of both were matched by name, or by op, shape and order.`,
    page.contracts ? [' Integers are rounded by ', h('b', {}, page.rounding[0]), ' in the reference and by ',
      h('b', {}, page.rounding[1]), ' in the model.'] : null)),
  h('div.tiles', {}, worst ? tile(page.outputs.length > 1 ? 'Outputs, the worst' : 'Output',
    known(worst.sqnr_db) ? decibel(worst.sqnr_db) : 'differs', h('div.note.name', {},
    `${worst.name}: ${known(worst.sqnr_db) ? `cosine ${fixed(worst.cosine, 6)}, at most ${short(worst.max_abs)} apart; ` : ''}${count(worst.differing)} of ${count(worst.elements)} elements differ.`, tolerance)) : tile(page.outputs.length > 1 ? 'Outputs' : 'Output', 'equal', note('bit for bit, in every element', tolerance)),
    tile('Equal layers', [String(layers.filter(isEqual).length), ' ', h('small', {}, `of ${layers.length}`)],
      first >= 0 ? note('The first that differs: ', link(first, layers[first].name)) : null),
      tile('Most steps apart', steps.length ? short(Math.max(...steps)) : '–',
      note('of the model’s scale, in any stored value'))),
  h('p.below', {}, far.length ? ['Furthest apart: ',
    far.map(([l, i], k) => [k ? ', ' : null, link(i, l.name), ` (${l.op}) ${decibel(l.sqnr_db)}`]), '.']
    : 'No layer differs.'), warnings(page.warnings),
  page.outputs.length > 1 ? [h('h2', {}, 'Outputs'), simpleTable('Outputs',
    [['output', 'name'], ['SQNR, dB', 'n'], ['cosine', 'n'], ['max', 'n'], ['differing', 'n'], ['elements', 'n']],
    page.outputs.map((o) => [o.name, o.equal ? 'equal' : fixed(o.sqnr_db), fixed(o.cosine, 6), short(o.max_abs),
    count(o.differing), count(o.elements)]))] : null];
};
const apart = (l, least) => (l.steps ? l.steps.slice(least).reduce((a, n) => a + n, 0) / l.elements : null);
const comparisonPlot = () => {
  const measured = page.layers.map((l, i) => ({ l, i })).filter(({ l }) => !l.channels_scaled
    && (known(l.sqnr_db) || isEqual(l)));
  const lines = [{ ...LINE[0], words: 'SQNR of the model’s value against the reference’s' }],
    steps = ['line', 'line2', 'line3'].map((css, k) => ({ css, dot: ['dot', 'dot2', 'dot3'][k], r: 2.8,
    words: `${k + 1} step${k ? 's' : ''} or more apart` }));
  const points = measured.map(({ l, i }) => ({ number: i + 1, values: [l.sqnr_db],
    title: `${shown(l.name ?? '(no name)')} (${l.op}): ${isEqual(l) ? 'equal' : decibel(l.sqnr_db)}, cosine ${fixed(l.cosine, 6)}` }));
  const stored = measured.filter(({ l }) =>
    l.steps).map(({ l, i }) => ({ number: i + 1, values: [1, 2, 3].map((k) => apart(l, k)),
    title: `${shown(l.name ?? '(no name)')}: ${[1, 2, 3].map((k) => `${k} step${k > 1 ? 's' : ''} or more ${percent(apart(l, k))}`).join(', ')}` }));
  return [h('h2', {}, 'Differences along the network'), measured.every(({ l }) => isEqual(l))
    ? h('p', {}, 'No layer differs.')
    : [h('p.note', {}, 'Of the model’s values against the reference’s; equal values have no point.'), legend(lines),
    networkFigure(points, lines, { label: 'Differences along the network', top: 'SQNR, dB' }),
    stored.length ? [h('h2', {}, page.contracts ? 'How differences between the two contracts grow'
      : 'Steps apart along the network'), legend(steps), networkFigure(stored, steps,
      { label: 'Steps apart along the network', top: 'share of the elements', log: true })] : null]];
};
const BARS = ['span', 'bars', 'bars.two', 'bars.out'];
const stepBar = (l) => {
  if (!l.steps || !l.elements) return '';
  let at = 0;
  return svg('svg', { width: 96, height: 12, role: 'img' }, svg('title', {},
    l.steps.map((n, k) => `${plural(n, 'element')} ${k}${k === 3 ? ' or more' : ''} steps apart`).join(', ')),
    l.steps.map((n, k) => {
    const wide = 96 * n / l.elements, e = n ? svg(`rect.${BARS[k]}`,
      { x: Math.min(at, 95).toFixed(2), y: 1, width: Math.max(wide, 1).toFixed(2), height: 10 }) : null;
    at += wide;
    return e;
  }));
};
const comparisonTable = () => {
  const n = (title, value, text, hint, css = 'n.more') => ({ title, css, value, text, hint }),
    scaled = (l, v) => (l.channels_scaled ? null : v);
  const t = dataTable([{ ...numbered, value: (i) => i + 1, text: (i) => String(i + 1) },
    { title: 'value', css: 'name', value: (i) => page.layers[i].name, text: (i) => withOp(nameOf(page.layers[i].name), page.layers[i].op) },
    n('SQNR, dB', (i) => scaled(page.layers[i], isEqual(page.layers[i]) ? 1e9 : page.layers[i].sqnr_db),
      (i) => (page.layers[i].channels_scaled ? '–' : dbOrEqual(page.layers[i])),
      'the reference’s signal to the noise that is the difference', 'n'),
    ...[['cosine', 'cosine', (v) => fixed(v, 6)], ['MSE', 'mse', short, 'mean squared difference'],
      ['max', 'max_abs', short, 'largest difference'], ['max steps', 'max_steps', short,
      'the same in steps of the model’s scale']].map(([title, key, text, hint]) =>
      n(title, (i) => (key === 'cosine' || key === 'mse' ? scaled(page.layers[i], page.layers[i][key])
      : page.layers[i][key]), (i) => text(key === 'cosine' || key === 'mse'
      ? scaled(page.layers[i], page.layers[i][key]) : page.layers[i][key]), hint)),
    n('differing', (i) => page.layers[i].differing / page.layers[i].elements,
      (i) => percent(page.layers[i].differing / page.layers[i].elements), 'share of the elements that differ', 'n'),
      n('steps', (i) => apart(page.layers[i], 1), (i) => stepBar(page.layers[i]), 'elements by steps apart'),
    { title: 'op', css: 'op', text: (i) => page.layers[i].op }, { title: 'matched', css: 'more',
      text: (i) => page.layers[i].matched,
      hint: 'how the layer was found in both models: by name, or by op, shape and order' }],
  page.layers.map((_, i) => i), { id: 'layers', label: 'Layers', kinds: { '': 'all', differing: 'differing',
    equal: 'equal' }, kindOf: (i) => (isEqual(page.layers[i]) ? 'equal' : 'differing') });
  return Object.assign([h('h2', {}, 'Layers'),
    h('ul.legend', {}, ['equal', '1 step apart', '2 steps', '3 or more'].map((words, k) =>
    h('li', {}, svg('svg', { width: 26, height: 12, 'aria-hidden': true },
    svg(`rect.${BARS[k]}`, { y: 1, width: 26, height: 10 })), words))), t], { table: t });
};
const comparisonFiles = () => [h('h2', {}, 'To get the same again'), command(page.command),
  h('dl.below', {}, h('dt', {}, 'version'), h('dd', {}, `qcalib ${page.version}`),
  fileRow('reference', page.models[0].file, page.models[0].sha256),
  fileRow('model', page.models[1].file, page.models[1].sha256), fileRow('data', page.data.file, page.data.sha256)),
  options(page.options)];
