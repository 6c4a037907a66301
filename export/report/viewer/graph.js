// SPDX-License-Identifier: Apache-2.0
// The graph: repeated stretches folded into one box, layers from top to bottom (Sugiyama, Tagawa, Toda 1981: longest
// paths, barycentres, and least-squares positions in that order by pool-adjacent-violators), then zoom, drag and search.

// Repeated stretches: [first, first + copies * length) holds copies of `length` nodes with the same ops in the same order.
const findRepeats = (nodes) => {
  const ROUNDS = 8, SHORTEST = 3, n = nodes.length, longest = Math.min(n >> 1, Math.floor(2e7 / (n + 1)));
  const ids = new Map(), ops = Int32Array.from(nodes,
    (v) => { const key = `${v.op} ${v.inputs.length}`; return ids.get(key)
    ?? (ids.set(key, ids.size), ids.size - 1); });
  const taken = new Uint8Array(n), list = [];
  const repeatsItself = (first, length) => {
    for (let p = 1; p <= length >> 1; p++) {
      let i = 0;
      if (length % p) continue;
      while (i + p < length && ops[first + i] === ops[first + i + p]) i++;
      if (i + p === length) return true;
    }
    return false;
  };
  const comesIn = (first, length) =>
    new Set(nodes.slice(first, first + length).flatMap((v) => v.inputs.filter((k) => k < first))).size;
  for (let round = 0; round < ROUNDS; round++) {
    let best = null, saved = 0;
    for (let p = SHORTEST; p <= longest; p++)
      for (let i = 0; i + p < n; i++) {
        const first = i;
        while (i + p < n && !taken[i] && !taken[i + p] && ops[i] === ops[i + p]) i++;
        const run = i - first;
        if (run < p || Math.floor(run / p) * p <= saved || repeatsItself(first, p)) continue;
        saved = Math.floor(run / p) * p;
        best = { first, length: p, end: first + run + p };
      }
    if (!best) break;
    // Of several possible starts, the one with the fewest values from outside.
    let least = Infinity, from = best.first;
    for (let shift = 0; shift < best.length && best.first + shift + 2 * best.length <= best.end; shift++) {
      const into = comesIn(best.first + shift + best.length, best.length);
      if (into < least) [least, from] = [into, best.first + shift];
    }
    const r = { first: from, length: best.length, copies: Math.floor((best.end - from) / best.length) };
    taken.fill(1, r.first, r.first + r.copies * r.length);
    list.push(r);
  }
  return list.sort((a, b) => a.first - b.first);
};

