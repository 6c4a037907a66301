// SPDX-License-Identifier: Apache-2.0
// The screens of a report, of two reports, and of two models; one is shown at a time, and a layer beside it, as in the
// address: #plot, #L7 (the table and layer 7), #graph/L7.

const sentence = (s) => (s ? (s[0].toUpperCase() + s.slice(1) + (/[.!?]$/.test(s) ? '' : '.')).replace(/(\d) (%|dB)/g, '$1\u00a0$2') : '');
const GRADES = { good: 'Good', usable: 'Usable', poor: 'Poor', unknown: 'Not measured' };
const tile = (title, big, ...notes) => h('section.tile', {}, h('h2', {}, title), h('div.big', {}, big), notes);
const note = (...text) => h('div.note', {}, text);
const isPsnr = (a) => a?.metric === 'psnr';
const isOwn = (a) => a?.metric === 'metric'; // of a program of the user's own
const metricName = (a) => (isPsnr(a) ? 'PSNR' : isOwn(a) ? 'Metric' : 'Top-1 accuracy');
const metricFactor = (a) => (isPsnr(a) || isOwn(a) ? 1 : 100);
const metricUnit = (a, top1) => (isPsnr(a) ? 'dB' : isOwn(a) ? '' : top1);
const node = (r, name, i = r.byNode.get(name)) => (i === undefined || i === null ? nameOf(name) : link(i, name));
// An advice on several nodes names them in one text.
const nodes = (r, text) => (r.byNode.has(text) ? node(r, text)
  : String(text).split(', ').flatMap((n, k) => [k ? ', ' : null, node(r, n)]));
const state = { local: false };
const localSwitch = () => h('label.switch', {},
  h('input', { type: 'checkbox', checked: state.local,
  onchange: (e) => { state.local = e.target.checked; app.redraw(); } }), 'Local errors');

// ---- Summary ----

const accuracyTile = (r) => {
  const a = r.json.accuracy, by = metricFactor(a), unit = metricUnit(a, '%'),
    drop = (a.lower_is_better ? -1 : 1) * by * (a.fp32 - a.int8), i = a.int8_interval;
  return tile(isOwn(a) ? 'Metric'
    : `${metricName(a)} on ${a.positions ? `${count(a.positions)} positions of ` : ''}${plural(a.samples, 'sample')}`,
    [`${fromTo(fixed(by * a.fp32), fixed(by * a.int8))}${unit && `\u00a0${unit}`} `,
      fixed(by * a.fp32) === fixed(by * a.int8) ? h('small', {}, 'as in float') : h(drop > (isOwn(a) ? Infinity : isPsnr(a) ? 0.5 : 1) ? 'small.bad' : 'small', {},
      `${drop > 0 ? '−' : '+'}${fixed(Math.abs(drop))} ${metricUnit(a, 'points')}`)],
    isOwn(a) ? note(a.file, a.lower_is_better ? ' (less is better)' : '')
      : intervalPlot(a, ['fp32', r.json.network ?? 'int8']),
    i && note(`95 % interval of ${r.json.network ?? 'int8'}: ${fixed(100 * i[0])} to ${fixed(100 * i[1])} %. ${r.json.reference ? 'The given, partly quantized model' : 'fp32'} lies ${a.fp32 >= i[0] && a.fp32 <= i[1] ? 'inside' : 'outside'} it.`,
      known(a.int8_top5) && ` Top‑5: ${fromTo(fixed(100 * a.fp32_top5), fixed(100 * a.int8_top5))}\u00a0%.`),
    known(a.int8_nll) && note(`Negative log-likelihood: ${fromTo(fixed(a.fp32_nll, 4), fixed(a.int8_nll, 4))} nats per position.`));
};
const MEASURED_ON = { 'evaluation': ' of the evaluation data', 'not calibrated': ' that did not calibrate' };
const outputTile = (r) => {
  const all = r.outputs(), o = r.worstOutput(), n = r.json.measured_samples;
  if (!n || (!o && !all.some((x) => x.state === 'equal')))
    return tile('Output SQNR', h('small', {}, 'not measured'),
      note('Float and quantized outputs are compared on samples: give ', h('code', {}, '--data FILE'), '.'));
  if (!o) return tile(`Outputs on ${plural(n, 'sample')}`, 'equal',
    note('The outputs equal those of the float model.'));
  return tile(`${all.length > 1 ? 'Worst output’s' : 'Output'} SQNR on ${plural(n, 'sample')}`,
    h(`span.chip.${level(o.sqnr_db)}`, {}, decibel(o.sqnr_db)),
    h('div.note.name', {}, `Signal to quantization noise ratio of ${o.name}${MEASURED_ON[r.json.measured_on] ? `, on samples${MEASURED_ON[r.json.measured_on]}` : ''}: cosine ${fixed(o.cosine, 6)}, largest error ${short(o.max_abs)}`, r.json.accuracy ? '.' : ['. With ', h('code', {}, '--eval FILE'), ' the report shows accuracy.']));
};
const sizeTile = (r) => {
  const from = r.json.model?.bytes, files = r.json.files ?? [], to = files[0]?.bytes;
  return tile('Size of the model file', files.length ? fromTo(bytes(from), bytes(to)) : bytes(from),
    !files.length ? h('div.note.bad', {}, 'No model was written: a demand was not met.')
      : from ? note(to > from ? h('b.bad', {}, `${fixed(100 * to / from, 0)} % of the original: the file is larger than its source`)
        : `${fixed(100 * to / from, 0)} % of the original`) : null);
};
const integersTile = (r) => {
  const j = r.json, floats = j.float_ops?.length ?? 0, all = (j.quantized_ops ?? 0) + floats;
  const [what, share] = j.small_float_share > 0 ? ['8-bit floats', j.small_float_share] : j.block_share > 0
    ? ['blocks', j.block_share] : ['integers', j.integer_share];
  const rest = floats ? [`. ${floats} stay${floats === 1 ? 's' : ''} in float: `,
    h('a', { href: '#graph' }, 'which, and why')] : null;
  return known(share) ? tile(`Multiply-adds in ${what}`, `${fixed(100 * share, 1)} %`,
    note(`${j.quantized_ops} of ${plural(all, 'op')}`, rest))
    : tile('Ops in integers', [String(j.quantized_ops), ' ', h('small', {}, `of ${all}`)],
      note('The share of multiply-adds is not known', rest));
};
const latencyTile = (r) => {
  const b = r.json.timing?.benchmark;
  const parts = b && [['Float', b.float_ms], ['default', b.default_ms],
    ['everything in integers', b.integers_ms]].filter((p) => known(p[1])).map((p) => `${p[0]} ${short(p[1])} ms`);
  const c = r.json.cost;
  if (!b) return known(c?.latency) ? tile('Estimated latency', `${fixed(100 * c.latency, 0)} %`,
    note(c.latency > 1.05 ? h('b.bad', {}, 'slower than the float model') : 'of that of the float model',
    ', by the operators; ', h('code', {}, '--benchmark'), ' measures it')) : null;
  return b ? tile('Latency', `${short(b.best_ms)} ms`, note(`${parts.join(', ')}. Measured by `,
    h('code', {}, b.command))) : null;
};

