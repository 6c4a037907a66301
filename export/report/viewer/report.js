// SPDX-License-Identifier: Apache-2.0
// The other screens of a report, and the page: one screen is shown at a time, and a layer beside it, as in the
// address: #plot, #L7 (the table and layer 7), #graph/L7.

// ---- Effects ----

const effects = (r) => {
  const j = r.json, measured = j.sensitivity?.length > 0 && !j.fallback?.met,
    alone = new Map(measured ? j.sensitivity.map((e) => [e.node, e]) : []),
    scored = measured && known(j.sensitivity[0].drop);
  const title = h('h2', {}, 'Layers by effect on the outputs');
  const table = (rows, columns, order, id) =>
    dataTable([numberOf(rows),
    { title: 'layer', css: 'name', value: (e) => e.node, text: (e) => withOp(node(r, e.node), e.op) },
    { title: 'op', css: 'op', text: (e) => e.op }, ...columns],
    rows, { id, label: 'Layers by effect on the outputs', filter: 'Filter the layers by effect', order });
  const lost = (from) => ({ title: `lost, ${metricUnit(j.accuracy, 'points')}`, css: 'n', value: (e) => from(e)?.drop,
    text: (e) => fixed(from(e)?.drop) });
  const db = (name, from) => ({ title: name, css: 'n', value: from, level: from, text: (e) => fixed(from(e)) });
  if (r.ranking.length) {
    const rank = (e) => (scored ? -(alone.get(e.node)?.drop ?? -1e9) : 0),
      rows = [...r.ranking].sort((a, b) => rank(a) - rank(b) || (a.output_sqnr_db ?? 1e9) - (b.output_sqnr_db ?? 1e9));
    const kinds = new Set(rows.map((e) => e.measured));
    return [title, h('p.note', {}, h('b', {}, 'Outputs'), ': SQNR of the outputs if only the inputs and weights of this layer are quantized. ',
      h('b', {}, 'Noise'), ': its share in the noise of all layers. ',
      kinds.has(false) ? [kinds.has(true) ? 'An estimate comes' : 'All are estimates, which come', ' from the errors of all tensors; ',
        h('code', {}, '--sensitivity'), ' measures every layer. '] : 'All were measured. ',
      scored ? [h('b', {}, 'Lost'), ' is the accuracy that this layer alone costs; the layers are sorted by it first. '] : null,
      measured ? [h('b', {}, 'Weights alone'), ': with only its weights quantized. '] : null), effectsNote(r),
    table(rows, [scored ? lost((e) => alone.get(e.node)) : null, db('outputs, dB', (e) => e.output_sqnr_db),
      measured ? { ...db('weights alone, dB', (e) => alone.get(e.node)?.weights_sqnr_db), css: 'n.more' } : null,
      { title: 'noise', css: 'n', value: (e) => r.noiseShare(e), text: (e) => [percent(r.noiseShare(e), 1), shareBar(r.noiseShare(e) ?? 0)] },
      kinds.size > 1 ? { title: 'how known', css: 'more', text: (e) => (e.measured ? 'measured' : 'estimate') } : null].filter(Boolean), null, 'ranking'),
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
  const columns = [['layers', 'n', (s) => (s.layers ? String(s.layers) : '–')],
    ['type', 'whole', (s) => s.type ?? 'as asked'],
    ...(a ? [[isPsnr(a) ? 'PSNR, dB' : isOwn(a) ? 'metric' : 'top-1, %', 'n.more',
    (s) => fixed(known(s.value) ? metricFactor(a) * s.value : null)],
    [`lost, ${metricUnit(a, 'points')}`, 'n', (s) => fixed(s.drop)]] : []),
    ...(known(f.min_sqnr) ? [['worst output, dB', 'n', (s) => fixed(s.sqnr_db)]] : []),
      ...(known(f.max_nll) ? [['nll, nats', 'n', (s) => fixed(s.nll, 4)]] : []),
    ...(f.steps.some((s) => s.cost) ? [['file', 'n.more', (s) => bytes(s.cost?.bytes)],
      ['latency, % of float', 'n.more', (s) => fixed(known(s.cost?.latency) ? 100 * s.cost.latency : null, 0)]] : []),
    ['multiply-adds in int8, %', 'n.more', (s) => fixed(known(s.int8_share) ? 100 * s.int8_share : null, 1)],
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
  const change = (words, from, to, unit = '') => (from === to || to === '–' ? null : `${words} ${from === '–' ? '' : `${from} → `}${to}${unit}`);
  const latency_ = (v) => (known(v) ? fixed(100 * v, 0) : '–');
  return c ? [change('file', bytes((r.json.files ?? [])[0]?.bytes), bytes(c.bytes)),
    r.json.processors?.estimated === false ? null : change('estimated latency', latency_(r.json.cost?.latency), latency_(c.latency), ' % of float')].filter(Boolean).join(', ') : '';
};
const gained = (db) => `${db > 0 ? '+' : ''}${fixed(db)}\u00a0dB`;
const oneAdvice = (r, a) => {
  const m = a.measured ?? {}, held = m.held_back ?? {}, others = m.outputs?.length > 1 ? m.outputs.filter((o) => o.name !== r.gain(a).name) : [];
  return h('li', {}, h('h3', {}, a.action, a.node ? [': ', nodes(r, a.node)] : null),
    h('p', {}, `${r.gain(a).name ? `Output ${r.gain(a).name}` : 'Outputs'} ${fixed(r.gain(a).before)} → `,
      h('b', {}, decibel(r.gain(a).after)), known(held.sqnr_db_after)
      ? `, confirmed on up to 32 calibration samples: ${gained(held.sqnr_db_after - held.sqnr_db_before)}` : null,
      others.length ? `. Other outputs: ${others.slice(0, 6).map((o) => `${o.name} ${fromTo(fixed(o.sqnr_db_before), fixed(o.sqnr_db_after))}`).join(', ')}${others.length > 6 ? `, … and ${others.length - 6} more` : ''}` : null),
    [accuracyText(r, a), costText(r, a.cost)].filter(Boolean).map((text) => h('p.note', {}, sentence(text))), command(a.shell ?? shell(a.command)));
};
const adviceList = (r) => {
  const list = r.advice(), j = r.json, other = otherCause(r);
  return [h('h2', {}, 'What helps'), other ? h('p', {}, other) : null, list.length || r.unchanged() ? null : h('p', {}, noAdvice(r)),
    j.cheaper ? [h('p.note', {}, 'For a smaller file:'), h('ol.hurts.helps', {}, oneAdvice(r, j.cheaper))] : null,
    list.length ? [r.matters() ? null
      : h('p', {}, 'The loss is too small to need a change. These changes raise the SQNR of the outputs all the same:'),
      h('p.note', {}, `${plural(j.advice_tried, 'command')} ${j.advice_tried === 1 ? 'was' : 'were'} tried in this run. ${list.length === 1 ? 'This one raises' : 'These raise'} the SQNR of the outputs by 0.3 dB or more.`, leftOut(j.advice_left, j.advice_left_out, j.advice_tried)),
      h('ol.hurts.helps', {}, list.map((a) => oneAdvice(r, a)))] : null];
};
const causes = (r) => {
  if (!r.matters() || (r.json.fallback?.met && !r.suggestions.length)) return null;
  return [h('h2', {}, 'Largest sources of error'), r.suggestions.length
    ? [h('p.note', {}, 'The layers with the largest effect on the outputs, and the cause of their error.'),
      h('ol.hurts', {}, r.suggestions.map((s, i) =>
        h('li', {}, h('h3', {}, `${i + 1}. `, node(r, s.name, r.byNode.get(s.name) ?? s.layer ?? undefined), ' ', h('span.muted', {}, s.op)),
        h('p', {}, known(r.effects.get(s.name)?.output_sqnr_db)
          ? `Outputs ${decibel(r.effects.get(s.name).output_sqnr_db, 1)} with only this layer quantized. ` : '',
          sentence(s.why)))))]
    : h('p', {}, r.json.samples_differ ? 'The samples, not the layers: on the calibration samples each layer adds little error.'
      : r.json.measured_samples ? 'No layer stands out: the noise of all layers adds up.'
      : ['Nothing was measured: layers are compared on the samples of ', h('code', {}, '--data'), '.'])];
};
const gainText = (c) => (known(c.error_db) ? `${fixed(c.gain_db)} ± ${fixed(c.error_db)}` : fixed(c.gain_db));
const freeChanges = (r) => {
  const f = r.json.free_changes ?? [], t = r.json.trials ?? [];
  return [f.length ? [h('h2', {}, 'What costs nothing at run time'),
    simpleTable('Free changes', [['change', 'name'], ['gain, dB', 'n'], ['samples', 'n.more'], ['result']],
    f.map((c, i) => [unbroken(c.options?.join(' ') || c.name), gainText(c), count(c.samples),
    c.kept ? h('b', {}, 'taken') : c.reason ? `not tried: ${c.reason}` : c.gain_db <= 0 ? 'no gain'
      : f.slice(i + 1).some((o) => o.kept && o.options?.[0] === c.options?.[0]) ? 'less than the next' : 'gain too uncertain']))] : null,
    t.length > 1 ? [h('h2', {}, 'Observers that were tried'), simpleTable('Observers',
      [['observer'], [`gain over ${t[0].method}, dB`, 'n'], ['samples', 'n.more'], ['result']],
      t.map((c, i) => [c.chosen ? h('b', {}, c.method) : c.method, i ? gainText(c) : '–', count(c.samples), c.chosen ? h('b', {}, 'chosen') : ''])),
    h('p.note', {}, 'Gain of the outputs on the same calibration samples, ± its standard error. An observer that is clearly worse is compared on fewer samples.')] : null];
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
  const lines = [{ ...LINE[0], words: 'outputs with only this layer quantized; shaded: if many layers share a point, up to the best of them' }], top = 'SQNR, dB';
  const points = byEffect.map(({ e, i }) => ({ number: i + 1, mark: r.marked.get(i), values: [e.output_sqnr_db],
    title: `${shown(e.node)} (${e.op}): outputs ${decibel(e.output_sqnr_db)} with only this layer quantized${e.measured ? '' : ', estimated'}` }));
  const local = [{ ...LINE[0], words: 'accumulated: of this tensor, with everything before it quantized' },
    { ...LINE[1], words: 'rounding alone: of this tensor, with everything before it exact' }];
  const tensors = r.layers.flatMap((l, i) => (l.kind === 'activation' && known(l.sqnr_db)
    ? [{ number: i + 1, mark: r.marked.get(i), values: [l.sqnr_db, l.sqnr_alone_db], cosine: l.cosine,
    title: `${shown(l.name)} (${l.op}): accumulated ${decibel(l.sqnr_db)}, rounding alone ${decibel(l.sqnr_alone_db)}, cosine ${fixed(l.cosine, 6)}` }] : []));
  if (points.length <= 357) lines[0].words = 'outputs with only this layer quantized';
  const worst = r.worstOutput(), all = worst ? [{ css: 'total', words: ['all layers together: ', h('span.name', {}, worst.name),
    ` ${decibel(worst.sqnr_db)}`, outputs.length > 1 ? ', the worst output' : null] }] : [];
  return [title, effectsNote(r),
    points.length ? [legend([...lines, ...all]),
      networkFigure(points, lines, { label: 'Effect of each layer on the outputs', top, level: worst ? { db: worst.sqnr_db } : null })]
      : h('p', {}, 'No layer was measured.'),
    state.local && tensors.length ? [h('h3.below', {}, 'Local errors'), legend(local),
      networkFigure(tensors, local, { label: 'Error of each tensor along the network', top })] : null];
};
const table = (r) => {
  const t = dataTable(layerColumns(r), r.layers.map((_, i) => i), { id: 'layers', label: 'Quantized tensors',
    kinds: { '': 'all', activation: 'activations', weight: 'weights' }, kindOf: (i) => r.layers[i].kind,
    placeholder: 'Filter: name, op, type', more: localSwitch() });
  return Object.assign([h('h2', {}, 'Quantized tensors'),
    h('p.note', {}, 'Outputs: SQNR of the outputs if only the layer of the tensor is quantized. A dash: not known.'), t], { table: t });
};
// "9 Relu: 247, 250, 253, …" for each operator, the most frequent first.
const byOp = (ops) => {
  const SHOWN = 3, kinds = new Map();
  ops.forEach((o) => kinds.set(o.op, [...kinds.get(o.op) ?? [], o.name]));
  return [...kinds].sort((a, b) => b[1].length - a[1].length).map(([op, names]) =>
    h('div.ops', {}, `${count(names.length)} ${op}`, h('span.muted.more', {}, ': ', names.slice(0, SHOWN).map((n, k) => [k ? ', ' : null, nameOf(n)]), names.length > SHOWN ? ', …' : '')));
};
const islands = (r) => {
  const list = r.json.float_ops ?? [], reasons = new Map();
  list.forEach((f) => reasons.set(f.reason, [...reasons.get(f.reason) ?? [], f]));
  return list.length ? [h('h3.below', {}, `${plural(list.length, 'op')} stay${list.length === 1 ? 's' : ''} in float`),
    simpleTable('Ops in float', [['reason'], ['operators', 'name']],
    [...reasons].sort((a, b) => b[1].length - a[1].length).map(([reason, ops]) => [unbroken(reason), byOp(ops)]))] : null;
};
const graph = (r) => {
  const swatch = (css, words) =>
    h(`li.${css}`, {}, svg('svg', { width: 26, height: 14, 'aria-hidden': true },
    svg('rect', { x: 1, y: 1, width: 24, height: 12, rx: 3 })), words), g = graphView(r, state.local, localSwitch());
  return Object.assign([h('h2', {}, 'The graph'),
    h('p.note', {}, `A box is one kernel. Its colour is ${state.local ? 'the error of its result' : 'the SQNR of the outputs with only this box quantized'}; the colour of an output is the error of the whole network. Arithmetic on shapes is left out.`),
    h('ul.legend.boxes', {}, swatch('q.l0', '40 dB and more'), swatch('q.l1', '30 to 40'), swatch('q.l2', '20 to 30'),
      swatch('q.l3', '10 to 20'), swatch('q.l4', 'below 10 dB'), swatch('f', 'in float'),
      r.matters() && r.suggestions.length ? swatch('q.hurt', 'largest sources of error') : null),
    g, islands(r)], { reach: g.reach });
};
const fileRow = (term, path, sha) => (path
  ? [h('dt', {}, term), h('dd', {}, path, sha ? [h('br'), h('code', {}, `sha256 ${sha}`)] : null)] : null);
const options = (json) => (json ? h('details', {}, h('summary', {}, 'All options, including defaults'),
  h('pre', { tabindex: 0 }, JSON.stringify(json, null, 2).split('\n').flatMap((line, i) =>
  [i ? h('br') : null, line]))) : null);
const files = (r) => {
  const j = r.json;
  return [h('h2', {}, 'Command and files'), command(j.command),
    h('dl.below', {}, h('dt', {}, 'version'), h('dd', {}, `qcalib ${j.version}`),
    fileRow('model', j.model?.file && `${j.model.file} (${bytes(j.model.bytes).replace('\u00a0', ' ')})`, j.model?.sha256), fileRow('data', j.data?.file, j.data?.sha256),
    fileRow('statistics', j.statistics?.file, j.statistics?.sha256),
    fileRow('evaluation', j.accuracy?.file),
      (j.files ?? []).map((f) => [fileRow('written', `${f.file} (${bytes(f.bytes - (f.data_bytes ?? 0)).replace('\u00a0', ' ')})`),
      f.data ? fileRow('its weights', `${f.data} (${bytes(f.data_bytes).replace('\u00a0', ' ')})`) : null])),
      options(j.options)];
};

// ---- The page ----

const SCREENS = {
  report: { summary: ['Summary', summary], effects: ['Effects', effects], advice: ['Advice', advice],
    plot: ['Plot', plot], table: ['Tensors', table], graph: ['Graph', graph], again: ['Files', files] },
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
    if (which) which.hidden = screen === 'changes';
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
  // Marks the point of the open layer in the plot.
  const markPoint = (k) => {
    for (const a of sections.plot.querySelectorAll('svg.points a')) {
      a.classList.toggle('open', k !== null && a.dataset.layers.split(' ').includes(String(k)));
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