const BOX = { height: 56, pitch: 92, gap: 16 };
// boxes: { width, height, inputs: [earlier boxes] } in topological order. Sets x and y of each and returns { width, height, edges }; an edge
// over too many layers has no points.
const layOut = (boxes) => {
  const LONGEST = 60, SHORTEST = 4, SWEEPS = 12, n = boxes.length, layer = new Array(n).fill(0), firstReader = [],
    reads = new Array(n).fill(0);
  boxes.forEach((b, i) => b.inputs.forEach((k) => { layer[i] = Math.max(layer[i], layer[k] + 1); }));
  // A box with at least as many reads as inputs moves down to its first reader: edges get no longer in total.
  for (let i = n; i-- > 0;) {
    if (reads[i] && reads[i] >= boxes[i].inputs.length) layer[i] = firstReader[i] - 1;
    for (const k of boxes[i].inputs) if (!reads[k]++ || layer[i] < firstReader[k]) firstReader[k] = layer[i];
  }
  let longest = LONGEST;
  const bends = () => boxes.reduce((sum, b, i) => sum + b.inputs.reduce((s, k) =>
    s + (layer[i] - layer[k] <= longest ? layer[i] - layer[k] - 1 : 0), 0), 0);
  while (longest > SHORTEST && bends() > 6 * n + 2000) longest -= longest >> 2;
  const vertices = boxes.map((b, i) => ({ layer: layer[i], width: b.width, height: b.height, x: 0, up: [], down: [], bend: false })),
    edges = [];
  boxes.forEach((b, i) => b.inputs.forEach((from) => {
    const span = layer[i] - layer[from], e = { from, to: i, path: [] };
    edges.push(e);
    if (span > longest) return;
    e.path.push(vertices[from]);
    for (let s = 1; s <= span; s++) {
      const last = e.path.at(-1), next = s === span ? vertices[i] : { layer: layer[from] + s, width: 0, x: 0, up: [],
        down: [], bend: true };
      if (s < span) vertices.push(next);
      const weight = last.bend && next.bend ? 8 : last.bend || next.bend ? 2 : 1; // keeps long edges straight
      last.down.push([next, weight]);
      next.up.push([last, weight]);
      e.path.push(next);
    }
  }));
  const rows = [];
  for (const v of vertices) (rows[v.layer] ??= []).push(v);
  const place = (row) => row.forEach((v, k) => { v.place = k; });
  rows.forEach(place);
  const swept = (down) => (down ? rows : [...rows].reverse());
  for (let s = 0; s < SWEEPS; s++)
    for (const row of swept(s % 2 === 0)) {
      for (const v of row) {
        const near = s % 2 === 0 ? v.up : v.down;
        v.wish = near.length ? near.reduce((sum, [w]) => sum + w.place, 0) / near.length : v.place;
      }
      row.sort((a, b) => a.wish - b.wish || a.place - b.place);
      place(row);
    }
  // In one direction all edges weigh the same: where branches meet, a chain then goes on in the middle of them.
  const settle = (row, up, down) => {
    const blocks = [], offset = [], of = (by) => (up && down ? by : 1);
    row.forEach((v, k) => {
      const near = [...(up ? v.up : []), ...(down ? v.down : [])], weight = near.reduce((sum, [, by]) => sum + of(by), 0);
      offset[k] = k ? offset[k - 1] + (row[k - 1].width + v.width) / 2 + BOX.gap : 0;
      blocks.push({ sum: (weight ? near.reduce((sum, [w, by]) => sum + of(by) * w.x, 0) / weight : v.x) - offset[k],
        count: 1 });
      for (let b; (b = blocks.length - 2) >= 0
        && blocks[b].sum / blocks[b].count > blocks[b + 1].sum / blocks[b + 1].count;) {
        const last = blocks.pop();
        blocks[b].sum += last.sum;
        blocks[b].count += last.count;
      }
    });
    let k = 0;
    for (const b of blocks) for (let i = 0; i < b.count; i++, k++) row[k].x = b.sum / b.count + offset[k];
  };
  for (let s = 0; s <= 2 * SWEEPS; s++) { // the last sweep goes down, which keeps chains straight
    const both = s > SWEEPS / 2 && s < SWEEPS;
    for (const row of swept(s % 2 === 0)) settle(row, both || s % 2 === 0, both || s % 2 !== 0);
  }
  const least = vertices.reduce((m, v) => Math.min(m, v.x - v.width / 2), Infinity),
    most = vertices.reduce((m, v) => Math.max(m, v.x + v.width / 2), -Infinity);
  const heights = rows.map(() => BOX.height), tops = [0];
  boxes.forEach((b, i) => { heights[layer[i]] = Math.max(heights[layer[i]], b.height); });
  heights.forEach((high, i) => { tops[i + 1] = tops[i] + high + BOX.pitch - BOX.height; });
  boxes.forEach((b, i) => Object.assign(b, { x: vertices[i].x - least - b.width / 2, y: tops[layer[i]] }));
  const bottom = (v) => tops[v.layer] + (v.bend ? heights[v.layer] : v.height);
  for (const e of edges) e.points = e.path.flatMap((v, k) => [k && [v.x - least, tops[v.layer]],
    k < e.path.length - 1 && [v.x - least, bottom(v)]].filter(Boolean));
  return { width: n ? most - least : 0, height: n ? tops[rows.length] - BOX.pitch + BOX.height : 0, edges };
};

