// SPDX-License-Identifier: Apache-2.0
// The summary of a report: the verdict, tiles with figures, and cards with what follows from them.

const sentence = (s) => (s ? (s[0].toUpperCase() + s.slice(1) + (/[.!?]$/.test(s) ? '' : '.')).replace(/(\d) (%|dB)/g, '$1\u00a0$2').replace('avx512-vnni', 'avx512\u2011vnni') : '');
const GRADES = { good: 'Good', usable: 'Usable', poor: 'Poor', unknown: 'Not measured' };
const gradeOf = (r) => h(`b.grade.${r.grade}`, {}, r.unchanged() ? 'Unchanged'
  : r.json.constant_outputs ? 'Unclear' : GRADES[r.grade] ?? GRADES.unknown);
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

const accuracyTile = (r) => {
  const a = r.json.accuracy, by = metricFactor(a), unit = metricUnit(a, '%'),
    drop = (a.lower_is_better ? -1 : 1) * by * (a.fp32 - a.int8), i = a.int8_interval;
  const e = tile(isOwn(a) ? 'Metric'
    : `${metricName(a)} on ${a.positions ? `${count(a.positions)} positions of ` : ''}${plural(a.samples, 'sample')}`,
    [h('span.whole', {}, `${fromTo(fixed(by * a.fp32), fixed(by * a.int8))}${unit && `\u00a0${unit}`}`), ' ',
      fixed(by * a.fp32) === fixed(by * a.int8) ? h('small', {}, 'as in float') : h(drop > (isOwn(a) ? Infinity : isPsnr(a) ? 0.5 : 1) ? 'small.bad' : 'small', {},
      `${drop > 0 ? '−' : '+'}${fixed(Math.abs(drop))} ${metricUnit(a, 'points')}`)],
    isOwn(a) ? note(a.file, a.lower_is_better ? ' (less is better)' : '')
      : intervalPlot(a, ['float', r.json.network ?? 'int8']),
    i && note(`95\u00a0% interval of ${r.json.network ?? 'int8'}: ${fixed(100 * i[0])} to ${fixed(100 * i[1])}\u00a0%. ${r.json.reference ? 'The given, partly quantized model' : 'Float'} lies ${a.fp32 >= i[0] && a.fp32 <= i[1] ? 'inside' : 'outside'} it.`,
      known(a.int8_top5) && ` Top‑5: ${fromTo(fixed(100 * a.fp32_top5), fixed(100 * a.int8_top5))}\u00a0%.`),
    known(a.int8_nll) && note(`Negative log-likelihood: ${fromTo(fixed(a.fp32_nll, 4), fixed(a.int8_nll, 4))} nats per position.`));
  e.classList.add('broad');
  return e;
};
const MEASURED_ON = { 'evaluation': ' of the evaluation data', 'not calibrated': ' that did not calibrate' };
const samplesOf = (r) => `${plural(r.json.measured_samples, 'sample')}${MEASURED_ON[r.json.measured_on] ?? ''}`;
const worstPart = (o) => [...o.parts ?? []].sort((a, b) => (a.sqnr_db ?? 1e9) - (b.sqnr_db ?? 1e9))[0];
const outputTile = (r) => {
  const all = r.outputs(), o = r.worstOutput(), n = r.json.measured_samples;
  if (!n || (!o && !all.some((x) => x.state === 'equal')))
    return tile('Output SQNR', h('small', {}, 'not measured'),
      note('Float and quantized outputs are compared on samples: give ', h('code', {}, '--data FILE'), '.'));
  if (!o) return tile(`Outputs on ${plural(n, 'sample')}`, 'equal',
    note('The outputs equal those of the float model.'));
  return tile(all.length > 1 ? 'SQNR of the worst output' : 'SQNR of the output',
    h(`span.chip.${level(o.sqnr_db)}`, {}, decibel(o.sqnr_db)),
    h('div.note.name', {}, `The quantization error of ${o.name}${worstPart(o) ? ` (its worst part, ${worstPart(o).name})` : ''} is ${percent(10 ** (-o.sqnr_db / 20), 1)} of its size, on ${samplesOf(r)}`, r.json.accuracy ? '.' : ['. With ', h('code', {}, '--eval FILE'), ' the report shows accuracy.']));
};
const sizeTile = (r) => {
  const from = r.json.model?.bytes, files = r.json.files ?? [], to = files[0]?.bytes;
  return tile('Size of the model file', files.length ? bytes(to) : 'none',
    !files.length ? h('div.note.bad', {}, 'No model was written: a demand was not met.')
      : from ? note(to > from ? h('b.bad', {}, `${fixed(100 * to / from, 0)}\u00a0% of the original: the file is larger than its source`)
        : `${fixed(100 * to / from, 0)}\u00a0% of the original, ${bytes(from)}`) : null);
};
const integersTile = (r) => {
  const j = r.json, floats = j.float_ops?.length ?? 0, all = (j.quantized_ops ?? 0) + floats;
  const [what, share] = j.small_float_share > 0 ? ['8-bit floats', j.small_float_share] : j.block_share > 0
    ? ['blocks', j.block_share] : ['integers', j.integer_share];
  const rest = floats ? [`. ${count(floats)} stay${floats === 1 ? 's' : ''} in float: `,
    h('a', { href: '#graph' }, 'which, and why')] : null;
  const weights = r.layers.filter((l) => l.kind === 'weight').length;
  if (!j.quantized_ops && weights && !(j.small_float_share > 0 || j.block_share > 0))
    return tile('Quantized weights', count(weights), note(`Only weights: all ${plural(floats, 'operator')} compute in float: `,
      h('a', { href: '#graph' }, 'why')));
  return known(share) ? tile(`Multiply-adds in ${what}`, `${fixed(100 * share, 1)} %`,
    note(`${count(j.quantized_ops)} of ${plural(all, 'operator')}`, rest))
    : tile('Operators in integers', [count(j.quantized_ops), ' ', h('small', {}, `of ${count(all)}`)],
      note('The share of multiply-adds is not known', rest));
};
// The processor whose latency is shown.
const processorOf = (r) => Object.entries(r.json.cost?.processors ?? {}).find((p) => p[1] === r.json.cost.latency)?.[0];
const latencyTile = (r) => {
  const b = r.json.timing?.benchmark;
  const parts = b && [['Float', b.float_ms], ['default', b.default_ms],
    ['everything in integers', b.integers_ms]].filter((p) => known(p[1])).map((p) => `${p[0]} ${short(p[1])} ms`);
  const c = r.json.cost, ratio = (v) => `${fixed(100 * v, 0)}\u00a0%`;
  if (b) return tile('Latency', `${short(b.best_ms)} ms`, note(`${parts.join(', ')}. Measured by `, h('code', {}, b.command)));
  if (!known(c?.latency) || r.json.processors?.estimated === false) return null;
  const kinds = Object.entries(c.processors ?? {}).filter((p) => known(p[1])), own = processorOf(r),
    slow = kinds.filter((p) => p[1] > 1.05);
  return tile('Estimated latency', ratio(c.latency),
    note('of the float model', own ? [' on ', h('span.whole', {}, own)] : '', kinds.filter(([k]) => k !== own).map(([k, v]) => `, ${ratio(v)} on ${k}`), '. ',
      c.latency > 1.05 || slow.length ? h('b.bad', {}, 'Slower than float', slow.length && slow.length < kinds.length ? [' on ', h('span.whole', {}, slow[0][0])] : null, '. ') : null,
      c.latency > 1.05 && ['integers', 'size'].includes(r.json.options?.prefer) ? [h('code', {}, '--prefer speed'), ' leaves operators in float. '] : null,
      h('code', {}, '--benchmark'), ' measures it.'));
};