// Options in a text are not broken after their hyphens.
const unbroken = (text) => String(text).split(/(\s+)/).map((w) => (/^\(?--/.test(w) ? h('span.option', {}, w) : w));
const warnings = (list) => (list?.length ? h('section.warnings', {}, h('h3', {}, plural(list.length, 'warning')),
  h('ul', {}, list.map((w) => h('li', {}, unbroken(w))))) : null);

const NO_ADVICE = {
  'off': ['Nothing was tried: ', h('code', {}, '--advice off'), '.'],
  'no data': ['Nothing was tried: commands are tried on the samples of ', h('code', {}, '--data'), '.'],
  'not needed': ['The loss is too small to need a change.'],
  'demand met': ['The demand is met with wider types.'],
  'size chosen': ['Nothing was tried: ', h('code', {}, '--size'), ' has chosen the types.'],
  'large model': ['Nothing was tried: the model is large or memory is limited; ', h('code', {}, '--advice on'),
    ' tries all the same.'],
  'data shared': ['Nothing was tried: several processes share the data.'],
  'outputs constant': ['Nothing was tried: the outputs are nearly the same for all samples. Check how the samples are prepared (',
    h('code', {}, '--preprocess'), ').'],
};
const noAdvice = (r, brief) => {
  const { advice_state: why, advice_tried: tried, advice_left: left, advice_left_out: out } = r.json;
  const words = NO_ADVICE[why]?.map((e) => (e instanceof Node ? e.cloneNode(true) : e))
    ?? [tried ? `Nothing found: ${tried === 1 ? 'one option was tried, and it gains less than' : `${tried} options were tried, and none gains`} 0.3 dB.` : left ? '' : 'No option is known that could help.'];
  return [words, leftOut(left, brief ? [] : out, tried)];
};
const leftOut = (left, out, tried) => (left
  ? [` ${left} ${tried ? 'more ' : ''}${left === 1 ? 'idea was' : 'ideas were'} not tried, to save time; `,
  h('code', {}, '--advice on'), ' tries all',
  out?.length ? `: ${out.map((o) => [o.action, o.node].filter(Boolean).join(': ')).join('; ')}.` : '.'] : null);

const helpCard = (r) => {
  const a = r.matters() ? r.advice()[0] : null, more = r.advice().length;
  return h('section.card', {}, h('h2', {}, 'What would help'), a
    ? [h('p', {}, a.action, a.node ? [': ', nodes(r, a.node)] : null),
      h('p.figure', {}, r.gain(a).name ? `${r.gain(a).name} ` : null, `${fixed(r.gain(a).before)} → `,
      h('b', {}, decibel(r.gain(a).after))),
      [accuracyText(r, a), costText(r, a.cost)].filter(Boolean).map((text) => h('p.note', {}, sentence(text))),
      h('p.note', {}, h('a', { href: '#advice' }, more > 1 ? 'The command, and what else helps' : 'The command'))]
    : [h('p', {}, more ? 'The loss is too small to need a change.' : noAdvice(r, true)),
      more || r.json.cheaper || r.json.fallback || r.json.advice_tried
      ? h('p.note', {}, h('a', { href: '#advice' }, more ? 'What would raise the SQNR all the same'
      : 'What was tried')) : null]);
};
const ranked = (r) => r.ranking.filter((e) => known(e.output_sqnr_db)).sort((a, b) =>
  a.output_sqnr_db - b.output_sqnr_db);
const worstCard = (r) => {
  const worst = ranked(r).slice(0, 3);
  return h('section.card', {}, h('h2', {}, 'Layers with the largest effect on the outputs'), worst.length
    ? [h('ol.worst', {}, worst.map((e) =>
      h('li', {}, h('span.name', {}, node(r, e.node), ' ', h('span.muted', {}, e.op)),
      h(`b.chip.${level(e.output_sqnr_db)}`, {}, decibel(e.output_sqnr_db, 1))))),
      h('p.note', {}, h('a', { href: '#effects' }, 'All layers'), r.matters() && r.suggestions.length
        ? [', and ', h('a', { href: '#advice' }, 'causes')] : null)]
    : h('p', {}, r.json.measured_samples ? 'No layer adds noise to the outputs.' : 'It was not measured.'));
};

const dataCard = (r) => {
  const d = r.json.data ?? {}, a = r.json.accuracy, activations = r.layers.filter((l) => l.kind === 'activation'),
    inputs = activations.filter((l) => l.op === 'Input');
  const sum = (key) => activations.reduce((n, l) => n + (l.observed?.[key] ?? 0), 0),
    bad = activations.filter((l) => l.observed?.nan || l.observed?.inf);
  // The range of an input on evaluation samples, marked if half of it lies outside that of calibration.
  const evaluated = (l) => {
    const e = (a?.inputs ?? []).find((i) => i.name === l.name), o = l.observed ?? {};
    if (!known(e?.min) || !known(o.max)) return null;
    const beyond = Math.max(0, o.min - e.min) + Math.max(0, e.max - o.max);
    return h(beyond > 0.5 * (o.max - o.min) ? 'b.bad' : 'span.muted', {},
      ` (evaluation: ${short(e.min)} to ${short(e.max)}${e.not_finite ? `, ${count(e.not_finite)} not finite` : ''})`);
  };
  const constant = inputs.filter((l) => known(l.observed?.min) && l.observed.min === l.observed.max);
  if (!d.file) return null;
  return h('section.card', {}, h('h2', {}, 'Data'), h('dl', {},
    h('dt', {}, 'calibration'), h('dd.name', {},
      `${count(d.samples)} of ${plural(d.samples_in_file, 'sample')} of ${baseName(d.file)}${d.samples_dropped ? `, ${count(d.samples_dropped)} dropped` : ''}`),
    a ? [h('dt', {}, 'evaluation'), h('dd.name', {}, `${plural(a.samples, 'sample')} of ${baseName(a.file)}`)] : null,
    inputs.length ? [h('dt', {}, 'inputs'),
      h('dd.name', {}, inputs.slice(0, 4).map((l, k) => [k ? h('br') : null, node(r, l.name, r.layers.indexOf(l)),
      ` ${short(l.observed?.min)} to ${short(l.observed?.max)}`, evaluated(l)]),
      inputs.length > 4 ? ` and ${inputs.length - 4} more` : null)] : null,
    a?.classes ? [h('dt', {}, 'classes'), h(a.classes.seen < a.classes.count && !a.positions ? 'dd.bad' : 'dd', {},
      `labels of ${count(a.classes.seen)} of ${plural(a.classes.count, 'class').replace(/classs$/, 'classes')}, ${a.classes.least === a.classes.most ? count(a.classes.most) : `${count(a.classes.least)} to ${count(a.classes.most)}`} each`)] : null,
    h('dt', {}, 'NaN, infinite'), h('dd', {}, bad.length ? h('b.bad', {},
      `${count(sum('nan'))} NaN and ${count(sum('inf'))} infinite values in ${plural(bad.length, 'tensor')}`) : 'none'),
    constant.length ? [h('dt', {}, 'constant inputs'), h('dd.name.bad', {}, constant.map((l) => l.name).join(', '))]
      : null));
};

const doneText = (r) => {
  const d = r.json.data ?? {}, weights = r.layers.filter((l) => l.kind === 'weight'),
    activations = r.layers.filter((l) => l.kind === 'activation'), chosen = (r.json.trials ?? []).find((t) => t.chosen);
  const most = (list) => { const n = new Map(); list.forEach((l) =>
    n.set(l.method, (n.get(l.method) ?? 0) + 1)); return [...n].sort((a, b) => b[1] - a[1])[0]?.[0]; };
  const free = (r.json.free_changes ?? []).filter((f) => f.kept);
  return [h('h3.below', {}, 'What was done'),
    h('p', {}, `${plural(activations.length, 'activation tensor')} and ${plural(weights.length, 'weight')} were given parameters`,
    d.file ? [' from ', h('b', {}, count(d.samples)), ` of ${count(d.samples_in_file)} samples of `,
      h('b.name', {}, baseName(d.file))]
      : [' without samples: weights are rounded to nearest, and no error was measured. With ',
      h('code', {}, '--data FILE'), ' rounding is compensated'],
    most(activations) ? [' by ', h('b.name', {}, most(activations))] : null,
      most(weights) ? [' (weights: ', h('b.name', {}, most(weights)), ')'] : null, '.',
    chosen && r.json.trials.length > 1
      ? [` Of ${r.json.trials.length} observers that were tried on ${plural(chosen.samples, 'sample')}, `,
      h('b.name', {}, chosen.method),
      chosen.gain_db > 0 ? ` is best for the outputs: ${fixed(chosen.gain_db)} dB less noise than with ${r.json.trials[0].method}.` : ' was kept: no other was better for the outputs of the whole network.'] : null,
    free.map((f) => unbroken(` ${f.options?.join(' ')} gains ${fixed(f.gain_db)} dB at no cost at run time.`)))];
};

// Estimated latency of each type of operator, in parts of that of the float model.
const operatorTimes = (r) => {
  const rows = [...r.json.latency_by_operator ?? []].sort((a, b) => Math.max(b.float, b.quantized)
    - Math.max(a.float, a.quantized)), least = 0.005;
  const shown_ = rows.filter((o) => Math.max(o.float, o.quantized) >= least), rest = rows.filter((o) => !shown_.includes(o));
  const sum = (list, key) => list.reduce((n, o) => n + o[key], 0), part = (v) => fixed(100 * v, 1);
  if (!rows.length) return null;
  return [h('h3.below', {}, 'Estimated latency by operator'),
    simpleTable('Estimated latency by operator', [['operator'], ['float model, %', 'n'], ['quantized, %', 'n']],
      [...shown_.map((o) => [o.op === 'Quantize' ? 'conversions between types' : o.op === 'rest' ? 'the run itself' : o.op, part(o.float), part(o.quantized)]),
        ...(rest.length ? [[`${plural(rest.length, 'other')}`, part(sum(rest, 'float')), part(sum(rest, 'quantized'))]] : []),
        [h('b', {}, 'all'), h('b', {}, part(sum(rows, 'float'))), h('b', {}, part(sum(rows, 'quantized')))]])];
};

const summary = (r) => [h('header', {}, h('h2.title', {}, baseName(r.json.model?.file)),
  h('p.verdict', {}, h(`b.grade.${r.grade}`, {}, r.json.constant_outputs ? 'Unclear' : GRADES[r.grade]), ' ', sentence(r.json.verdict?.text))),
  h('div.tiles', {}, r.json.accuracy ? accuracyTile(r) : outputTile(r), sizeTile(r), integersTile(r),
    r.json.accuracy ? outputTile(r) : null, latencyTile(r)), warnings(r.json.warnings),
  h('div.cards', {}, helpCard(r), worstCard(r), dataCard(r)), doneText(r), operatorTimes(r)];

// ---- Effects ----

const effects = (r) => {
  const j = r.json, measured = j.sensitivity?.length > 0 && !j.fallback?.met,
    alone = new Map(measured ? j.sensitivity.map((e) => [e.node, e]) : []),
    scored = measured && known(j.sensitivity[0].drop);
  const title = h('h2', {}, 'Layers by effect on the outputs');
  const table = (rows, columns, order, id) =>
    dataTable([{ ...numbered, value: (e) => rows.indexOf(e) + 1, text: (e) => String(rows.indexOf(e) + 1) },
    { title: 'layer', css: 'name', value: (e) => e.node, text: (e) => node(r, e.node) },
    { title: 'op', text: (e) => e.op }, ...columns],
    rows, { id, label: 'Layers by effect on the outputs', filter: 'Filter the layers by effect', order });
  const lost = (from) => ({ title: `lost, ${metricUnit(j.accuracy, 'points')}`, css: 'n', value: (e) => from(e)?.drop,
    text: (e) => fixed(from(e)?.drop) });
  const db = (name, from) => ({ title: name, css: 'n', value: from, level: from, text: (e) => fixed(from(e)) });
  if (r.ranking.length) {
    const rank = (e) => (scored ? -(alone.get(e.node)?.drop ?? -1e9) : 0),
      rows = [...r.ranking].sort((a, b) => rank(a) - rank(b) || (a.output_sqnr_db ?? 1e9) - (b.output_sqnr_db ?? 1e9));
    return [title, h('p.note', {}, 'The layers that add the most noise to the outputs come first. ',
      h('b', {}, 'Output SQNR'), ' is that of the outputs with only this layer quantized: its input and its weights.',
      rows.some((e) => !e.measured) ? [' An ', h('b', {}, 'estimate'), ' comes from the errors of all tensors; ',
        h('code', {}, '--sensitivity'), ' measures every layer.'] : null,
      scored ? [' ', h('b', {}, 'Lost'),
        ' is the accuracy that this layer alone costs; the layers are sorted by it first.'] : null,
        measured ? [' ', h('b', {}, 'Weights alone'), ': with only its weights quantized.'] : null,
        ' Click a column to sort.'),
    table(rows, [scored ? lost((e) => alone.get(e.node)) : null, db('output SQNR, dB', (e) => e.output_sqnr_db),
      measured ? db('weights alone, dB', (e) => alone.get(e.node)?.weights_sqnr_db) : null,
      { title: 'how known', text: (e) => (e.measured ? 'measured' : 'estimate') }].filter(Boolean), null, 'ranking'),
        earlier(r, table, lost, db)];
  }
  return [title, h('p', {}, j.measured_samples ? 'No layer adds noise to the outputs.'
    : ['Nothing was measured: effects are measured on the samples of ', h('code', {}, '--data'), '.']),
    earlier(r, table, lost, db)];
};
// Effects that were measured on the network before layers got wider types.
const earlier = (r, table, lost, db) => {
  const j = r.json, e = j.sensitivity ?? [], scored = known(e[0]?.drop);
  if (!e.length || (!j.fallback?.met && r.ranking.length)) return null;
  return [h('h2', {}, j.fallback?.met ? 'Effect of each layer, before layers got wider types'
    : 'Effect of each layer alone on the outputs'),
    h('p.note', {}, `${scored ? `${metricName(j.accuracy)} and its loss on ${plural(j.accuracy?.samples ?? 0, 'sample')}, and ` : ''}SQNR of the outputs on ${plural(j.sensitivity_samples, 'sample')} if only the inputs and weights of this layer are quantized; and with only its weights quantized.`),
    table(e, [scored ? { title: isPsnr(j.accuracy) ? 'PSNR, dB' : isOwn(j.accuracy) ? 'metric' : 'top-1, %', css: 'n',
      value: (x) => x.value, text: (x) => fixed(metricFactor(j.accuracy) * x.value) } : null,
      scored ? lost((x) => x) : null, db('SQNR, dB', (x) => x.sqnr_db),
      db('weights alone, dB', (x) => x.weights_sqnr_db)].filter(Boolean), null, 'effects-table')];
};

// ---- Advice ----

const sizeChoice = (r) => {
  const s = r.json.size;
  if (!s) return null;
  return [h('h2', {}, `Bits of each layer: ${count(s.bytes)} of at most ${count(s.limit)} bytes`),
    h('p.note', {}, s.error_of === 'outputs'
      ? 'Expected noise-to-signal ratio of the outputs over the file size; the large point is the written file, the dashed line the limit.' : 'There were no samples: the line is the error of the weights themselves, the same for all layers.'),
    h('div.scroll', {}, sizePlot(s, r.json.frontier ?? [])),
    h('details', {}, h('summary', {}, plural(s.layers.length, 'layer')),
      simpleTable('Bits of layers', [['layer'], ['bits', 'n'], ['bytes', 'n'], ['expected error', 'n']],
      s.layers.map((l) => [node(r, l.node), String(l.bits), count(l.bytes), short(l.expected_error)]))),
    s.blocks ? simpleTable('Weights in blocks', [['weights per scale', 'n'], ['fits'], ['expected error', 'n']],
      s.blocks.map((b) => [b.weight_block ? count(b.weight_block) : 'a channel', b.fits ? 'yes' : 'no',
      short(b.expected_error)])) : null,
    s.options?.length <= 12 ? [h('p.below', {}, 'Options that give the same result:'), command(s.command)] : null];
};
const latency = (r) => {
  const b = r.json.timing?.benchmark;
  if (!b) return null;
  const named = [['Float', 'float', b.float_ms, null], ['Written', 'best', b.best_ms, b.best_sqnr_db],
    ['Default', 'default', b.default_ms, b.default_sqnr_db], ['Everything in integers', 'integers', b.integers_ms,
    b.integers_sqnr_db]].filter((p) => known(p[2]));
  const plot = placementPlot([...b.changes.filter((c) => known(c.after_ms)
    && known(c.sqnr_db)).map((c) => ({ ms: c.after_ms, db: c.sqnr_db, mark: 'tried' })),
    ...named.map((p) => ({ ms: p[2], db: p[3], mark: p[1] }))]);
  return [h('h2', {}, 'Latency and error of placements'), h('div.plots', {},
    plot ? h('figure', {}, plot,
    h('figcaption', {}, 'SQNR of the outputs in dB. Small dots are changes that were tried, with ranges and rounding chosen in a cheaper way. The line joins placements that no other beats in both. Float has no error: it is at the upper edge.')) : null,
    h('div.key', {}, simpleTable('Placements', [['placement'], ['ms', 'n'], ['SQNR, dB', 'n']],
      named.map((p) => [[svg('svg', { width: 11, height: 11, viewBox: '0 0 11 11', 'aria-hidden': true },
      svg(`path.${MARKS[p[1]][0]}`, { d: `M5.5 5.5${MARKS[p[1]][1]}` })), p[0]], short(p[2]),
      p[1] === 'float' ? 'no error' : fixed(p[3])])))),
    h('h2', {}, `Placement by latency: ${b.changes.filter((c) => c.kept).length} of ${plural(b.changes.length, 'change')} kept`),
    simpleTable('Changes of the placement', [['operators', 'name'], ['count', 'n'], ['to'], ['ms before', 'n'],
      ['ms after', 'n'], ['SQNR, dB', 'n'], ['result', 'name']],
      b.changes.map((c) => [c.group, count(c.ops), c.to, short(c.before_ms), short(c.after_ms), fixed(c.sqnr_db),
      c.reason ? `not possible: ${c.reason}` : c.kept ? h('b', {}, 'kept') : ''])),
    b.reverted ? h('p.note', {}, 'They gain nothing over the default, which was written.') : null,
      b.groups_left ? h('p.note', {}, `${plural(b.groups_left, 'more group')} not tried.`) : null];
};
const fallback = (r) => {
  const f = r.json.fallback, a = r.json.accuracy;
  if (!f) return null;
  const asked = [known(f.max_drop) && `at most ${f.max_drop} ${metricUnit(a, 'points')} lost`,
    known(f.min_sqnr) && `outputs of at least ${f.min_sqnr} dB`, known(f.max_nll)
    && `nll of at most ${f.max_nll}`].filter(Boolean).join(', ');
  const columns = [['worst layers', 'n', (s) => (s.layers ? String(s.layers) : '–')],
    ['in', 'whole', (s) => s.type ?? 'as asked for'],
    ...(a ? [[isPsnr(a) ? 'PSNR, dB' : isOwn(a) ? 'metric' : 'top-1, %', 'n',
    (s) => fixed(known(s.value) ? metricFactor(a) * s.value : null)],
    [`lost, ${metricUnit(a, 'points')}`, 'n', (s) => fixed(s.drop)]] : []),
    ...(known(f.min_sqnr) ? [['worst output, dB', 'n', (s) => fixed(s.sqnr_db)]] : []),
      ...(known(f.max_nll) ? [['nll, nats', 'n', (s) => fixed(s.nll, 4)]] : []),
    ...(f.steps.some((s) => s.cost) ? [['file', 'n', (s) => bytes(s.cost?.bytes)],
      ['latency, % of float', 'n', (s) => fixed(known(s.cost?.latency) ? 100 * s.cost.latency : null, 0)]] : []),
    ['multiply-adds in int8, %', 'n', (s) => fixed(known(s.int8_share) ? 100 * s.int8_share : null, 1)],
      ['demand', 'name', (s) => (s.reason ? `not possible: ${s.reason}` : s.chosen ? h('b', {}, 'met, and written')
      : s.met ? 'met' : 'missed')]];
  return [h('h2', {}, `${f.mended ? (f.met ? 'Outputs that were too noisy were improved' : 'Noisy outputs were not improved') : f.met ? 'How the demand was met' : 'The demand was not met'}${asked ? `: ${asked}` : ''}`),
    h('p', {}, 'The layers that add the most noise to the outputs get wider types. Their number is doubled until the demand is met, and then bisected to the smallest number that meets it. Activations or weights, whichever lose more, get the next wider integer type of the target, or float.'),
    simpleTable('Attempts', columns.map((c) => [c[0], c[1]]), f.steps.map((s) => columns.map((c) => c[2](s)))),
    f.command ? [h('p.below', {}, 'Options that give the same result:'), command(f.command)] : null];
};
// The accuracy that an advice gives.
const accuracyText = (r, a) => {
  const m = a.measured ?? {}, by = metricFactor(r.json.accuracy);
  if (!known(m.accuracy_after)) return null;
  const [before, after] = [m.accuracy_before, m.accuracy_after].map((v) => fixed(by * v));
  return `${metricName(r.json.accuracy)} ${before === after ? `stays ${after}` : `${before} → ${after}`} ${metricUnit(r.json.accuracy, '%')}`;
};
// What an advice costs, if it changes the size or the latency that is shown.
const costText = (r, c) => {
  const change = (words, from, to, unit = '') => (from === to ? null : `${words} ${from} → ${to}${unit}`);
  const latency_ = (v) => (known(v) ? fixed(100 * v, 0) : '–');
  return c ? [change('file', bytes((r.json.files ?? [])[0]?.bytes), bytes(c.bytes)),
    change('estimated latency', latency_(r.json.cost?.latency), latency_(c.latency), ' % of float')].filter(Boolean).join(', ') : '';
};
const oneAdvice = (r, a) => {
  const m = a.measured ?? {}, held = m.held_back ?? {};
  return h('li', {}, h('h3', {}, a.action, a.node ? [': ', nodes(r, a.node)] : null),
    h('p', {}, `${r.gain(a).name ? `Output ${r.gain(a).name}` : 'Outputs'} ${fixed(r.gain(a).before)} → `,
      h('b', {}, decibel(r.gain(a).after)), known(held.sqnr_db_after)
      ? `; in the race ${fromTo(fixed(held.sqnr_db_before), fixed(held.sqnr_db_after))}\u00a0dB` : null,
      m.outputs?.length > 1 ? `. All: ${m.outputs.map((o) => `${o.name} ${fromTo(fixed(o.sqnr_db_before), fixed(o.sqnr_db_after))}`).join(', ')}` : null),
    [accuracyText(r, a), costText(r, a.cost)].filter(Boolean).map((text) => h('p.note', {}, sentence(text))), command(a.shell ?? shell(a.command)));
};
const adviceList = (r) => {
  const list = r.advice(), j = r.json;
  return [h('h2', {}, 'What helps'), list.length ? null : h('p', {}, noAdvice(r)),
    j.cheaper ? [h('p.note', {}, 'For a smaller file:'), h('ol.hurts.helps', {}, oneAdvice(r, j.cheaper))] : null,
    list.length ? [r.matters() ? null
      : h('p', {}, 'The loss is too small to need a change. These changes raise the SQNR of the outputs all the same:'),
      h('p.note', {}, `${plural(j.advice_tried, 'command')} ${j.advice_tried === 1 ? 'was' : 'were'} tried in this run. ${list.length === 1 ? 'This one raises' : 'These raise'} the SQNR of the outputs by 0.3 dB or more, on ${plural(j.measured_samples, 'sample')} and in a race on up to 32 samples.`, leftOut(j.advice_left, j.advice_left_out, j.advice_tried)),
      h('ol.hurts.helps', {}, list.map((a) => oneAdvice(r, a)))] : null];
};
const causes = (r) => {
  if (!r.matters() || (r.json.fallback?.met && !r.suggestions.length)) return null;
  return [h('h2', {}, 'Largest sources of error'), r.suggestions.length
    ? [h('p.note', {}, 'Ops whose results have much more relative error than their inputs. Those with a known cause come first.'),
      h('ol.hurts', {}, r.suggestions.map((s, i) =>
        h('li', {}, h('h3', {}, `${i + 1}. `, node(r, s.name, s.layer ?? undefined), ' ', h('span.muted', {}, s.op)),
        h('p', {}, known(r.effects.get(s.name)?.output_sqnr_db)
          ? `Outputs ${decibel(r.effects.get(s.name).output_sqnr_db, 1)} with only this layer quantized; ` : '',
          `${s.why}.`))))]
    : h('p', {}, r.json.measured_samples ? 'No op adds error to its inputs.'
      : ['Nothing was measured: layers are compared on the samples of ', h('code', {}, '--data'), '.'])];
};
const freeChanges = (r) => {
  const f = r.json.free_changes ?? [], t = r.json.trials ?? [];
  return [f.length ? [h('h2', {}, 'What costs nothing at run time'),
    simpleTable('Free changes', [['change', 'name'], ['gain, dB', 'n'], ['samples', 'n'], ['result']],
    f.map((c) => [unbroken(c.options?.join(' ') || c.name), `${fixed(c.gain_db)} ± ${fixed(c.error_db)}`, count(c.samples),
    c.kept ? h('b', {}, 'taken') : c.reason ? `not tried: ${c.reason}` : 'not taken']))] : null,
    t.length > 1 ? [h('h2', {}, 'Observers that were tried'), simpleTable('Observers',
      [['observer'], ['outputs, dB', 'n'], ['gain, dB', 'n'], ['samples', 'n'], ['result']],
      t.map((c) => [c.method, fixed(c.sqnr_db), known(c.error_db) ? `${fixed(c.gain_db)} ± ${fixed(c.error_db)}`
      : fixed(c.gain_db), count(c.samples), c.chosen ? h('b', {}, 'chosen') : '']))] : null];
};
const accumulators = (r) => {
  const a = r.json.accumulator;
  if (!a) return null;
  const sum = (key) => a.layers.reduce((n, l) => n + l[key], 0);
  return [h('h2', {}, `Accumulators of ${a.bits} bits`), h('p', {}, 'Sums that do not fit ', h('b', {}, a.overflow),
    '. For the bound ', h('b', {}, a.bound),
    ` ${plural(a.scales_raised, 'scale')} of weights ${a.scales_raised === 1 ? 'was' : 'were'} raised, and ${plural(a.channels_bounded, 'output channel')} rounded to nearest or corrected in part. `,
    !a.samples ? 'Their effect is not known without samples.' : !a.layers.length ? 'No layer can overflow.'
      : [`Counted on ${plural(a.samples, 'sample')} of `, h('b.name', {}, baseName(a.file)), ': ',
      h('b', {}, count(sum('overflows'))),
      ` of ${count(sum('results'))} results overflowed in the ${plural(a.layers.length, 'layer')} that can.`]),
  a.samples && a.layers.length ? simpleTable('Overflows of layers',
    [['layer', 'name'], ['sums', 'n'], ['overflowed', 'n'], ['bits that would hold all', 'n']],
    a.layers.map((l) => [node(r, l.name), count(l.results), count(l.overflows), String(l.bits)])) : null];
};
const advice = (r) => [sizeChoice(r), latency(r), fallback(r), adviceList(r), causes(r), freeChanges(r),
  accumulators(r)];

// ---- Plot, layers, graph, files ----

const LINE = [{ css: 'line', dot: 'dot', r: 3.2 }, { css: 'line2', dot: 'dot2', r: 2.6 }];
const plot = (r) => {
  const order = new Map((r.json.graph ?? []).map((v, i) => [v.name, i])),
    title = [h('h2', {}, 'Error along the network'), h('div.tools', {}, localSwitch())];
  const byEffect = r.ranking.filter((e) => known(e.output_sqnr_db)
    && r.byNode.has(e.node)).map((e) => ({ e, i: r.byNode.get(e.node) })).sort((a,
    b) => (order.get(a.e.node) ?? a.i) - (order.get(b.e.node) ?? b.i));
  const outputs = r.outputs().filter((o) => known(o.sqnr_db));
  const lines = [{ ...LINE[0], words: 'outputs, with only this layer quantized' }], top = 'SQNR, dB';
  const points = byEffect.map(({ e, i }) => ({ number: i + 1, mark: r.marked.get(i), values: [e.output_sqnr_db],
    title: `${shown(e.node)} (${e.op}): outputs ${decibel(e.output_sqnr_db)} with only this layer quantized${e.measured ? '' : ', estimated'}` }));
  const local = [{ ...LINE[0], words: 'accumulated: of this tensor, with everything before it quantized' },
    { ...LINE[1], words: 'rounding alone: of this tensor, with everything before it exact' }];
  const tensors = r.layers.flatMap((l, i) => (l.kind === 'activation' && known(l.sqnr_db)
    ? [{ number: i + 1, mark: r.marked.get(i), values: [l.sqnr_db, l.sqnr_alone_db], cosine: l.cosine,
    title: `${shown(l.name)} (${l.op}): accumulated ${decibel(l.sqnr_db)}, rounding alone ${decibel(l.sqnr_alone_db)}, cosine ${fixed(l.cosine, 6)}` }] : []));
  return [title, outputs.length ? h('p.note', {}, 'All layers together: ',
    outputs.slice(0, 3).map((o, k) => [k ? ', ' : null, `${o.name} `,
    h(`b.chip.${level(o.sqnr_db)}`, {}, decibel(o.sqnr_db))]), outputs.length > 3
    ? ` and ${plural(outputs.length - 3, 'more output')}` : null, '.') : null,
    points.length ? [legend(lines),
      networkFigure(points, lines, { label: 'Effect of each layer on the outputs', top,
      level: outputs.length ? { db: r.worstOutput().sqnr_db,
      words: `all layers together: ${shown(r.worstOutput().name)} ${decibel(r.worstOutput().sqnr_db)}` } : null })]
      : h('p', {}, 'No layer was measured.'),
    state.local && tensors.length ? [h('h3.below', {}, 'Local errors'), legend(local),
      networkFigure(tensors, local, { label: 'Error of each tensor along the network', top })] : null];
};
const table = (r) => {
  const t = dataTable(layerColumns(r), r.layers.map((_, i) => i), { id: 'layers', label: 'Layers',
    kinds: { '': 'all', activation: 'activations', weight: 'weights' }, kindOf: (i) => r.layers[i].kind,
    placeholder: 'Filter: name, op, type', more: localSwitch() });
  return Object.assign([h('h2', {}, 'Layers'),
    h('p.note', {}, 'Every tensor that was quantized, coloured by the effect of its layer on the outputs; a dash was not measured.'), t], { table: t });
};
const islands = (r) => {
  const list = r.json.float_ops ?? [], reasons = new Map();
  list.forEach((f) => reasons.set(f.reason, [...reasons.get(f.reason) ?? [], f]));
  return list.length ? [h('h3.below', {}, `${plural(list.length, 'op')} stay${list.length === 1 ? 's' : ''} in float`),
    simpleTable('Ops in float', [['reason'], ['ops', 'n'], ['names', 'name']],
    [...reasons].sort((a, b) => b[1].length - a[1].length).map(([reason, ops]) =>
      [reason, count(ops.length), ops.slice(0, 6).map((o) => `${o.name} (${o.op})`).join(', ') + (ops.length > 6
      ? `, … and ${ops.length - 6} more` : '')]))] : null;
};
const graph = (r) => {
  const swatch = (css, words) =>
    h(`li.${css}`, {}, svg('svg', { width: 26, height: 14, 'aria-hidden': true },
    svg('rect', { x: 1, y: 1, width: 24, height: 12, rx: 3 })), words), g = graphView(r, state.local);
  return Object.assign([h('h2', {}, 'The graph'),
    h('p.note', {}, `A box is computed in one piece; its colour shows ${state.local ? 'the error of its result relative to the float network' : 'its effect on the outputs'}, that of an output the error of the whole network. Arithmetic on shapes is left out.`),
    h('ul.legend.boxes', {}, swatch('q.l0', '40 dB and more'), swatch('q.l1', '30 to 40'), swatch('q.l2', '20 to 30'),
      swatch('q.l3', '10 to 20'), swatch('q.l4', 'below 10 dB'), swatch('f', 'in float'),
      r.matters() && r.suggestions.length ? swatch('q.hurt', 'largest sources of error') : null),
    h('div.tools', {}, localSwitch()), g, islands(r)], { reach: g.reach });
};
const fileRow = (term, path, sha) => (path
  ? [h('dt', {}, term), h('dd', {}, path, sha ? [h('br'), h('code', {}, `sha256 ${sha}`)] : null)] : null);
const options = (json) => (json ? h('details', {}, h('summary', {}, 'All options, including defaults'),
  h('pre', { tabindex: 0 }, JSON.stringify(json, null, 2).split('\n').flatMap((line, i) =>
  [i ? h('br') : null, line]))) : null);
const files = (r) => {
  const j = r.json;
  return [h('h2', {}, 'To get the same again'), command(j.command),
    h('dl.below', {}, h('dt', {}, 'version'), h('dd', {}, `qcalib ${j.version}`),
    fileRow('model', j.model?.file && `${j.model.file} (${bytes(j.model.bytes).replace('\u00a0', ' ')})`, j.model?.sha256), fileRow('data', j.data?.file, j.data?.sha256),
    fileRow('statistics', j.statistics?.file, j.statistics?.sha256),
    fileRow('labelled data', j.accuracy?.file),
      (j.files ?? []).map((f) => [fileRow('written', `${f.file} (${bytes(f.bytes - (f.data_bytes ?? 0)).replace('\u00a0', ' ')})`),
      f.data ? fileRow('its weights', `${f.data} (${bytes(f.data_bytes).replace('\u00a0', ' ')})`) : null])),
      options(j.options)];
};

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
const changes = () => {
  const json = (v) => (v === null || v === undefined ? 'not in this report' : JSON.stringify(v)),
    pair = (a, from = typeName) => (a[0] === a[1] ? from(a[0]) : `${from(a[0])} → ${from(a[1])}`);
  const what = (l) => l.changed.map((c) => (c === 'type' ? `type ${pair(l.type)}` : c === 'method'
    ? `method ${pair(l.method, String)}` : c === 'parameters' ? (l.changed.includes('type') ? null
    : 'scale or zero point') : c)).filter(Boolean).join(', ') || 'only its input or weight values';
  const range = (l, k) => (known(l.min?.[k]) ? `${short(l.min[k])} to ${short(l.max[k])}` : '–'), rows = page.layers;
  const column = (title, css, value, text) => ({ title, css, value, text });
  const t = dataTable([{ ...numbered, value: (l) => rows.indexOf(l) + 1, text: (l) => String(rows.indexOf(l) + 1) },
    column('tensor', 'name', (l) => l.name, (l) => nameOf(l.name)),
    column('change, dB', 'n', (l) => (known(l.change_db) ? Math.abs(l.change_db) : null),
    (l) => (known(l.change_db) ? h(l.change_db < 0 ? 'span.bad' : 'span', {},
    `${l.change_db >= 0 ? '+' : ''}${fixed(l.change_db)}`) : '–')),
    ...[0, 1].map((k) => column(`${['first', 'second'][k]}, dB`, 'n', (l) => l.sqnr_db[k],
      (l) => fixed(l.sqnr_db[k]))), column('what changed', '', what, what),
      ...[0, 1].map((k) => column(`${['first', 'second'][k]} range`, 'n.more', (l) => l.max?.[k], (l) => range(l, k))),
      column('op', '', null, (l) => l.op)],
  rows, { id: 'layers', label: 'Layers that differ', kinds: { '': 'all', activation: 'activations',
    weight: 'weights' }, kindOf: (l) => l.kind, placeholder: 'Filter: name, op, what changed', order: [2, true] });
  return Object.assign([h('header', {}, h('h2.title', {}, `Two reports of ${baseName(page.model.file)}`),
    h('p.verdict', {}, page.verdict.text), h('p.note', {}, 'Changes are from the first report to the second.')),
    page.notes?.length ? h('section.warnings', {}, h('h3', {}, 'What is not comparable'),
      h('ul', {}, page.notes.map((n) => h('li', {}, n)))) : null,
    h('h2', {}, 'Figures'), simpleTable('Figures', [['figure'], ['first', 'n'], ['second', 'n'], ['change', 'n']],
      page.figures.map((f) => [f.name, figure(f.unit, f.values[0]), figure(f.unit, f.values[1]),
      h(f.change * f.better < 0 ? 'span.bad' : 'span', {}, change(f))]), 'figures'),
    h('h2', {}, 'Options that differ'), page.options.length ? simpleTable('Options',
      [['option'], ['first', 'name'], ['second', 'name']],
      page.options.map((o) => [h('code', {}, `--${o.name}`), json(o.values[0]), json(o.values[1])]), 'options')
      : h('p', {}, 'All options are the same.'),
    h('h2', {}, `Layers that differ: ${page.layers.length} of ${page.layers_in_both}`),
      h('p.note', {}, 'The largest change of SQNR first. SQNR of an activation counts everything before it; of a weight, its own rounding. Ranges are those that the scales cover.'), t,
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
  const n = (title, value, text, hint) => ({ title, css: 'n', value, text, hint }),
    scaled = (l, v) => (l.channels_scaled ? null : v);
  const t = dataTable([{ ...numbered, value: (i) => i + 1, text: (i) => String(i + 1) },
    { title: 'value', css: 'name', value: (i) => page.layers[i].name, text: (i) => nameOf(page.layers[i].name) },
    n('SQNR, dB', (i) => scaled(page.layers[i], isEqual(page.layers[i]) ? 1e9 : page.layers[i].sqnr_db),
      (i) => (page.layers[i].channels_scaled ? '–' : dbOrEqual(page.layers[i])),
      'the reference’s signal to the noise that is the difference'),
    ...[['cosine', 'cosine', (v) => fixed(v, 6)], ['MSE', 'mse', short, 'mean squared difference'],
      ['max', 'max_abs', short, 'largest difference'], ['max steps', 'max_steps', short,
      'the same in steps of the model’s scale']].map(([title, key, text, hint]) =>
      n(title, (i) => (key === 'cosine' || key === 'mse' ? scaled(page.layers[i], page.layers[i][key])
      : page.layers[i][key]), (i) => text(key === 'cosine' || key === 'mse'
      ? scaled(page.layers[i], page.layers[i][key]) : page.layers[i][key]), hint)),
    n('differing', (i) => page.layers[i].differing / page.layers[i].elements,
      (i) => percent(page.layers[i].differing / page.layers[i].elements), 'share of the elements that differ'),
      n('steps', (i) => apart(page.layers[i], 1), (i) => stepBar(page.layers[i]), 'elements by steps apart'),
    { title: 'op', text: (i) => page.layers[i].op }, { title: 'matched', css: 'more',
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

// ---- The page ----

const SCREENS = {
  report: { summary: ['Summary', summary], effects: ['Effects', effects], advice: ['Advice', advice],
    plot: ['Plot', plot], table: ['Layers', table], graph: ['Graph', graph], again: ['Files', files] },
  comparison: { summary: ['Summary', comparisonSummary], plot: ['Plot', comparisonPlot],
    table: ['Layers', comparisonTable], again: ['Files', comparisonFiles] },
};
SCREENS.difference = { changes: ['Changes', changes], ...SCREENS.report };
const BESIDE = ['effects', 'plot', 'table', 'graph']; // screens that a layer opens beside

const app = (() => {
  const kind = page.kind ?? 'report',
    records = (kind === 'difference' ? page.records : [page]).map((j) => new Report(j));
  const screens = Object.fromEntries(Object.entries(SCREENS[kind]).filter(([id]) => id !== 'graph'
    || records.some((r) => r.json.graph?.length)));
  const names = Object.keys(screens), wide = matchMedia('(min-width: 1000px)'), scrolled = {}, filled = {};
  const detailed = kind === 'comparison' ? 0 : Infinity; // layers of a comparison have no details
  let report = records[0], current = null, layer = null, opener = null;
  document.title = `${baseName(page.model?.file)}: qcalib`;

  const sections = Object.fromEntries(names.map((id) =>
    [id, h('section.screen', { id: `screen-${id}`, hidden: true })]));
  const links = names.map((id) => h('a', { href: `#${id}`, 'data-words': screens[id][0] }, screens[id][0]));
  const which = kind === 'difference'
    ? h('select', { id: 'which', 'aria-label': 'Report',
    onchange: (e) => { report = records[e.target.value]; app.redraw(); } },
    ['First report', 'Second report'].map((text, value) => h('option', { value }, text))) : null;
  const other = h('a', {}), content = h('div');
  const panel = h('aside', { id: 'layer', tabindex: -1, hidden: true, 'aria-label': 'Layer' },
    h('div.bar', {}, button('‹', 'Layer before', () => step(-1)), button('›', 'Next layer', () => step(1)), other,
    button('✕', 'Close', () => close(), { class: 'close' })), content);
  document.body.append(h('nav', { 'aria-label': 'Screens' }, h('div', {}, h('h1', {}, baseName(page.model?.file)),
    h('ul', {}, links.map((a) => h('li', {}, a))), which)),
    h('main', {}, h('div', { id: 'screens' }, Object.values(sections)), panel),
    h('footer', {}, kind === 'report'
      ? 'Written by qcalib. The same numbers are in report.json and layers.csv; times are only in report.json.'
      : ['Written by qcalib. The same numbers come from ', h('code', {},
      kind === 'difference' ? 'qcalib compare-reports --json' : 'qcalib compare --json'), '.'],
      h('span.keys', {}, `Keys: 1 to ${names.length} for the screens, j and k for the next and the previous layer, / for search, Esc to close.`)));

  const fill = (id) => {
    if (filled[id]) return filled[id];
    const parts = screens[id][1](report);
    sections[id].replaceChildren();
    add(sections[id], parts);
    return filled[id] = parts;
  };
  const address = (screen, k) => (k === null ? `#${screen}` : screen === 'table' ? `#L${k}` : `#${screen}/L${k}`);
  const read = () => {
    let words = [];
    try { words = decodeURIComponent(location.hash.slice(1)).split('/'); } catch { /* not an address of ours */ }
    const last = words.at(-1) ?? '', k = /^L[1-9]\d*$/.test(last) && Number(last.slice(1)) <= report.layers.length
      ? Number(last.slice(1)) : null;
    const screen = names.includes(words[0]) ? words[0] : k === null ? names[0] : 'table';
    return [screen, BESIDE.includes(screen) ? k : null];
  };
  const show = () => {
    const [screen, k] = read(), moved = screen !== current;
    if (current) scrolled[current] = scrollY;
    for (const id of names) sections[id].hidden = id !== screen;
    links.forEach((a) => (a.hash === `#${screen}` ? a.setAttribute('aria-current', 'page')
      : a.removeAttribute('aria-current')));
    links[names.indexOf(screen)].scrollIntoView({ block: 'nearest', inline: 'nearest' });
    const parts = fill(screen), detail = k !== null && k <= detailed;
    current = screen;
    document.body.classList.toggle('beside', detail);
    panel.hidden = !detail;
    if (detail && (k !== layer || content.dataset.of !== String(records.indexOf(report)))) {
      content.replaceChildren(layerDetail(report, k - 1));
      content.dataset.of = records.indexOf(report);
      panel.scrollTop = 0;
    }
    layer = k;
    if (detail) {
      const there = screen === 'graph' ? 'table' : 'graph';
      other.hidden = !names.includes(there);
      other.href = address(there, k);
      other.textContent = there === 'graph' ? 'In the graph' : 'In the table';
    }
    if (kind !== 'difference' || screen === 'table') parts.table?.mark(k === null ? null : k - 1);
    if (screen === 'table' && k !== null) parts.table.reach(k - 1);
    if (screen === 'graph') parts.reach?.(k);
    if (screen === 'plot') markPoint(k);
    if (moved) scrollTo(0, scrolled[screen] ?? 0);
    Object.assign(document.body.dataset, { screen, layer: k ?? '' });
  };
  // Marks the open layer in the plot, and scrolls to it.
  const markPoint = (k) => {
    for (const a of sections.plot.querySelectorAll('svg.points a')) {
      const open = k !== null && a.getAttribute('href') === `#L${k}`, scroll = a.closest('.scroll');
      a.classList.toggle('open', open);
      if (!open || scroll.scrollWidth <= scroll.clientWidth) continue;
      const point = a.getBoundingClientRect(), box = scroll.getBoundingClientRect();
      if (point.left < box.left || point.right > box.right) scroll.scrollLeft += point.left - box.left - box.width / 2;
    }
  };
  const go = (screen, k) => {
    location.hash = address(screen, k);
    show(); // at once, not when the browser comes to tell
  };
  const close = () => {
    if (layer === null) return;
    go(current, null);
    (opener?.isConnected ? opener : links[names.indexOf(current)]).focus({ preventScroll: true });
  };
  const step = (by) => {
    const order = current === 'table' ? filled.table.table.rows().map((i) => i + 1)
      : report.layers.map((_, i) => i + 1);
    const at = order.indexOf(layer), to = layer === null ? (by > 0 ? 0 : order.length - 1) : at + by;
    if (order[to] !== undefined) go(BESIDE.includes(current) ? current : 'table', order[to]);
  };
  // A layer opens beside the screen of its link.
  document.addEventListener('click', (e) => {
    const row = e.target.closest('#screen-table #layers tbody tr'),
      a = e.target.closest('a[href^="#L"]') ?? row?.querySelector('a[href^="#L"]');
    if (!a || e.ctrlKey || e.metaKey || e.shiftKey || getSelection().toString()) return;
    const screen = a.closest('.screen')?.id.slice('screen-'.length);
    e.preventDefault();
    opener = a;
    go(BESIDE.includes(screen) ? screen : 'table', Number(a.getAttribute('href').slice(2)));
    if (!panel.hidden && (!wide.matches || e.detail === 0)) setTimeout(() => panel.focus({ preventScroll: true }));
  });
  document.addEventListener('keydown', (e) => {
    const typing = e.target.closest?.('input:not([type=checkbox]), select, textarea');
    if (e.ctrlKey || e.metaKey || e.altKey || (typing && e.key !== 'Escape')) return;
    if (e.key === 'Escape') {
      if (typing) e.target.blur();
      else close();
    } else if (/^[1-9]$/.test(e.key) && names[e.key - 1]) go(names[e.key - 1], null);
    else if (e.key === 'j' && names.includes('table')) step(1);
    else if (e.key === 'k' && names.includes('table')) step(-1);
    else if (e.key === '/') {
      const search = sections[current].querySelector('input[type=search]');
      if (!search) return;
      e.preventDefault();
      search.focus();
    }
  });
  addEventListener('hashchange', show);
  // Paper shows every screen whole.
  matchMedia('print').addEventListener('change',
    (e) => { if (e.matches) names.forEach((id) => fill(id).table?.all()); });
  const redraw = () => {
    document.body.classList.toggle('local', state.local);
    for (const id of names) if (id !== 'changes') delete filled[id];
    layer = null;
    show();
  };
  return { show, redraw };
})();
app.show();
