// Shows one screen, and a layer beside it, as in the address: #plot, #L7 (the table and layer 7), #graph/L7.
addEventListener('DOMContentLoaded', () => {
  const screens = [...document.querySelectorAll('.screen')], panel = document.getElementById('layer');
  const names = screens.map((s) => s.id), links = [...document.querySelectorAll('nav a')];
  const details = [...panel.querySelectorAll('details')], pieces = [...panel.querySelectorAll('script.packed')];
  const layers = Number(panel.dataset.layers), piece = Number(panel.dataset.piece);
  const beside = ['effects', 'plot', 'table', 'graph']; // screens that a layer opens beside
  const wide = matchMedia('(min-width: 1000px)'), scrolled = {};
  let shown = null, layer = null, opener = null;

  // Prevents the browser from scrolling to the target of the address.
  screens.forEach((s) => { s.id = `screen-${s.id}`; });
  const tidy = (d) => {
    d.querySelector('.body').removeAttribute('id');
    d.querySelector('summary').tabIndex = -1;
  };
  details.forEach(tidy);
  // Packed layers are unpacked in pieces.
  const unpackLayer = async (k) => {
    const at = Math.floor((k - 1) / piece), box = document.createElement('template');
    box.innerHTML = await unpack(pieces[at]);
    [...box.content.querySelectorAll('details')].forEach((d, i) => {
      tidy(d);
      details[at * piece + i] ??= d;
    });
  };

  const tools = document.createElement('div');
  tools.className = 'bar';
  const button = (...what) => addButton(tools, ...what);
  const other = document.createElement('a');

  const address = (screen, k) => (k === null ? `#${screen}` : screen === 'table' ? `#L${k}` : `#${screen}/L${k}`);
  const numberOf = (row) => Number(row.querySelector('a').hash.slice(2));
  const read = () => {
    let words = [];
    try { words = decodeURIComponent(location.hash.slice(1)).split('/'); } catch { /* not an address of ours */ }
    const last = words.at(-1) ?? '', k = /^L[1-9]\d*$/.test(last) && last.slice(1) <= layers ? Number(last.slice(1)) : null;
    const screen = names.includes(words[0]) ? words[0] : k === null ? 'summary' : 'table';
    return [screen, beside.includes(screen) ? k : null];
  };

  const show = () => {
    const [screen, k] = read();
    if (shown) scrolled[shown] = scrollY;
    const moved = screen !== shown;
    screens.forEach((s, i) => { s.hidden = names[i] !== screen; });
    links.forEach((a) => (a.hash === `#${screen}` ? a.setAttribute('aria-current', 'page') : a.removeAttribute('aria-current')));
    links.find((a) => a.hash === `#${screen}`)?.scrollIntoView({ block: 'nearest', inline: 'nearest' });
    const before = layer === null ? undefined : details[layer - 1];
    if (before) {
      before.classList.remove('on');
      before.open = false;
      if (pieces.length) before.remove();
    }
    document.body.classList.toggle('beside', k !== null);
    panel.hidden = k === null;
    for (const row of layerTable.rows) row.classList.toggle('current', k !== null && numberOf(row) === k);
    shown = screen;
    layer = k;
    if (k !== null) {
      const there = screen === 'graph' ? 'table' : 'graph';
      const d = details[k - 1];
      if (d) {
        if (!d.isConnected) panel.append(d);
        d.open = true;
        d.classList.add('on');
      } else unpackLayer(k).then(show);
      panel.scrollTop = 0;
      other.hidden = !names.includes(there);
      other.href = address(there, k);
      other.textContent = there === 'graph' ? 'In the graph' : 'In the table';
      const row = screen === 'table' && layerTable.rows.find((r) => numberOf(r) === k);
      if (row) layerTable.reach(row);
    }
    if (moved) scrollTo(0, scrolled[screen] ?? 0);
    Object.assign(document.body.dataset, { screen, layer: k ?? '' });
    document.dispatchEvent(new Event('screen'));
    const section = screens[names.indexOf(screen)];
    if (isPacked(section)) fill(section).then(show);
  };

  const go = (screen, k) => {
    location.hash = address(screen, k);
    show(); // at once, not when the browser comes to tell
  };
  const close = () => {
    if (layer === null) return;
    go(shown, null);
    (opener?.isConnected ? opener : links.find((a) => a.hash === `#${shown}`))?.focus({ preventScroll: true });
  };
  const step = (by) => {
    const order = shown === 'table' ? layerTable.rows.filter((r) => !r.hidden).map(numberOf) : Array.from({ length: layers }, (_, i) => i + 1);
    const at = order.indexOf(layer), to = layer === null ? (by > 0 ? 0 : order.length - 1) : at + by;
    if (order[to] !== undefined) go(beside.includes(shown) ? shown : 'table', order[to]);
  };

  button('‹', 'Layer before', () => step(-1));
  button('›', 'Next layer', () => step(1));
  tools.append(other);
  button('✕', 'Close', close).className = 'close';
  panel.prepend(tools);
  panel.tabIndex = -1;
  panel.addEventListener('click', (e) => { if (e.target.closest('summary')) e.preventDefault(); });

  // A layer opens beside the screen of its link.
  document.addEventListener('click', (e) => {
    const a = e.target.closest('a[href^="#L"]') ?? e.target.closest('#layers tbody tr')?.querySelector('a');
    if (!a || e.ctrlKey || e.metaKey || e.shiftKey || getSelection().toString()) return;
    const screen = a.closest('.screen')?.id.slice('screen-'.length);
    e.preventDefault();
    opener = a;
    go(beside.includes(screen) ? screen : 'table', Number(a.getAttribute('href').slice(2)));
    if (!wide.matches || e.detail === 0) setTimeout(() => panel.focus({ preventScroll: true }));
  });

  document.addEventListener('keydown', (e) => {
    const typing = e.target.closest?.('input, select, textarea');
    if (e.ctrlKey || e.metaKey || e.altKey || (typing && e.key !== 'Escape')) return;
    if (e.key === 'Escape') {
      if (typing) e.target.blur();
      else close();
    } else if (/^[1-9]$/.test(e.key) && names[e.key - 1]) go(names[e.key - 1], null);
    else if (e.key === 'j') step(1);
    else if (e.key === 'k') step(-1);
    else if (e.key === '/') {
      const search = document.querySelector('.screen:not([hidden]) input[type=search]');
      if (!search) return;
      e.preventDefault();
      search.focus();
    }
  });
  addEventListener('hashchange', show);
  show();
});