const CELL = { width: 44, margin: 5, top: 17, height: 31, pitch: 35, row: matchMedia('(max-width: 760px)').matches ? 7 : 24 }, LETTERS = 30, FOLDED = 48, LARGEST = 20000;
const head = (s) => (s.length > LETTERS ? `${s.slice(0, LETTERS)}…` : s);
const tail = (s) => (s.length > LETTERS ? `…${s.slice(-LETTERS)}` : s); // the end tells names apart

// The nodes that are drawn: arithmetic on shapes and on other constants is left out.
const drawnNodes = (all) => {
  const of = new Map(), list = [];
  all.forEach((v, i) => {
    const inputs = (v.inputs ?? []).filter((k) => of.has(k)).map((k) => of.get(k));
    if (v.kind === 'shape' && (/^(Shape|Size)$/.test(v.op) || !inputs.length)) return;
    of.set(i, list.length);
    list.push({ ...v, inputs });
  });
  return list;
};

// One drawing of the nodes, folded or not: its <svg>, and what each box is.
const drawGraph = (report, nodes, repeats, folded, local) => {
  const boxes = [], of = [], blockOf = [];
  repeats.reduce((block, r) => {
    for (let n = 0; n < r.copies * r.length; n++) blockOf[r.first + n] = { r, copy: Math.floor(n / r.length),
      block: block + Math.floor(n / r.length) + 1 };
    return block + r.copies;
  }, 0);
  nodes.forEach((v, i) => {
    const b = blockOf[i];
    if (folded && b && i > b.r.first) boxes.at(-1).nodes.push(v);
    else boxes.push({ nodes: [v], block: b?.block ?? 0, copies: folded && b ? b.r.copies : 0, reads: [] });
    of[i] = boxes.length - 1;
  });
  nodes.forEach((v, i) => v.inputs.forEach((k) => { if (of[k] !== of[i]) (boxes[of[i]].from ??= new Set()).add(of[k]); }));
  // A box that only moves or bounds the values of another one has the layer of that one, and no error of its own.
  const names = new Set(nodes.map((v) => v.name));
  const dbOf = (v) => {
    const l = v.layer === null || v.layer === undefined ? null : report.layers[v.layer];
    if (!local && l?.node && l.node !== v.name && names.has(l.node)) return null;
    if (v.kind === 'output') return report.outputs().find((o) => o.name === v.name)?.sqnr_db ?? null;
    return local ? l?.sqnr_db ?? null : (l && report.effect(l)) ?? report.effects.get(v.name)?.output_sqnr_db ?? null;
  };
  const least = (list) => { const known_ = list.map(dbOf).filter(known); return known_.length ? Math.min(...known_)
    : null; };
  const kind = (list) => (list.length > 1 || list[0].kind === 'integer' ? 'q' : list[0].kind === 'float' ? 'f' : 'io');
  const marked = new Set(report.matters() ? report.suggestions.map((s) => s.name) : []);
  const classes = (list) => [kind(list), level(least(list)), list.some((v) => marked.has(v.name))
    && 'hurt'].filter(Boolean).join('.');
  const isPort = (v) => v.kind === 'input' || v.kind === 'output';
  const first = (v) => String((isPort(v) ? v.name : v.op) ?? ''), second = (v) =>
    String((isPort(v) ? v.op : v.name) ?? '');
  const third = (v) => [v.shape, known(dbOf(v)) && decibel(dbOf(v), 1)].filter(Boolean).join(' · ');
  const measure = (b) => {
    const v = b.nodes[0], two = b.reads.length ? `also reads ${tail(b.reads[0])}` : first(v) === second(v) ? '' : tail(second(v));
    b.lines = [head(first(v)), two, third(v)].filter(Boolean);
    b.columns = Math.min(b.copies, CELL.row);
    b.height = b.copies ? CELL.top + CELL.pitch * Math.ceil(b.copies / CELL.row) : BOX.height;
    b.width = b.copies ? Math.max(190, 2 * CELL.margin + b.columns * CELL.width)
      : Math.max(64, 18 + Math.max(...b.lines.map((text, k) => (k ? 6.3 : 7.2) * text.length)));
    b.inputs = [...b.from ?? []];
  };
  boxes.forEach(measure);
  let l = layOut(boxes);
  if (l.edges.some((e) => !e.points.length)) { // boxes name inputs whose lines are left out
    for (const e of l.edges) if (!e.points.length) boxes[e.to].reads.push(String(boxes[e.from].nodes[0].name ?? ''));
    boxes.forEach(measure);
    l = layOut(boxes);
  }
  const hint = (list, reads = []) =>
    [list.length > 1 ? `block, ${list.length} ops: ${list.map((v) => v.name).join(', ')}`
    : [`${list[0].name}: ${list[0].op}${list[0].shape ? ` ${list[0].shape}` : ''}`,
    list[0].reason && `float: ${list[0].reason}`].filter(Boolean).join('; '),
    ...reads.map((r) => `also reads ${r}`), known(least(list)) && decibel(least(list))].filter(Boolean).join('; ');
  const text = new Map();
  const rect = (x, y, width, height, rx) => svg('rect', { x: x.toFixed(1), y, width: width.toFixed(1), height, rx });
  const line = (x, y, words, css = '') => svg(`text${css}`, { x: x.toFixed(1), y }, words);
  const put = (e, words) => { text.set(e, shown(words)); return e; };
  const prefix = (list) => {
    const name = String(list[0].name ?? '');
    let same = name.length;
    for (const v of list.slice(1)) {
      let k = 0;
      while (k < same && String(v.name ?? '')[k] === name[k]) k++;
      if (k > 1) same = k; // one different name does not remove the prefix
    }
    return name.slice(0, Math.max(0, ...['/', '.', ':'].map((c) => name.lastIndexOf(c, same - 1))));
  };
  const run = (b) => {
    const length = b.nodes.length / b.copies, cells = Array.from({ length: b.copies },
      (_, c) => b.nodes.slice(c * length, (c + 1) * length));
    const start = prefix(cells[0]), left = b.x + (b.width - b.columns * CELL.width) / 2;
    const x = (c) => left + (c % CELL.row) * CELL.width, y = (c) => b.y + CELL.top + CELL.pitch * Math.floor(c / CELL.row);
    return [svg('g.run', {}, rect(b.x, b.y, b.width, b.height, 6),
      line(b.x + b.width / 2, b.y + 12,
      `${b.copies} blocks of ${length} ops${start && b.width > 240 ? `, the first is ${tail(start)}` : ''}`)),
      cells.map((list, c) => put(svg(`a.box.block.${classes(list)}`,
        { href: '#graph', tabindex: -1, 'data-block': b.block + c },
        rect(x(c) + 2, y(c), CELL.width - 4, CELL.height, 4), line(x(c) + CELL.width / 2, y(c) + 13, c + 1, '.strong'),
        line(x(c) + CELL.width / 2, y(c) + 26, known(least(list)) ? decibel(least(list), 0) : '')),
          hint(list)))];
  };
  const box = (b) => {
    const v = b.nodes[0], at = v.layer, link = at !== null && at !== undefined, middle = b.x + b.width / 2,
      top = b.y + 18 + 7.5 * (3 - b.lines.length),
      parts = [rect(b.x, b.y, b.width, BOX.height, 6), b.lines.map((text, k) => line(middle, top + 15 * k, text, k ? '' : '.strong'))];
    const about = { 'data-block': b.block || null };
    return put(link ? svg(`a.box.${classes(b.nodes)}`, { href: `#L${at + 1}`, tabindex: -1, ...about }, parts)
      : svg(`g.box.${classes(b.nodes)}`, about, parts), hint(b.nodes, b.reads));
  };
  const curve = (points) => points.reduce((d, [x, y], i) => {
    if (!i) return `M${x.toFixed(1)} ${y}`;
    const [px, py] = points[i - 1], half = (y - py) / 2;
    if (Math.abs(x - px) >= 0.05) return `${d}C${px.toFixed(1)} ${py + half} ${x.toFixed(1)} ${y - half} ${x.toFixed(1)} ${y}`;
    return i + 1 === points.length || Math.abs(points[i + 1][0] - x) >= 0.05 ? `${d}V${y}`
      : d; // straight parts are one line
  }, '');
  const root = svg('svg', { width: (l.width + 4).toFixed(0), height: l.height + 4,
    viewBox: `-2 -2 ${(l.width + 4).toFixed(0)} ${l.height + 4}`, role: 'group',
    'aria-label': `The graph: ${boxes.length} boxes, ${l.edges.length} edges` },
    l.edges.filter((e) => e.points.length).map((e) => svg(`path.${kind(boxes[e.from].nodes)}`,
      { d: curve(e.points) })), boxes.map((b) => (b.copies ? run(b) : box(b))));
  return { root, text };
};