// Options in a text are not broken after their hyphens.
const unbroken = (text) => String(text).split(/(\s+)/).map((w) => {
  const [, name, value] = w.match(/^(\(?--[^=]*=?)(.*)$/) ?? [];
  return name ? h('span.option', {}, h('b', {}, name), h('wbr'), value) : w;
});
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
  return [r.matters() || NO_ADVICE[why] ? null : 'The loss is too small to need a change. ', words, leftOut(left, brief ? [] : out, tried)];
};
const leftOut = (left, out, tried) => (left
  ? [` ${left} ${tried ? 'more ' : ''}${left === 1 ? 'idea was' : 'ideas were'} not tried, to save time; `,
  h('code', {}, '--advice on'), ' tries all',
  out?.length ? `: ${out.map((o) => [o.action, o.node].filter(Boolean).join(': ')).join('; ')}.` : '.'] : null);

// What can be done if samples or processors, and not layers, are the reason.
const otherCause = (r) => (r.unchanged()
  ? ['Nothing is quantized. ', h('code', {}, '--prefer size'), ' or ', h('code', {}, '--prefer integers'),
    ' quantizes operators that are faster in float.']
  : r.json.samples_differ
    ? ['Calibrate with samples like those of use, prepared in the same way (', h('code', {}, '--preprocess'),
      '): on the calibration samples the outputs have ', decibel(r.json.samples_differ.calibrated_sqnr_db, 1), '.'] : null);
