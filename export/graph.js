// The graph: zoom, drag, find, and links from a folded block to its ops. The browser does the scrolling.
addEventListener('DOMContentLoaded', () => whenThere(document.getElementById('screen-graph'), () => {
  const views = [...document.querySelectorAll('.graph')], tools = document.querySelector('.zoom');
  if (!views.length) return;
  const words = document.getElementById('graph-readout'), find = document.getElementById('find'), found = document.getElementById('found');
  const boxes = views.map((v) => [...v.querySelectorAll('.box')].map((e) => ({ e, text: e.querySelector('title').textContent })));
  for (const list of boxes)
    for (const b of list) {
      b.low = b.text.toLowerCase();
      b.e.querySelector('title').remove(); // shown in the line below instead
    }
  const sizes = views.map((v) => v.querySelector('svg').viewBox.baseVal), zooms = views.map(() => 0);
  const limits = [0.05, 4], READABLE = 0.7; // smaller letters cannot be read
  let at = 0, marked = null, matches = [], match = -1;

  // Zooms so that the point of the drawing under (x, y) of the window keeps its place.
  const zoomTo = (to, x, y) => {
    const v = views[at], box = v.getBoundingClientRect(), svg = v.querySelector('svg'), old = svg.getBoundingClientRect();
    const z = Math.min(limits[1], Math.max(limits[0], to)), cx = x ?? box.left + box.width / 2, cy = y ?? box.top + box.height / 2;
    const u = (cx - old.left) / old.width, w = (cy - old.top) / old.height;
    svg.style.width = `${sizes[at].width * z}px`;
    svg.style.height = `${sizes[at].height * z}px`;
    zooms[at] = z;
    const now = svg.getBoundingClientRect();
    v.scrollLeft += now.left + u * now.width - cx;
    v.scrollTop += now.top + w * now.height - cy;
  };
  const room = () => [views[at].clientWidth - 40, views[at].clientHeight - 40];
  const fit = () => {
    zoomTo(Math.max(READABLE, Math.min(1, room()[0] / sizes[at].width, room()[1] / sizes[at].height)));
    if (zooms[at] * sizes[at].height > room()[1]) views[at].scrollTop = 0;
  };
  const begin = () => { // as wide as there is room, but to be read; at the first box
    zoomTo(Math.max(0.85, Math.min(1, room()[0] / sizes[at].width)));
    const v = views[at], first = boxes[at][0].e.getBoundingClientRect(), box = v.getBoundingClientRect();
    v.scrollTop = 0;
    v.scrollLeft += first.left + first.width / 2 - box.left - box.width / 2;
  };
  const say = (b) => { words.textContent = b.text.length > 400 ? `${b.text.slice(0, 400)} …` : b.text; };
  const mark = (b) => {
    marked?.e.classList.remove('at');
    marked = b;
    b?.e.classList.add('at');
    if (b) say(b);
  };
  const centre = (b) => {
    const v = views[at], box = v.getBoundingClientRect(), e = b.e.getBoundingClientRect();
    if (zooms[at] < 0.9) {
      zoomTo(1, e.left + e.width / 2, e.top + e.height / 2);
      centre(b);
      return;
    }
    v.scrollLeft += e.left + e.width / 2 - box.left - box.width / 2;
    v.scrollTop += e.top + e.height / 2 - box.top - box.height / 2;
  };
  // Shows only one block: the drawing of all ops, cut to the block's boxes. null: shows the whole drawing.
  const whole = sizes.map((b) => [b.x, b.y, b.width, b.height]);
  const only = (k, block) => {
    if (block === null && !views[k].classList.contains('one')) return;
    const inside = block === null ? [] : boxes[k].filter((b) => b.e.dataset.block === block);
    let [x, y, w, h] = whole[k];
    if (inside.length) {
      const all = inside.map((b) => b.e.querySelector('rect')).map((r) => ['x', 'y', 'width', 'height'].map((p) => r[p].baseVal.value));
      x = Math.min(...all.map((r) => r[0])) - 12;
      y = Math.min(...all.map((r) => r[1])) - 40;
      w = Math.max(...all.map((r) => r[0] + r[2])) + 12 - x;
      h = Math.max(...all.map((r) => r[1] + r[3])) + 40 - y;
    }
    boxes[k].forEach((b) => b.e.classList.toggle('inside', inside.includes(b)));
    views[k].classList.toggle('one', inside.length > 0);
    views[k].querySelector('svg').setAttribute('viewBox', `${x} ${y} ${w} ${h}`);
    zooms[k] = 0;
  };
  const view = (k, block = null) => {
    if (views.length > 1 && (k === 1 || at === 1)) only(1, k === 1 ? block : null);
    at = k;
    views.forEach((v, i) => { v.hidden = i !== k; });
    toggle?.setAttribute('aria-pressed', String(k === 0));
    if (!zooms[k] && views[k].clientWidth) begin();
  };

  const button = (...what) => addButton(tools, ...what);
  button('−', 'Zoom out', () => zoomTo(zooms[at] / 1.3));
  button('+', 'Zoom in', () => zoomTo(zooms[at] * 1.3));
  button('Fit', 'Fit the whole graph', fit);
  const toggle = views.length > 1 ? button('Fold', 'Fold blocks that repeat', () => view(1 - at)) : null;

  const search = () => {
    const w = find.value.toLowerCase().split(/\s+/).filter(Boolean), last = boxes.length - 1;
    const has = (b) => w.length > 0 && w.every((x) => b.low.includes(x));
    boxes.forEach((list, i) => {
      for (const b of list) b.e.classList.toggle('found', has(b));
      views[i].classList.toggle('finding', w.length > 0);
    });
    matches = boxes[last].filter(has);
    match = -1;
    found.textContent = w.length ? matches.length ? `${matches.length} found` : 'Nothing matches' : '';
  };
  const next = (by) => {
    if (!matches.length) return;
    match = (match + by + matches.length) % matches.length;
    view(boxes.length - 1);
    mark(matches[match]);
    centre(matches[match]);
    found.textContent = `${match + 1} of ${matches.length}`;
  };
  find.addEventListener('input', search);
  find.addEventListener('keydown', (e) => { if (e.key === 'Enter') next(e.shiftKey ? -1 : 1); });

  views.forEach((v, k) => {
    const of = new Map(boxes[k].map((b) => [b.e, b]));
    let from = null, moved = false, pinch = 0;
    v.addEventListener('pointerover', (e) => {
      const b = of.get(e.target.closest('.box'));
      if (b && !moved) say(b);
    });
    v.addEventListener('pointerdown', (e) => {
      moved = false;
      if (e.pointerType === 'mouse' && e.button === 0) from = [e.clientX, e.clientY, v.scrollLeft, v.scrollTop];
    });
    v.addEventListener('dragstart', (e) => e.preventDefault());
    addEventListener('pointermove', (e) => {
      if (!from) return;
      if (!moved && Math.hypot(e.clientX - from[0], e.clientY - from[1]) < 5) return;
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
      if (moved || box?.dataset.block) e.preventDefault();
      if (moved) {
        e.stopPropagation();
        moved = false;
      } else if (box?.classList.contains('block')) {
        e.stopPropagation();
        view(1, box.dataset.block);
        const inside = boxes[1].find((b) => b.e.dataset.block === box.dataset.block);
        mark(inside);
        centre(inside);
      } else if (box) mark(of.get(box));
    }, true);
    v.addEventListener('wheel', (e) => {
      if (!e.ctrlKey && !e.metaKey) return;
      e.preventDefault();
      zoomTo(zooms[at] * Math.exp(-Math.max(-60, Math.min(60, e.deltaY)) / 200), e.clientX, e.clientY);
    }, { passive: false });
    const apart = (t) => Math.hypot(t[0].clientX - t[1].clientX, t[0].clientY - t[1].clientY);
    v.addEventListener('touchstart', (e) => { if (e.touches.length === 2) pinch = apart(e.touches) / zooms[at]; }, { passive: true });
    v.addEventListener('touchmove', (e) => {
      if (e.touches.length !== 2 || !pinch) return;
      e.preventDefault();
      zoomTo(apart(e.touches) / pinch, (e.touches[0].clientX + e.touches[1].clientX) / 2, (e.touches[0].clientY + e.touches[1].clientY) / 2);
    }, { passive: false });
    v.addEventListener('keydown', (e) => {
      if (e.key === '+' || e.key === '=') zoomTo(zooms[at] * 1.3);
      else if (e.key === '-') zoomTo(zooms[at] / 1.3);
      else if (e.key === '0') fit();
    });
  });

  // Scrolls to the layer in the address.
  const screen = () => {
    if (document.body.dataset.screen !== 'graph') return;
    if (!zooms[at]) begin();
    const k = document.body.dataset.layer, mine = (b) => b.e.getAttribute('href') === `#L${k}`;
    if (!k || marked && mine(marked)) return;
    const last = boxes.length - 1, b = boxes[at].find(mine) ?? boxes[last].find(mine);
    if (!b) return;
    if (!boxes[at].includes(b) || (views[at].classList.contains('one') && !b.e.classList.contains('inside'))) view(last, b.e.dataset.block ?? null);
    mark(b);
    centre(b);
  };
  document.addEventListener('screen', screen);
  view(0);
  words.textContent = matchMedia('(hover: hover) and (min-width: 761px)').matches
    ? 'Point at a box for what it is; click to open it. Drag to move, Ctrl and the wheel to zoom.' : 'Tap a box to open it. Two fingers zoom.';
  screen();
}));