// The view: two drawings if blocks repeat, of which the second is drawn when it is asked for.
const graphView = (report, local, more) => {
  const nodes = drawnNodes(report.json.graph ?? []), LIMITS = [0.05, 4],
    READABLE = 0.7; // smaller letters cannot be read
  let repeats = nodes.length >= FOLDED ? findRepeats(nodes) : [];
  if (2 * repeats.reduce((n, r) => n - r.copies * (r.length - 1),
    nodes.length) > nodes.length) repeats = []; // little shorter, but with less detail
  const folds = repeats.length ? [true, false] : [false];
  if (folds.length === 1 && nodes.length > LARGEST) return [h('p', {},
    `${count(nodes.length)} boxes are too many for a drawing.`)];
  const views = folds.map((f) =>
    h('div.graph', { tabindex: 0, role: 'region', 'aria-label': f ? 'Graph, blocks folded' : 'Graph, every op' }));
  const drawings = folds.map(() => null), zooms = folds.map(() => 0), last = folds.length - 1;
  const words = h('p.readout', { id: 'graph-readout', role: 'status' }),
    found = h('span.muted', { id: 'found', role: 'status' });
  const find = h('input', { id: 'find', type: 'search', placeholder: 'Find: name, op, shape',
    'aria-label': 'Find in the graph' });
  let at = 0, marked = null, matches = [], match = -1;

  const drawing = (k) => {
    if (drawings[k]) return drawings[k];
    const d = drawings[k] = drawGraph(report, nodes, repeats, folds[k], local);
    d.boxes = [...d.root.querySelectorAll('.box')].map((e) => ({ e, text: d.text.get(e),
      low: d.text.get(e).toLowerCase() }));
    d.of = new Map(d.boxes.map((b) => [b.e, b]));
    d.whole = d.root.getAttribute('viewBox').split(' ').map(Number);
    views[k].append(d.root);
    return d;
  };
  const size = () => drawing(at).root.viewBox.baseVal;
  // Zooms so that the point of the drawing under (x, y) of the window keeps its place.
  const zoomTo = (to, x, y) => {
    const v = views[at], box = v.getBoundingClientRect(), root = drawing(at).root, old = root.getBoundingClientRect();
    const z = Math.min(LIMITS[1], Math.max(LIMITS[0], to)), cx = x ?? box.left + box.width / 2,
      cy = y ?? box.top + box.height / 2;
    const u = (cx - old.left) / old.width, w = (cy - old.top) / old.height;
    root.style.width = `${size().width * z}px`;
    root.style.height = `${size().height * z}px`;
    zooms[at] = z;
    const now = root.getBoundingClientRect();
    v.scrollLeft += now.left + u * now.width - cx;
    v.scrollTop += now.top + w * now.height - cy;
  };
  const room = () => [views[at].clientWidth - 40, views[at].clientHeight - 40];
  const fit = () => {
    zoomTo(Math.max(READABLE, Math.min(1, room()[0] / size().width, room()[1] / size().height)));
    if (zooms[at] * size().height > room()[1]) views[at].scrollTop = 0;
  };
  const begin = () => { // as wide as there is room, but to be read; at the first box
    zoomTo(Math.max(0.85, Math.min(1, room()[0] / size().width)));
    const v = views[at], first = drawing(at).boxes[0]?.e.getBoundingClientRect(), box = v.getBoundingClientRect();
    v.scrollTop = 0;
    if (first) v.scrollLeft += first.left + first.width / 2 - box.left - box.width / 2;
  };
  const say = (b) => { words.textContent = b.text.length > 400 ? `${b.text.slice(0, 400)} …` : b.text; };
  const mark = (b) => {
    marked?.e.classList.remove('at');
    marked = b;
    b?.e.classList.add('at');
    if (b) say(b);
  };
  const centre = (b) => {
    const v = views[at], box = v.getBoundingClientRect();
    if (zooms[at] < 0.9) zoomTo(1);
    const e = b.e.getBoundingClientRect();
    v.scrollLeft += e.left + e.width / 2 - box.left - box.width / 2;
    v.scrollTop += e.top + e.height / 2 - box.top - box.height / 2;
  };
  // Shows only one block of the drawing of all ops. null: the whole drawing.
  const only = (block) => {
    if (block === null && !views[last].classList.contains('one')) return;
    const d = drawing(last), inside = block === null ? [] : d.boxes.filter((b) => b.e.dataset.block === block);
    let [x, y, w, tall] = d.whole;
    if (inside.length) {
      const all = inside.map((b) => ['x', 'y', 'width', 'height'].map((p) =>
        b.e.querySelector('rect')[p].baseVal.value));
      x = Math.min(...all.map((r) => r[0])) - 12;
      y = Math.min(...all.map((r) => r[1])) - 40;
      w = Math.max(...all.map((r) => r[0] + r[2])) + 12 - x;
      tall = Math.max(...all.map((r) => r[1] + r[3])) + 40 - y;
    }
    d.boxes.forEach((b) => b.e.classList.toggle('inside', inside.includes(b)));
    views[last].classList.toggle('one', inside.length > 0);
    d.root.setAttribute('viewBox', `${x} ${y} ${w} ${tall}`);
    zooms[last] = 0;
  };
  const view = (k, block = null) => {
    if (folds.length > 1 && (k === last || at === last)) only(k === last ? block : null);
    at = k;
    views.forEach((v, i) => { v.hidden = i !== k; });
    toggle?.setAttribute('aria-pressed', String(k === 0));
    drawing(k);
    if (!zooms[k] && views[k].clientWidth) begin();
  };
  const toggle = folds.length > 1 ? button('Fold', 'Fold blocks that repeat', () => view(1 - at)) : null;
  const zoom = h('span.zoom', { role: 'group', 'aria-label': 'Zoom' },
    button('−', 'Zoom out', () => zoomTo(zooms[at] / 1.3)), button('+', 'Zoom in', () => zoomTo(zooms[at] * 1.3)),
    button('Fit', 'Fit the whole graph', fit), toggle);

  const search = () => {
    const w = wordsOf(find), has = (b) => w.length > 0 && w.every((x) => b.low.includes(x));
    if (w.length) drawing(last);
    drawings.forEach((d, i) => {
      d?.boxes.forEach((b) => b.e.classList.toggle('found', has(b)));
      views[i].classList.toggle('finding', w.length > 0);
    });
    matches = drawings[last]?.boxes.filter(has) ?? [];
    match = -1;
    found.textContent = w.length ? (matches.length ? `${matches.length} found` : 'Nothing matches') : '';
  };
  find.addEventListener('input', search);
  find.addEventListener('keydown', (e) => {
    if (e.key !== 'Enter' || !matches.length) return;
    match = (match + (e.shiftKey ? -1 : 1) + matches.length) % matches.length;
    view(last);
    mark(matches[match]);
    centre(matches[match]);
    found.textContent = `${match + 1} of ${matches.length}`;
  });

  views.forEach((v, k) => {
    const boxOf = (e) => drawings[k]?.of.get(e.target.closest('.box')),
      apart = (t) => Math.hypot(t[0].clientX - t[1].clientX, t[0].clientY - t[1].clientY);
    let from = null, moved = false, pinch = 0;
    v.addEventListener('pointerover', (e) => { if (boxOf(e) && !moved) say(boxOf(e)); });
    v.addEventListener('pointerdown', (e) => {
      moved = false;
      if (e.pointerType === 'mouse' && e.button === 0) from = [e.clientX, e.clientY, v.scrollLeft, v.scrollTop];
    });
    v.addEventListener('dragstart', (e) => e.preventDefault());
    addEventListener('pointermove', (e) => {
      if (!from || (!moved && Math.hypot(e.clientX - from[0], e.clientY - from[1]) < 5)) return;
      moved = true;
      v.classList.add('drag');
      v.scrollLeft = from[2] + from[0] - e.clientX;
      v.scrollTop = from[3] + from[1] - e.clientY;
    });
    addEventListener('pointerup', () => {
      from = null;
      v.classList.remove('drag');
    });
    v.addEventListener('click', (e) => {
      const box = e.target.closest('.box');
      if (moved || box?.classList.contains('block')) e.preventDefault();
      if (moved) {
        e.stopPropagation();
        moved = false;
      } else if (box?.classList.contains('block')) {
        e.stopPropagation();
        view(last, box.dataset.block);
        const inside = drawing(last).boxes.find((b) => b.e.dataset.block === box.dataset.block);
        mark(inside);
        centre(inside);
      } else if (box) mark(boxOf(e));
    }, true);
    v.addEventListener('wheel', (e) => {
      if (!e.ctrlKey && !e.metaKey) return;
      e.preventDefault();
      zoomTo(zooms[at] * Math.exp(-Math.max(-60, Math.min(60, e.deltaY)) / 200), e.clientX, e.clientY);
    }, { passive: false });
    v.addEventListener('touchstart', (e) => { if (e.touches.length === 2) pinch = apart(e.touches) / zooms[at]; },
      { passive: true });
    v.addEventListener('touchmove', (e) => {
      if (e.touches.length !== 2 || !pinch) return;
      e.preventDefault();
      zoomTo(apart(e.touches) / pinch, (e.touches[0].clientX + e.touches[1].clientX) / 2,
        (e.touches[0].clientY + e.touches[1].clientY) / 2);
    }, { passive: false });
    v.addEventListener('keydown', (e) => {
      if (e.key === '+' || e.key === '=') zoomTo(zooms[at] * 1.3);
      else if (e.key === '-') zoomTo(zooms[at] / 1.3);
      else if (e.key === '0') fit();
    });
  });
  words.textContent = matchMedia('(hover: hover) and (min-width: 761px)').matches
    ? 'Point at a box for what it is; click to open it. Drag to move, Ctrl and the wheel to zoom.'
      : 'Tap a box to open it. Two fingers zoom.';
  view(0);
  const parts = [h('div.tools', {}, find, zoom, more, found), ...views, words];
  // Scrolls to a layer; null: only draws what is shown.
  parts.reach = (layer) => {
    if (!zooms[at]) begin();
    const mine = (b) => b.e.getAttribute('href') === `#L${layer}`;
    if (!layer || (marked && mine(marked))) return;
    const b = drawing(at).boxes.find(mine) ?? drawing(last).boxes.find(mine);
    if (!b) return;
    if (!drawing(at).of.has(b.e) || (views[at].classList.contains('one')
      && !b.e.classList.contains('inside'))) view(last, b.e.dataset.block ?? null);
    mark(b);
    centre(b);
  };
  return parts;
};