const helpCard = (r) => {
  const a = r.matters() ? r.advice()[0] : null, more = r.advice().length, other = otherCause(r);
  return h('section.card', {}, h('h2', {}, 'What would help'), other ? h('p', {}, other) : a
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
// Which samples the effects of layers are of, if the samples of the output differ from them.
const effectsNote = (r) => (r.json.samples_differ
  ? h('p.note', {}, 'Measured on the calibration samples, which differ from the evaluation data.') : null);
const worstCard = (r) => {
  const worst = r.ranked.slice(0, 3), sum = worst.reduce((n, e) => n + (r.noiseShare(e) ?? 0), 0);
  return h('section.card', {}, h('h2', {}, 'Layers with the largest effect on the outputs'), worst.length
    ? [h('ol.worst', {}, worst.map((e) =>
      h('li', {}, h('span.name', {}, node(r, e.node), ' ', h('span.muted', {}, e.op)),
      h(`b.chip.${level(e.output_sqnr_db)}`, {}, decibel(e.output_sqnr_db, 1))))),
      h('p.note', {}, r.ranked.length > 3 ? `${sum < 0.3 ? 'No layer stands out: these' : 'These'} make ${sum < 0.01 ? 'less than 1\u00a0%' : percent(sum, 0)} of the noise of ${plural(r.ranked.length, 'layer')}. ` : null,
        h('a.whole', { href: '#effects' }, 'All layers'), r.matters() && r.suggestions.length
        ? [', and ', h('a', { href: '#advice' }, 'causes')] : null), effectsNote(r)]
    : h('p', {}, r.json.measured_samples ? 'No layer adds noise to the outputs.' : 'It was not measured.'));
};

const classesText = (c) => `labels of ${count(c.seen)}${known(c.count) ? ` of ${count(c.count)}` : ''} ${(c.count ?? c.seen) === 1 ? 'class' : 'classes'}, ${c.least === c.most ? count(c.most) : `${count(c.least)} to ${count(c.most)}`} each`;
const dataCard = (r) => {
  const d = r.json.data ?? {}, a = r.json.accuracy, activations = r.layers.filter((l) => l.kind === 'activation'),
    quantized = activations.filter((l) => l.op === 'Input');
  const sum = (key) => activations.reduce((n, l) => n + (l.observed?.[key] ?? 0), 0),
    bad = activations.filter((l) => l.observed?.nan || l.observed?.inf);
  // The quantized inputs with the range of all samples, and the others with that of some.
  const inputs = [...quantized.map((l) => ({ name: l.name, at: r.layers.indexOf(l), ...l.observed })),
    ...(d.inputs ?? []).filter((i) => !quantized.some((l) => l.name === i.name))].filter((i) => known(i.min));
  // The range of an input on evaluation samples, marked if half of it lies outside that of calibration.
  const evaluated = (i) => {
    const e = (a?.inputs ?? []).find((x) => x.name === i.name);
    if (!known(e?.min)) return null;
    const beyond = Math.max(0, i.min - e.min) + Math.max(0, e.max - i.max);
    return h(beyond > 0.5 * (i.max - i.min) ? 'b.bad' : 'span.muted', {},
      ` (evaluation: ${short(e.min)} to ${short(e.max)}${e.not_finite ? `, ${count(e.not_finite)} not finite` : ''})`);
  };
  const constant = inputs.filter((i) => i.min === i.max), finite = (d.inputs ?? []).reduce((n, i) => n + i.not_finite, 0);
  const classes = [['calibration', d.classes, a?.classes?.seen ?? d.classes?.count], ['evaluation', a?.classes, a?.positions ? 0 : a?.classes?.count]].filter((c) => c[1]);
  if (!d.file) return null;
  return h('section.card', {}, h('h2', {}, 'Data'), h('dl', {},
    h('dt', {}, 'calibration'), h('dd.name', {},
      `${count(d.samples)} of ${plural(d.samples_in_file, 'sample')} of ${baseName(d.file)}${d.samples_dropped ? `, ${count(d.samples_dropped)} dropped` : ''}`),
    a ? [h('dt', {}, 'evaluation'), h('dd.name', {}, `${plural(a.samples, 'sample')} of ${baseName(a.file)}`)] : null,
    inputs.length ? [h('dt', {}, 'inputs'),
      h('dd.name', {}, inputs.slice(0, 4).map((i, k) => [k ? h('br') : null, node(r, i.name, i.at ?? null),
      ` ${short(i.min)} to ${short(i.max)}`, evaluated(i)]),
      inputs.length > 4 ? ` and ${inputs.length - 4} more` : null)] : null,
    classes.map(([words, c, wanted], k) => [k ? null : h('dt', {}, 'classes'),
      h(`dd${c.seen < wanted ? '.bad' : ''}${k ? '.second' : ''}`, {}, `${words}: ${classesText(c)}`)]),
    h('dt', {}, 'NaN, infinite'), h('dd', {}, bad.length || finite ? h('b.bad', {}, bad.length
      ? `${count(sum('nan'))} NaN and ${count(sum('inf'))} infinite values in ${plural(bad.length, 'tensor')}`
      : `${count(finite)} values of the inputs`) : 'none'),
    constant.length ? [h('dt', {}, 'constant inputs'), h('dd.name.bad', {}, constant.map((i) => i.name).join(', '))]
      : null));
};

// How parameters were chosen, and what was changed at no cost.
const methodCard = (r) => {
  const kinds = [['activations', 'activation'], ['weights', 'weight']].map(([words, kind]) =>
    [words, r.layers.filter((l) => l.kind === kind)]).filter((k) => k[1].length);
  const chosen = (r.json.trials ?? []).find((t) => t.chosen), p = r.json.processors;
  const most = (list, of) => { const n = new Map(); list.forEach((l) => { if (of(l)) n.set(of(l), (n.get(of(l)) ?? 0) + 1); });
    return [...n].sort((a, b) => b[1] - a[1])[0]?.[0]; };
  const rounded = (list) => most(list, (l) => l.weight_rounding?.method);
  const free = (r.json.free_changes ?? []).filter((f) => f.kept);
  if (!kinds.length) return null;
  return h('section.card', {}, h('h2', {}, 'How it was quantized'), h('dl', {},
    kinds.map(([words, list]) => [h('dt', {}, words), h('dd.name', {},
      [`${plural(list.length, 'tensor')}, ${list.every((l) => typeOf(l) === typeOf(list[0]) && l.method === list[0].method) ? '' : 'most '}${most(list, typeOf)} by ${most(list, (l) => l.method) ?? '–'}`,
        words === 'weights' && rounded(list) ? `, rounding ${rounded(list)}` : null])]),
    chosen && r.json.trials.length > 1 ? [h('dt', {}, 'observer'),
      h('dd', {}, `${chosen.method}, best of ${r.json.trials.length} for the outputs on ${plural(chosen.samples, 'sample')}${chosen.gain_db > 0 ? `: ${fixed(chosen.gain_db)}\u00a0dB better than ${r.json.trials[0].method}` : ''}`)] : null,
    free.length ? [h('dt', {}, 'free changes'), h('dd', {}, free.map((f, k) => [k ? h('br') : null,
      unbroken(`${f.options?.join(' ')}: +${fixed(f.gain_db)}\u00a0dB`)]))] : null,
    p?.onnxruntime && p.products ? [h('dt', {}, 'x86 without VNNI'), h('dd', {}, p.exact_without_vnni ? 'the same results'
      : `${count(p.saturating)} of ${plural(p.products, 'product')} may saturate`)] : null,
    r.json.data?.file ? null : [h('dt', {}, 'samples'), h('dd', {}, 'none: no error was measured. With ',
      h('code', {}, '--data FILE'), ' rounding is compensated')]));
};

// Estimated latency of each type of operator, in parts of that of the float model.
const TIMES = { Quantize: 'conversions between types', rest: 'the run itself, memory layouts, shapes' };
const timesCard = (r) => {
  const rows = [...r.json.latency_by_operator ?? []].sort((a, b) => Math.max(b.float, b.quantized)
    - Math.max(a.float, a.quantized)), least = 0.005;
  const shown_ = rows.filter((o) => Math.max(o.float, o.quantized) >= least), rest = rows.filter((o) => !shown_.includes(o));
  const sum = (list, key) => list.reduce((n, o) => n + o[key], 0), part = (v) => fixed(100 * v, 1);
  if (!rows.length || r.json.processors?.estimated === false) return null;
  return h('section.card.broad', {}, h('h2', {}, `Estimated latency by operator, in % of the float model${processorOf(r) ? `, on ${processorOf(r)}` : ''}`),
    simpleTable('Estimated latency by operator', [['operator'], ['float', 'n'], ['quantized', 'n']],
      [...shown_.map((o) => [TIMES[o.op] ?? o.op, part(o.float), part(o.quantized)]),
        ...(rest.length ? [[`${plural(rest.length, 'other')}`, part(sum(rest, 'float')), part(sum(rest, 'quantized'))]] : []),
        [h('b', {}, 'all'), h('b', {}, part(sum(rows, 'float'))), h('b', {}, part(sum(rows, 'quantized')))]]));
};

// Each output, the worst first, with the worst of the parts that it joins.
const outputsCard = (r) => {
  const SHOWN = 12, all = [...r.outputs()].sort((a, b) => (a.sqnr_db ?? 1e9) - (b.sqnr_db ?? 1e9));
  if (all.length < 2 || !r.json.measured_samples) return null;
  return h('section.card.all', {}, h('h2', {}, 'Outputs'),
    simpleTable('Outputs', [['output', 'name'], ['SQNR, dB', 'n'], ['cosine', 'n.more'], ['largest error', 'n']],
      all.slice(0, SHOWN).map((o) => [[o.name, worstPart(o) ? h('span.muted', {}, `: SQNR of its worst part, ${worstPart(o).name}`) : null],
        known(o.sqnr_db) ? h(`span.chip.${level(o.sqnr_db)}`, {}, fixed(o.sqnr_db)) : o.state ?? '–',
        fixed(o.cosine, 6), short(o.max_abs)])),
    all.length > SHOWN ? h('p.note', {}, `${plural(all.length - SHOWN, 'more output')} with less error.`) : null);
};

const summary = (r) => [h('header', {}, h('h2.title.phone', {}, baseName(r.json.model?.file)),
  h('p.verdict', {}, gradeOf(r), ' ', sentence(r.json.verdict?.text))),
  h('div.tiles', {}, r.json.accuracy ? accuracyTile(r) : outputTile(r), sizeTile(r), integersTile(r),
    r.json.accuracy ? outputTile(r) : null, latencyTile(r)), warnings(r.json.warnings),
  h('div.cards', {}, helpCard(r), worstCard(r), dataCard(r), methodCard(r), timesCard(r), outputsCard(r))];
