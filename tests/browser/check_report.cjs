// SPDX-License-Identifier: Apache-2.0
// Opens pages in headless Chromium: node check_report.cjs [--pictures FOLDER] [comparison:|runs:|large:]NAME=page.html ... [--made]
// --made: also pages with made records, of which no job has so many layers or such names.
// NODE_PATH holds puppeteer-core, CHROMIUM names the browser. One line for each check; exit code 1 when one fails.
'use strict';
const assert = require('node:assert/strict');
const fs = require('node:fs');
const os = require('node:os');
const path = require('node:path');
const puppeteer = require('puppeteer-core');
const { madePage, NAME, record } = require('./made_records.cjs');

const SIZES = [[1400, 950], [400, 850]], SCHEMES = ['light', 'dark'];
let failed = 0;

const check = async (name, run) => {
  try {
    await run();
    console.log(`ok      ${name}`);
  } catch (e) {
    failed++;
    console.log(`FAILED  ${name}\n${e.stack}`);
  }
};

// Clicks and keys change a page in events that come later: tries until what is asserted holds, for five seconds at most.
const soon = async (assertion) => {
  for (let tries = 0; ; tries++) {
    try {
      return await assertion();
    } catch (e) {
      if (tries === 100) throw e;
      await new Promise((done) => { setTimeout(done, 50); });
    }
  }
};

const open = async (browser, file, { width = 1400, height = 950, scheme = 'light', script = true, hash = '' } = {}) => {
  const page = await browser.newPage();
  page.setDefaultTimeout(120000); // other steps run beside
  page.complaints = [];
  page.on('console', (m) => page.complaints.push(`console: ${m.text()}`));
  page.on('pageerror', (e) => page.complaints.push(`error: ${e.message}`));
  page.on('request', (r) => { if (!/^(file|data):/.test(r.url())) page.complaints.push(`request: ${r.url()}`); });
  await page.setJavaScriptEnabled(script);
  await page.setViewport({ width, height });
  // Without motion: while a page still scrolls smoothly, a click misses what it is aimed at.
  await page.emulateMediaFeatures([{ name: 'prefers-color-scheme', value: scheme }, { name: 'prefers-reduced-motion', value: 'reduce' }]);
  await page.goto(`file://${path.resolve(file)}${hash}`);
  return page;
};

// Contrast (WCAG 2) of every piece of text with what lies behind it: the worst one.
const worstContrast = () => {
  const parse = (c) => (c.match(/[\d.]+/g) ?? []).map(Number);
  const light = (c) => {
    const [r, g, b] = c.map((v) => (v / 255 <= 0.03928 ? v / 255 / 12.92 : ((v / 255 + 0.055) / 1.055) ** 2.4));
    return 0.2126 * r + 0.7152 * g + 0.0722 * b;
  };
  const behind = (e) => {
    const rect = e.closest('.graph g, .graph a')?.querySelector('rect');
    if (rect && e.tagName === 'text') return parse(getComputedStyle(rect).fill);
    for (; e; e = e.parentElement) {
      const c = parse(getComputedStyle(e).backgroundColor);
      if (c.length === 3 || c[3] > 0) return c.slice(0, 3);
    }
    return [255, 255, 255];
  };
  let worst = { ratio: 99 };
  const walker = document.createTreeWalker(document.body, NodeFilter.SHOW_TEXT);
  while (walker.nextNode()) {
    const e = walker.currentNode.parentElement;
    if (!walker.currentNode.textContent.trim() || !e.checkVisibility() || ['SCRIPT', 'STYLE', 'title', 'OPTION'].includes(e.tagName)) continue;
    const style = getComputedStyle(e), ink = parse(e instanceof SVGElement ? style.fill : style.color).slice(0, 3);
    const [a, b] = [light(ink), light(behind(e))].sort((x, y) => y - x), ratio = (a + 0.05) / (b + 0.05);
    if (ratio < worst.ratio) worst = { ratio, text: walker.currentNode.textContent.trim().slice(0, 60), tag: e.tagName };
  }
  return worst;
};

const axe = require('axe-core').source;

// What axe finds on what is shown, in lines: rule, how many, the first element. Contrast is looked at above; skip-link takes a box
// that is scrolled out of the graph for a link to an element, but #L7 is an address of the page.
// axe takes most of the time of these checks, so a screen can be looked at without the rest of the page.
const complaintsOfAxe = async (page, screen) => {
  await page.evaluate(axe);
  const parts = screen && (/^L\d/.test(screen) ? ['#screen-table', '#layer'] : [`#screen-${screen}`]);
  const found = await page.evaluate((include) => globalThis.axe.run(include ? { include } : document, { resultTypes: ['violations'], rules: { 'color-contrast': { enabled: false }, 'skip-link': { enabled: false } } }), parts);
  return found.violations.map((v) => `${v.id} (${v.nodes.length}): ${v.nodes[0].html.slice(0, 120)}`);
};

const SCREENS = ['summary', 'effects', 'advice', 'plot', 'table', 'L2', 'graph', 'again'];
const visible = (page) => page.$$eval('.screen', (all) => all.filter((s) => s.checkVisibility()).map((s) => s.id.replace('screen-', '')));
const go = (page, hash) => page.evaluate((h) => new Promise((done) => {
  if (location.hash === h) return done();
  addEventListener('hashchange', () => requestAnimationFrame(done), { once: true });
  location.hash = h;
}), hash);

const isComparison = (name) => /^(comparison|runs):/.test(name);
const screensOf = (page) => page.$$eval('nav a', (all) => all.map((a) => a.hash.slice(1)));

// Contrast at each width and in each scheme once; axe too if `whole`, otherwise on the large screens one by one.
const looks = async (browser, name, file, pictures, whole) => {
  for (const [width, height] of SIZES)
    for (const scheme of SCHEMES)
      await check(`${name}: ${width} pixels wide, ${scheme}`, async () => {
        const page = await open(browser, file, { width, height, scheme });
        const screens = isComparison(name) ? await screensOf(page) : SCREENS;
        for (const screen of screens) {
          await go(page, `#${screen}`);
          if (pictures) await page.screenshot({ path: path.join(pictures, `${name.replace(':', '-')}-${screen}-${width}-${scheme}.png`) });
          assert.ok(await page.evaluate(() => document.documentElement.scrollWidth <= innerWidth), `${screen} is wider than the window`);
          if ((width === SIZES[0][0]) !== (scheme === SCHEMES[0])) continue; // each width and each scheme once
          const worst = await page.evaluate(worstContrast);
          assert.ok(worst.ratio >= 4.5, `${screen}: contrast ${worst.ratio} of <${worst.tag}> '${worst.text}'`);
          if (whole || width === SIZES[0][0]) assert.deepEqual(await complaintsOfAxe(page, whole ? null : screen), [], screen);
        }
        assert.deepEqual(page.complaints, []);
        await page.close();
      });
};

// On a phone nothing is beside what is seen: no part of a screen scrolls sideways, but for the graph, which is dragged.
const fitsAPhone = async (browser, name, file) => {
  const sideways = (page) => page.evaluate(() => [...document.querySelectorAll('*')].filter((e) => e.scrollWidth > e.clientWidth + 1 && e.checkVisibility()
    && !e.matches('.graph') && !e.closest('svg') && (e === document.documentElement || ['auto', 'scroll'].includes(getComputedStyle(e).overflowX)))
    .map((e) => `${e.tagName} ${e.id || e.className}: ${e.scrollWidth} of ${e.clientWidth}`));
  await check(`${name}: nothing scrolls sideways on a phone`, async () => {
    for (const width of [400, 360]) {
      const page = await open(browser, file, { width, height: 850 });
      for (const screen of await screensOf(page))
        for (let local = 0; local < 2; local++) {
          await go(page, `#${screen}`);
          const box = await page.evaluateHandle(() => [...document.querySelectorAll('.switch input')].find((e) => e.checkVisibility()));
          if (local && !box.asElement()) continue;
          if (box.asElement() && await box.evaluate((e) => e.checked) !== Boolean(local)) await box.evaluate((e) => e.click());
          assert.deepEqual(await sideways(page), [], `${screen}, ${width} pixels${local ? ', local errors' : ''}`);
        }
      assert.deepEqual(page.complaints, []);
      await page.close();
      const plain = await open(browser, file, { width, height: 850, script: false });
      assert.ok(await plain.evaluate(() => document.documentElement.scrollWidth <= innerWidth), 'without JavaScript');
      await plain.close();
    }
  });
};

const column = (page, title) => page.$$eval('#layers th', (all, t) => all.findIndex((h) => h.textContent.startsWith(t)), title);
const values = (page, c) => page.$$eval('#layers tbody tr', (rows, k) => rows.filter((r) => !r.hidden).map((r) => r.cells[k].dataset.v ?? r.cells[k].textContent), c);

const usesTable = async (browser, name, file, kinds) => {
  await check(`${name}: sorts by a click and by the keyboard`, async () => {
    const page = await open(browser, file, { hash: '#table' }), c = await column(page, kinds === 'weight' ? 'outputs' : 'SQNR'), buttons = await page.$$('#layers th button');
    const before = await values(page, c);
    const known = before.filter((v) => v !== '').map(Number).sort((x, y) => x - y), unknown = before.length - known.length;
    await buttons[c].click();
    await soon(async () => assert.deepEqual((await values(page, c)).slice(0, known.length).map(Number), known));
    const up = await values(page, c);
    assert.ok(up.slice(known.length).every((v) => v === '') && up.length === known.length + unknown);
    await buttons[c].focus();
    await page.keyboard.press('Enter');
    await soon(async () => assert.deepEqual((await values(page, c)).slice(0, known.length).map(Number), [...known].reverse()));
    await soon(async () => assert.equal(await page.$eval(`#layers th:nth-child(${c + 1})`, (h) => h.ariaSort), 'descending'));
    assert.deepEqual(page.complaints, []);
    await page.close();
  });
  await check(`${name}: filters by words and by kind`, async () => {
    const page = await open(browser, file, { hash: '#table' }), all = await values(page, 0);
    await page.select('#kind', kinds);
    const one = await page.$$eval('#layers tbody tr:not([hidden])', (rows) => rows.map((r) => r.dataset.kind));
    assert.ok(one.length > 0 && one.length <= all.length && one.every((k) => k === kinds), one.join());
    await page.select('#kind', '');
    const wanted = await page.$eval('#layers tbody tr:nth-child(3) .name', (e) => (e.querySelector('a') ?? e).innerText); // without the op, which phones show below
    await page.type('#filter', wanted);
    const left = await page.$$eval('#layers tbody tr:not([hidden]) .name', (e) => e.map((x) => (x.querySelector('a') ?? x).textContent));
    assert.ok(left.length >= 1 && left.length < all.length && left.every((n) => n.includes(wanted)), left.join());
    await soon(async () => assert.equal(await page.$eval('#shown', (e) => e.textContent), `${left.length} of ${all.length}`));
    await page.close();
  });
};

const opened = (page) => page.$$eval('#layer article', (all) => all.flatMap((d) => (d.checkVisibility() ? [Number(d.dataset.layer)] : [])));

// How many of the edges of the graph that is shown pass behind a box, of `most` edges and all boxes.
const behindBoxes = (page, most) => page.evaluate((n) => {
  const view = [...document.querySelectorAll('.graph')].find((v) => v.checkVisibility());
  const boxes = [...view.querySelectorAll('.box rect')].map((r) => ['x', 'y', 'width', 'height'].map((k) => r[k].baseVal.value));
  const inside = (p) => boxes.some(([x, y, w, h]) => p.x > x + 1 && p.x < x + w - 1 && p.y > y + 1 && p.y < y + h - 1);
  const edges = [...view.querySelectorAll('svg > path')].slice(0, n);
  const bad = edges.filter((e) => { for (let d = 0; d < e.getTotalLength(); d += 3) if (inside(e.getPointAtLength(d))) return true; return false; });
  return [edges.length > 0, bad.length];
}, most);
const width = (page) => page.evaluate(() => [...document.querySelectorAll('.graph')].find((v) => v.checkVisibility()).querySelector('svg').clientWidth);
const inView = (page, what) => page.evaluate((w) => {
  const e = document.querySelector(w), box = e.getBoundingClientRect(), view = e.closest('.graph').getBoundingClientRect();
  return box.left >= view.left && box.right <= view.right && box.top >= view.top && box.bottom <= view.bottom;
}, what);

// Every op, and not only folded blocks: drawn when it is asked for.
const unfold = async (page) => {
  if (await page.$('.zoom button[aria-pressed=true]')) await page.click('.zoom button[aria-pressed]');
};

const usesGraph = async (browser, name, file) => {
  await check(`${name}: boxes of the graph have names, shapes and colours, and no edge runs behind one`, async () => {
    const page = await open(browser, file, { hash: '#graph' });
    assert.deepEqual(await behindBoxes(page, 120), [true, 0]);
    await unfold(page);
    assert.deepEqual(await behindBoxes(page, 120), [true, 0]);
    const lines = await page.$$eval('.graph .box.q:not(.block)', (all) => all.map((e) => [...e.querySelectorAll('text')].map((t) => t.textContent)));
    assert.ok(lines.length > 0 && lines.every((l) => l.length >= 2 && l[0] !== ''), JSON.stringify(lines[0]));
    assert.ok(lines.some((l) => /\[.*\].*dB/.test(l.at(-1))), JSON.stringify(lines[0]));
    assert.ok(await page.$('.graph .l0, .graph .l1, .graph .l2, .graph .l3, .graph .l4'), 'nothing is coloured');
    assert.deepEqual(page.complaints, []);
    await page.close();
  });
  await check(`${name}: the graph zooms, is dragged, finds, and opens a layer`, async () => {
    const page = await open(browser, file, { hash: '#graph' });
    await unfold(page);
    const before = await width(page);
    const press = (label) => page.click(`.zoom button[aria-label='${label}']`);
    await press('Zoom in');
    await soon(async () => assert.ok(await width(page) > before * 1.2));
    await press('Zoom out');
    await soon(async () => assert.ok(Math.abs(await width(page) - before) < 3));
    for (let i = 0; i < 6; i++) await press('Zoom in');
    const view = await page.evaluateHandle(() => [...document.querySelectorAll('.graph')].find((v) => v.checkVisibility()));
    const box = await view.boundingBox(), scroll = () => view.evaluate((v) => [v.scrollLeft, v.scrollTop]);
    const at = await scroll();
    await page.mouse.move(box.x + 200, box.y + 250);
    await page.mouse.down();
    await page.mouse.move(box.x + 150, box.y + 190, { steps: 4 });
    await page.mouse.up();
    const room = await view.evaluate((v) => [v.scrollWidth - v.clientWidth, v.scrollHeight - v.clientHeight]);
    await soon(async () => {
      const moved = (await scroll()).map((v, i) => Math.round(v - at[i]));
      [50, 60].forEach((by, i) => assert.ok(Math.abs(moved[i] - Math.min(by, room[i] - at[i])) <= 1, `${moved} of ${room}`));
    });
    assert.equal(await page.evaluate(() => location.hash), '#graph', 'dragging opened a layer');
    const wanted = await page.$$eval('.graph', (all) => [...all.at(-1).querySelectorAll('a.box:not(.block) text:nth-of-type(2)')].at(-1).textContent.replace('…', ''));
    await page.type('#find', wanted);
    await soon(async () => assert.match(await page.$eval('#found', (e) => e.textContent), /^[1-9]\d* found$/));
    for (let i = 0; i < 30 && !await page.$('.graph a.at'); i++) await page.keyboard.press('Enter');
    await soon(async () => assert.ok(await inView(page, '.graph .at'), 'what was found is not seen'));
    await soon(async () => assert.ok(await page.$eval('.graph .at', (e, w) => e.textContent.includes(w), wanted)));
    const href = await page.$eval('.graph .at', (e) => e.getAttribute('href'));
    const spot = await page.$eval('.graph .at rect', (e) => { const b = e.getBoundingClientRect(); return [b.left + b.width / 2, b.top + b.height / 2]; });
    await page.mouse.click(...spot);
    await soon(async () => assert.deepEqual([await visible(page), await opened(page)], [['graph'], [Number(href.slice(2))]]));
    assert.deepEqual(page.complaints, []);
    await page.close();
    const other = await open(browser, file, { hash: `#graph/${href.slice(1)}` });
    assert.ok(await inView(other, '.graph .at') && (await opened(other)).length === 1, 'the address does not show the layer');
    await other.close();
  });
  await check(`${name}: a folded block opens where its ops are`, async () => {
    const page = await open(browser, file, { hash: '#graph' }), blocks = await page.$$('.graph .block');
    if (!blocks.length) assert.ok((await page.$$('.graph .box')).length < 300, 'many boxes, and nothing is folded');
    for (const block of blocks.slice(1, 2)) {
      await block.evaluate((e) => e.scrollIntoView({ block: 'center' }));
      await block.click();
      const number = await block.evaluate((e) => e.dataset.block);
      await soon(async () => assert.equal(await page.$eval('.graph .at', (e) => e.dataset.block), number));
      await soon(async () => assert.ok(await inView(page, '.graph .at')));
      const shown = await page.$$eval('.graph .box', (b) => [...new Set(b.filter((e) => e.checkVisibility({ visibilityProperty: true })).map((e) => e.dataset.block))]);
      assert.deepEqual(shown, [number], 'more than the block is unfolded');
      const [first, all] = await page.$$eval('.graph', (v) => v.map((g) => g.querySelectorAll('.box').length));
      assert.ok(first < all, 'folding leaves as many boxes');
      assert.deepEqual(await behindBoxes(page, 120), [true, 0]);
      await page.click(".zoom button[aria-pressed]");
      await soon(async () => assert.ok(await block.evaluate((e) => e.checkVisibility())));
      await page.click('.zoom button[aria-label="Fit the whole graph"]');
      const scale = await block.evaluate((e) => e.getBoundingClientRect().height / e.querySelector('rect').height.baseVal.value);
      assert.ok(scale >= 0.69, `letters of the fitted graph are ${scale} of their size`);
    }
    await page.close();
  });
};

const usesScreens = async (browser, name, file) => {
  await check(`${name}: one screen at a time, by links, keys and address`, async () => {
    const page = await open(browser, file);
    assert.deepEqual(await visible(page), ['summary']);
    const links = await page.$$('nav a');
    for (const link of links) {
      const to = await link.evaluate((a) => a.hash.slice(1));
      await link.click();
      await soon(async () => assert.deepEqual(await visible(page), [to]));
      await soon(async () => assert.equal(await page.$eval('nav a[aria-current=page]', (a) => a.hash), `#${to}`));
      assert.ok(await page.evaluate(() => document.documentElement.scrollHeight < 4 * innerHeight), `${to} is long`);
    }
    await page.keyboard.press('4');
    await soon(async () => assert.deepEqual(await visible(page), ['plot']));
    await page.goBack();
    await soon(async () => assert.deepEqual(await visible(page), ['again']));
    assert.deepEqual(page.complaints, []);
    await page.close();
    const other = await open(browser, file, { hash: '#graph' });
    assert.deepEqual(await visible(other), ['graph']);
    assert.equal(await other.evaluate(() => scrollY), 0);
    await other.close();
  });
  await check(`${name}: a layer opens beside the table, from the table, the keyboard and the address`, async () => {
    const page = await open(browser, file, { hash: '#table' });
    await page.click('#layers tbody tr:nth-child(2) .name a');
    await soon(async () => assert.deepEqual(await opened(page), [2]));
    await soon(async () => assert.equal(await page.evaluate(() => location.hash), '#L2'));
    await soon(async () => assert.ok(await page.$('#layer dl') && await page.$('#layer svg'), 'the layer has no numbers or no plot'));
    const [table, panel] = await page.$$eval('.layers, #layer', (both) => both.map((e) => e.getBoundingClientRect().toJSON()));
    assert.ok(panel.left >= table.right && panel.top >= 0 && panel.bottom <= 951, 'the layer is not beside the table');
    await page.keyboard.press('j');
    await soon(async () => assert.deepEqual(await opened(page), [3]));
    await page.keyboard.press('k');
    await page.keyboard.press('k');
    await soon(async () => assert.deepEqual(await opened(page), [1]));
    await page.keyboard.press('Escape');
    await soon(async () => assert.deepEqual(await opened(page), []));
    await soon(async () => assert.deepEqual(await visible(page), ['table']));
    await page.keyboard.press('/');
    await soon(async () => assert.equal(await page.evaluate(() => document.activeElement.id), 'filter'));
    assert.deepEqual(page.complaints, []);
    await page.close();
    const other = await open(browser, file, { hash: '#L1' });
    assert.deepEqual([await visible(other), await opened(other)], [['table'], [1]]);
    await other.close();
  });
  await check(`${name}: on a phone a layer lies over the table, and closes`, async () => {
    const page = await open(browser, file, { width: 400, height: 850, hash: '#table' });
    await page.click('#layers tbody tr:nth-child(2) .name a');
    await soon(async () => {
      const box = await page.$eval('#layer', (e) => e.getBoundingClientRect().toJSON());
      assert.ok(box.left === 0 && box.top === 0 && box.width === 400 && box.height === 850, JSON.stringify(box));
    });
    await page.click('#layer .close');
    await soon(async () => assert.deepEqual(await opened(page), []));
    await page.close();
  });
  await check(`${name}: a point of the plot tells its figures and opens its layer`, async () => {
    const page = await open(browser, file, { hash: '#plot' });
    const at = await page.$eval('#screen-plot svg.wide a:nth-of-type(2)', (a) => {
      const svg = a.closest('svg'), box = svg.getBoundingClientRect();
      return { x: box.left + a.dataset.x * box.width / svg.viewBox.baseVal.width, y: box.top + 100, href: a.getAttribute('href') };
    });
    await page.mouse.move(at.x, at.y);
    await soon(async () => assert.match(await page.$eval('#screen-plot .readout', (e) => e.textContent), / dB/));
    await page.mouse.click(at.x, at.y);
    await soon(async () => assert.deepEqual([await visible(page), await opened(page)], [['plot'], [Number(at.href.slice(2))]]));
    await page.close();
  });
  await check(`${name}: prints every screen whole, one below the other`, async () => {
    const page = await open(browser, file, { hash: '#graph' });
    await page.emulateMediaType('print');
    await soon(async () => assert.equal((await visible(page)).length, SCREENS.length - 1));
    const cut = await page.$$eval('.layers, .graph', (all) => all.filter((e) => e.checkVisibility() && e.firstElementChild.getBoundingClientRect().height > e.clientHeight + 1).length);
    assert.equal(cut, 0, 'what scrolls on the screen is cut off on paper');
    const over = await page.$$eval('.screen', (all) => all.filter((s, i) => i && s.getBoundingClientRect().top < all[i - 1].getBoundingClientRect().bottom).length);
    assert.equal(over, 0, 'screens lie over each other');
    await soon(async () => assert.equal(await page.$eval('nav', (e) => e.checkVisibility()), false));
    await page.close();
  });
  await check(`${name}: local errors are behind a switch`, async () => {
    const page = await open(browser, file, { hash: '#table' }), c = await column(page, 'tensor, dB');
    const there = () => page.$$eval('#layers th', (all, k) => all[k].checkVisibility(), c);
    assert.equal(await there(), false);
    await page.click('#screen-table .switch input');
    await soon(async () => assert.equal(await there(), true));
    await go(page, '#plot');
    assert.equal((await page.$$('#screen-plot .chart')).length, 2);
    assert.deepEqual(page.complaints, []);
    await page.close();
  });
};

const isWholeWithoutScript = async (browser, name, file) => {
  await check(`${name}: has the verdict and all layers without JavaScript`, async () => {
    const page = await open(browser, file, { script: false });
    assert.match(await page.$eval('.verdict', (e) => e.textContent), /\w.*\.$/);
    const plain = (await page.$$('#plain tbody tr')).length;
    await page.close();
    const whole = await open(browser, file, { hash: '#table' });
    assert.equal(await whole.$eval('#shown', (e) => e.textContent), `${plain} of ${plain}`);
    await whole.close();
  });
};

const numbers = (page, selector) => page.$$eval(selector, (all) => all.map((c) => c.dataset.v));

const usesEffects = async (browser, name, file) => {
  await check(`${name}: layers by effect are sorted, filtered and opened`, async () => {
    const page = await open(browser, file, { hash: '#effects' });
    if (await page.$('#ranking')) {
      const c = await page.$$eval('#ranking th', (all) => all.findIndex((h) => h.textContent.startsWith('outputs, dB'))), cells = `#ranking tbody td:nth-child(${c + 1})`;
      assert.deepEqual(await numbers(page, '#ranking td:first-child'), (await numbers(page, '#ranking td:first-child')).map((_, i) => String(i + 1)));
      const heads = await page.$$('#ranking th button');
      await heads[c].click();
      await heads[c].click();
      const down = (await numbers(page, cells)).filter((v) => v !== '').map(Number);
      assert.deepEqual(down, [...down].sort((x, y) => y - x));
      await soon(async () => assert.equal(await page.$eval(`#ranking th:nth-child(${c + 1})`, (h) => h.ariaSort), 'descending'));
      const link = await page.$('#ranking .name a');
      await link.click();
      await soon(async () => assert.deepEqual([await visible(page), (await opened(page)).length], [['effects'], 1]));
      await page.keyboard.press('Escape');
      await page.type('#screen-effects .filter', 'no layer is called so');
      await soon(async () => assert.equal(await page.$eval('#screen-effects .none', (e) => e.checkVisibility()), true));
    } else {
      assert.match(await page.$eval('#screen-effects', (e) => e.textContent), /No layer|Nothing was measured/);
    }
    await go(page, '#table');
    await page.type('#filter', 'no layer is called so');
    await soon(async () => assert.equal(await page.$eval('#screen-table .none', (e) => e.checkVisibility()), true));
    await page.$eval('#filter', (e) => { e.value = ''; e.dispatchEvent(new Event('input')); });
    await soon(async () => assert.equal(await page.$eval('#screen-table .none', (e) => e.checkVisibility()), false));
    assert.deepEqual(page.complaints, []);
    await page.close();
  });
  await check(`${name}: the plot keeps its last layers beside an open layer`, async () => {
    for (const size of [1400, 1050]) {
      const page = await open(browser, file, { width: size, hash: '#plot/L2' });
      assert.equal((await opened(page)).length, 1);
      const [last, box] = await page.evaluate(() => {
        const svg = [...document.querySelectorAll('#screen-plot svg.points')].find((s) => s.checkVisibility());
        return [[...svg.querySelectorAll('a')].at(-1), svg.closest('.scroll')].map((e) => e.getBoundingClientRect().toJSON());
      });
      assert.ok(last.right <= box.right + 1, `at ${size} pixels the last point is at ${last.right}, the plot ends at ${box.right}`);
      await page.close();
    }
  });
};

// The page of compare-reports.
const comparesRuns = async (browser, name, file) => {
  await check(`${name}: the changes of layers are sorted by size, sort anew and filter`, async () => {
    const page = await open(browser, file);
    const change = '#layers tbody tr:not([hidden]) td:nth-child(3)', before = (await numbers(page, change)).filter((v) => v !== '').map(Number);
    assert.ok(before.length > 3 && before.every((v, i) => !i || v <= before[i - 1]), before.join());
    await (await page.$$('#layers th button'))[2].click();
    const up = (await numbers(page, change)).filter((v) => v !== '').map(Number);
    assert.deepEqual(up, [...before].reverse());
    await page.select('#kind', 'weight');
    const kinds = await page.$$eval('#layers tbody tr:not([hidden])', (rows) => rows.map((r) => r.dataset.kind));
    assert.ok(kinds.length > 0 && kinds.every((k) => k === 'weight'));
    await page.type('#filter', 'no layer is called so');
    await soon(async () => assert.equal(await page.$eval('.none', (e) => e.checkVisibility()), true));
    assert.deepEqual(page.complaints, []);
    await page.close();
  });
  await check(`${name}: has both reports, and the verdict without JavaScript`, async () => {
    const page = await open(browser, file, { hash: '#again' });
    const commands = [await page.$eval('#screen-again .command code', (e) => e.textContent)];
    await page.select('#which', '1');
    await soon(async () => assert.notEqual(await page.$eval('#screen-again .command code', (e) => e.textContent), commands[0]));
    await go(page, '#changes');
    for (const table of ['#figures', '#options', '#layers']) assert.ok((await page.$$(`${table} tbody tr`)).length > 1, table);
    assert.deepEqual(page.complaints, []);
    await page.close();
    const plain = await open(browser, file, { script: false });
    assert.match(await plain.$eval('.verdict', (e) => e.textContent), /layers differ/);
    assert.ok((await plain.$$('#plain tbody tr')).length > 1);
    await plain.close();
  });
};

// A page with more layers than are drawn at once.
const isLarge = async (browser, name, file, { layers, search, number, most = 10000 }) => {
  const there = (page, screen) => page.waitForFunction((s) => document.getElementById(`screen-${s}`).checkVisibility(), {}, screen);
  await check(`${name}: shows its first screen in ${most} ms, and the rest when it is asked for`, async () => {
    const page = await browser.newPage();
    await page.close(); // the browser is awake
    const start = Date.now(), shown = await open(browser, file), took = Date.now() - start;
    assert.deepEqual(await visible(shown), ['summary']);
    assert.ok(took < most, `${took} ms`);
    assert.ok(await shown.$$eval('*', (all) => all.length) < 400, 'more is in the page than is seen');
    await shown.keyboard.press('4');
    await there(shown, 'plot');
    await shown.mouse.move(600, 300);
    await soon(async () => assert.match(await shown.$eval('#screen-plot .readout', (e) => e.textContent), / dB/));
    await go(shown, '#graph');
    await there(shown, 'graph');
    assert.deepEqual(await behindBoxes(shown, 120), [true, 0]);
    assert.ok(await shown.$$eval('.graph .run > rect', (all) => all.every((r) => r.width.baseVal.value < 1200)), 'blocks are in one long row');
    await shown.type('#find', search);
    await soon(async () => assert.match(await shown.$eval('#found', (e) => e.textContent), /^[1-9]\d* found$/));
    assert.deepEqual(shown.complaints, []);
    await shown.close();
  });
  await check(`${name}: draws rows of the table as they come into view, and sorts and filters all of them`, async () => {
    const page = await open(browser, file, { hash: '#table' });
    await there(page, 'table');
    const all = Number((await page.$eval('#shown', (e) => e.textContent.replaceAll(',', ''))).split(' of ')[1]), first = await values(page, 0);
    assert.ok(all > 500 && first.length < all, `${first.length} of ${all}`);
    assert.ok(layers === undefined || all === layers);
    await page.$eval('.layers', (e) => { e.scrollTop = e.scrollHeight; });
    await page.waitForFunction((n) => document.querySelectorAll('#layers tbody tr').length > n, {}, first.length);
    const buttons = await page.$$('#layers th button');
    await buttons[0].click();
    if (await page.$eval('#layers th', (h) => h.ariaSort) !== 'descending') await buttons[0].click();
    await soon(async () => assert.equal((await values(page, 0))[0], String(all)));
    const c = await column(page, 'outputs');
    await buttons[c].click();
    const sqnr = (await values(page, c)).filter((v) => v !== '').map(Number);
    assert.ok(sqnr.length > 0);
    assert.deepEqual(sqnr, [...sqnr].sort((x, y) => x - y));
    await page.type('#filter', search);
    await soon(async () => {
      const left = await page.$$eval('#layers tbody tr', (rows) => rows.map((r) => r.textContent));
      assert.ok(left.length > 0 && left.every((t) => t.includes(search)));
    });
    await page.click('#layers tbody tr .name a');
    const at = Number(await page.$eval('#layers tbody tr', (r) => r.cells[0].textContent));
    await soon(async () => assert.deepEqual(await opened(page), [at]));
    assert.deepEqual(page.complaints, []);
    await page.close();
  });
  await check(`${name}: an address opens a layer far down, and keys go on from there`, async () => {
    const page = await open(browser, file, { hash: `#L${number}` });
    assert.deepEqual(await opened(page), [number]);
    await page.waitForFunction((n) => document.querySelector('#layers tr.current')?.cells[0].textContent === String(n), {}, number);
    const [view, row] = await page.$$eval('.layers, #layers tr.current', (both) => both.map((e) => e.getBoundingClientRect().toJSON()));
    assert.ok(row.top >= view.top && row.bottom <= view.bottom, 'the row is not in view');
    await page.keyboard.press('j');
    await soon(async () => assert.deepEqual(await opened(page), [number + 1]));
    assert.deepEqual(await complaintsOfAxe(page), []);
    assert.deepEqual(page.complaints, []);
    await page.close();
  });
};

// Names that would be markup, end the record, hide or reorder text; values that were not measured; keys of other versions.
const isHostile = async (browser, file) => {
  for (const hash of ['summary', 'effects', 'advice', 'plot', 'table', 'graph', 'again', 'L2', 'graph/L2'])
    await check(`hostile names: ${hash} shows them as texts`, async () => {
      const page = await open(browser, file, { hash: `#${hash}` });
      assert.equal(await page.evaluate(() => globalThis.broken), undefined, 'a name ran as a script');
      assert.equal((await page.$$('img, iframe, b[data-hostile]')).length, 0);
      const text = await page.evaluate(() => document.body.innerText);
      assert.ok(!/[\u202e\u0007\u200b]/.test(text), 'a control character is in the text');
      assert.ok(hash === 'again' || text.includes('<img src=x') || text.includes('…'), 'the name is not shown');
      assert.ok(await page.evaluate(() => document.documentElement.scrollWidth <= innerWidth), 'wider than the window');
      assert.deepEqual(page.complaints, []);
      await page.close();
    });
  await check('hostile names: 400 pixels wide, dark', async () => {
    const page = await open(browser, file, { width: 400, height: 850, scheme: 'dark', hash: '#table' });
    assert.ok(await page.evaluate(() => document.documentElement.scrollWidth <= innerWidth), 'wider than the window');
    assert.deepEqual(await complaintsOfAxe(page), []);
    await page.close();
  });
};

const checkMade = async (browser) => {
  const folder = fs.mkdtempSync(path.join(os.tmpdir(), 'records-'));
  for (const layers of [10, 1000, 10000]) {
    const file = madePage(folder, `made${layers}`, record(layers));
    if (layers > 10) await isLarge(browser, `${layers} made layers`, file, { layers, search: '/block7/', number: layers / 2 });
    else {
      await looks(browser, '10 made layers', file, null, true);
      await fitsAPhone(browser, '10 made layers', file);
      await usesScreens(browser, '10 made layers', file);
    }
  }
  await isHostile(browser, madePage(folder, 'hostile', record(12, NAME)));
  await check('a report of an older version is shown', async () => {
    const old = record(6);
    for (const key of ['verdict', 'graph', 'network', 'advice_state', 'ranking', 'suggestions', 'float_ops', 'outputs', 'trials']) delete old[key];
    const file = madePage(folder, 'old', old);
    for (const hash of ['summary', 'effects', 'advice', 'plot', 'table', 'again', 'L1']) {
      const page = await open(browser, file, { hash: `#${hash}` });
      assert.deepEqual(page.complaints, [], hash);
      await page.close();
    }
  });
  await check('a report without a quantized tensor is shown', async () => {
    const file = madePage(folder, 'none', { ...record(0), suggestions: [], advice: [], accumulator: null });
    for (const hash of ['summary', 'effects', 'advice', 'plot', 'table', 'graph', 'again', 'L1']) {
      const page = await open(browser, file, { hash: `#${hash}` });
      assert.deepEqual(page.complaints, [], hash);
      assert.deepEqual(await complaintsOfAxe(page), [], hash);
      await page.close();
    }
  });
  await check('a verdict of each grade has its colour, and only a loss that matters has red', async () => {
    const colours = new Set();
    for (const [grade, db] of [['good', 46], ['usable', 16.66], ['poor', 4]]) {
      const page = await open(browser, madePage(folder, grade, record(10, undefined, grade, db)));
      colours.add(await page.$eval('.grade', (e) => getComputedStyle(e).backgroundColor));
      await go(page, '#advice');
      assert.equal((await page.$eval('#screen-advice', (e) => e.textContent)).includes('Largest sources'), grade !== 'good');
      assert.ok(!/(\d+\.\d\d) → \1/.test(await page.$eval('#screen-advice', (e) => e.textContent)), 'an advice changes nothing');
      await page.close();
    }
    assert.equal(colours.size, 3);
  });
  const shows = async (change, hash, look) => {
    const json = record(10);
    change(json);
    const page = await open(browser, madePage(folder, 'changed', json), { hash: `#${hash}` });
    const text = await page.$eval(`#screen-${hash}`, (e) => e.textContent);
    await look(text, page);
    assert.deepEqual(page.complaints, []);
    await page.close();
  };
  await check('an advice shows the worst output that it changes, and its accuracy', () => shows((r) => {
    r.accuracy = { file: 'e.h5', metric: 'top1', samples: 50, fp32: 0.9, int8: 0.7, fp32_interval: null, int8_interval: null };
    r.advice.length = 1;
    Object.assign(r.advice[0].measured, { accuracy_before: 0.7, accuracy_after: 0.85, outputs: [{ name: 'worst', sqnr_db_before: 5, sqnr_db_after: 5 }, { name: 'other', sqnr_db_before: 12, sqnr_db_after: 19 }] });
  }, 'summary', (text) => {
    assert.match(text, /other 12\.00 → 19\.00 dB/);
    assert.match(text, /Top-1 accuracy 70\.00 → 85\.00/);
  }));
  await check('no figure changes to itself', () => shows((r) => {
    r.accuracy = { file: 'e.h5', metric: 'top1', samples: 50, positions: 60, fp32: 0.9, int8: 0.9, fp32_interval: [0.8, 0.95], int8_interval: [0.8, 0.95], fp32_top5: 1, int8_top5: 1, fp32_nll: 0.5, int8_nll: 0.5 };
    r.files[0].bytes = r.model.bytes;
    r.advice.length = 1;
    r.advice[0].measured.outputs.push({ name: 'same', sqnr_db_before: 30, sqnr_db_after: 30 });
  }, 'summary', async (text, page) => {
    await go(page, '#advice');
    const all = text + await page.$eval('#screen-advice', (e) => e.textContent);
    assert.match(all, /90\.00\s%/);
    assert.match(all, /same 30\.00/);
    assert.ok(!/([\d.]+( KB)?) → \1/.test(all), all.match(/.{9}([\d.]+) → \1.{9}/)?.[0]);
  }));
  await check('an input that is no layer has its range, and one of one value is marked', () => shows((r) => {
    r.data.inputs = [{ name: 'image', min: -2, max: 2, not_finite: 0, units: 4 }, { name: 'mask', min: 1, max: 1, not_finite: 0, units: 4 }];
  }, 'summary', async (text, page) => {
    assert.match(text, /image −2 to 2/);
    assert.equal(await page.$eval('#screen-summary dd.bad', (e) => e.textContent), 'mask');
  }));
  await check('if samples differ, they are the cause, and layers are said to be measured on others', () => shows((r) => {
    r.samples_differ = { calibrated_sqnr_db: 46.8 };
    r.suggestions = [];
  }, 'summary', async (text, page) => {
    assert.match(text, /Calibrate with samples like those of use.*46\.8 dB/);
    assert.match(text, /Measured on the calibration samples/);
    await go(page, '#advice');
    const advice = await page.$eval('#screen-advice', (e) => e.textContent);
    assert.match(advice, /Calibrate with samples like those of use/);
    assert.ok(!/No layer stands out/.test(advice), advice);
  }));
  await check('a file without quantized operators is not called good', () => shows((r) => {
    Object.assign(r, { quantized_ops: 0, layers: [], ranking: [], advice: [], suggestions: [], verdict: { grade: 'unknown', text: 'nothing is quantized' } });
  }, 'summary', (text) => {
    assert.match(text, /^[^]*Unchanged/);
    assert.match(text, /--prefer size/);
  }));
  await check('each output has its line, the worst first', () => shows((r) => {
    r.outputs = [['fine', 50], ['bad', 12], ['middle', 30]].map(([name, sqnr_db]) => ({ name, sqnr_db, cosine: 0.9, max_abs: 1, state: 'measured' }));
  }, 'summary', async (_, page) => {
    const rows = await page.$$eval('#screen-summary table', (all) => [...all].find((t) => /output/.test(t.rows[0].textContent)) && [...[...all].find((t) => /output/.test(t.rows[0].textContent)).tBodies[0].rows].map((tr) => tr.cells[0].textContent));
    assert.deepEqual(rows, ['bad', 'middle', 'fine']);
  }));
  await check('the shares of the noise are those of the powers, and add up', () => shows((r) => {
    r.ranking = [['a', 10], ['b', 20], ['c', null]].map(([node, output_sqnr_db]) => ({ node, op: 'Conv', output_sqnr_db, measured: true }));
  }, 'effects', async (_, page) => {
    const shares = await page.$$eval('#ranking tbody tr', (all) => all.map((tr) => tr.cells[4].textContent));
    assert.deepEqual(shares, ['90.9\u00a0%', '9.1\u00a0%', '–']);
  }));
  await check('a chain of residual blocks goes straight down', async () => {
    const page = await open(browser, madePage(folder, 'chain', record(4)));
    const places = await page.evaluate((blocks) => {
      const boxes = [{ width: 80, height: 50, inputs: [] }];
      for (let b = 0; b < blocks; b++) {
        const start = boxes.length - 1;
        boxes.push({ width: 120 + b % 3 * 30, height: 50, inputs: [start] }, { width: 150, height: 50, inputs: [start + 1] }, { width: 60, height: 50, inputs: [start + 2, start] });
      }
      layOut(boxes);
      return boxes.filter((_, i) => i % 3 === 0).map((x) => x.x + x.width / 2);
    }, 60);
    assert.ok(Math.max(...places) - Math.min(...places) < 100, `from ${Math.min(...places)} to ${Math.max(...places)}`);
    await page.close();
  });
  await check('a plot of many layers is as wide as the window, and a point opens the worst of its layers', async () => {
    const page = await open(browser, madePage(folder, 'many', record(4000)), { hash: '#plot/L1999' });
    const box = await page.$eval('#screen-plot .chart', (e) => [e.scrollWidth, e.clientWidth]);
    assert.ok(box[0] <= box[1] + 1, box.join());
    await soon(async () => assert.equal((await page.$$('#screen-plot svg.wide a.open')).length, 1));
    const at = await page.$eval('#screen-plot svg.wide a.open', (a) => [a.dataset.layers.split(' ').map(Number), Number(a.getAttribute('href').slice(2))]);
    assert.ok(at[0].includes(1999) && at[0].length > 1);
    const dbs = await page.evaluate((layers) => layers.map((l) => JSON.parse(document.getElementById('record').textContent).layers[l - 1].output_sqnr_db), at[0]);
    assert.equal(dbs[at[0].indexOf(at[1])], Math.min(...dbs));
    assert.deepEqual(page.complaints, []);
    await page.close();
  });
  await check('a plot ends at 100 dB, whatever a layer has', () => shows((r) => { r.ranking[0].output_sqnr_db = 1240; }, 'plot', async (_, page) => {
    const ticks = await page.$$eval('#screen-plot svg.points text', (all) => all.map((t) => Number(t.textContent)).filter((v) => !Number.isNaN(v)));
    const tops = await page.$$eval('#screen-plot svg.points circle', (all) => all.map((c) => c.cy.baseVal.value));
    assert.equal(Math.max(...ticks.filter((v) => v % 20 === 0)), 100);
    assert.ok(tops.every((y) => y >= 20), 'a point is above the plot');
  }));
  await check('the summary describes evaluation samples and latency by operator', () => shows((r) => {
    r.layers.unshift({ ...r.layers[0], name: 'in', node: null, op: 'Input', kind: 'activation', observed: { min: -1, max: 1, count: 9, nan: 0, inf: 0 } });
    r.data.classes = { count: null, seen: 2, least: 3, most: 4 };
    r.accuracy = { file: 'e.h5', metric: 'top1', samples: 50, fp32: 0.9, int8: 0.9, fp32_interval: null, int8_interval: null,
      inputs: [{ name: 'in', min: -1, max: 9, not_finite: 0, units: 5 }], classes: { count: 10, seen: 7, least: 2, most: 11 } };
    r.latency_by_operator = [{ op: 'Relu', float: 0.1, quantized: 0 }, { op: 'Conv', float: 0.9, quantized: 0.4 }, { op: 'Quantize', float: 0, quantized: 0.05 }];
  }, 'summary', async (text, page) => {
    assert.match(text, /evaluation: −1 to 9/);
    assert.match(text, /calibration: labels of 2 classes, 3 to 4 each/);
    assert.match(text, /evaluation: labels of 7 of 10 classes, 2 to 11 each/);
    assert.equal((await page.$$('#screen-summary dl .bad')).length, 4, 'a range far outside, missing classes of both, and NaN are marked');
    const rows = await page.$$eval('#screen-summary .scroll tbody tr', (all) => all.map((tr) => [...tr.cells].map((td) => td.textContent)));
    assert.deepEqual(rows, [['Conv', '90.0', '40.0'], ['Relu', '10.0', '0.0'], ['conversions between types', '0.0', '5.0'], ['all', '100.0', '45.0']]);
  }));
  await check('the error of all layers has its words beside the plot, not over its points', () => shows((r) => { r.outputs[0].sqnr_db = 19; }, 'plot', async (_, page) => {
    assert.match(await page.$eval('#screen-plot .legend', (e) => e.textContent), /all layers together: .*y 19\.00 dB/);
    assert.equal((await page.$$('#screen-plot svg.wide .total')).length, 1);
    assert.deepEqual(await page.$$eval('#screen-plot svg.points text:not(.marktext)', (all) => all.map((t) => t.textContent).filter((t) => /together/.test(t))), []);
  }));
  await check('a source of error is marked at its own layer, whichever tensor is its cause', () => shows((r) => {
    r.suggestions = [{ name: r.ranking[0].node, op: 'Conv', sqnr_db_before: 40, sqnr_db_after: 20, why: 'its input is noisy', layer: 4 }];
  }, 'plot', async (_, page) => {
    const at = await page.evaluate(() => {
      const r = JSON.parse(document.getElementById('record').textContent), svg_ = document.querySelector('#screen-plot svg.wide');
      const x = svg_.querySelector('.mark').cx.baseVal.value, a = [...svg_.querySelectorAll('a')].find((e) => Math.abs(e.dataset.x - x) < 0.01);
      return [r.layers[Number(a.getAttribute('href').slice(2)) - 1].node, r.ranking[0].node];
    });
    assert.equal(at[0], at[1]);
    await go(page, '#advice');
    assert.match(await page.$eval('.hurts:not(.helps) p', (e) => e.textContent), /quantized\. Its input is noisy\.$/);
  }));
  const unmet = (r) => {
    const cost = { latency: 1.62, processors: { 'avx512-vnni': 1.62, avx2: 2.2, amx: 1.7 }, bytes: 22323 }, lost = { value: 0.3149, drop: 67.34, sqnr_db: 2.1, nll: null, int8_share: 0.609, met: false, chosen: false, reason: null };
    r.accuracy = { file: 'e.h5', metric: 'top1', samples: 597, fp32: 0.9883, int8: 0.3149, fp32_interval: null, int8_interval: null };
    r.fallback = { max_drop: 0.1, min_sqnr: 30, max_nll: null, met: false, mended: false, options: [], command: null, steps: [{ layers: 0, type: null, cost, ...lost }, { layers: 1, type: '16 bits', cost, ...lost }] };
    r.sensitivity = r.ranking.map((e) => ({ node: e.node, op: e.op, sqnr_db: e.output_sqnr_db, weights_sqnr_db: 50, value: null, drop: null }));
    r.files = [];
    r.cost = { latency: 1, processors: { 'avx512-vnni': 1, avx2: 1.39, amx: 1.02 }, bytes: 20000 };
    r.advice[0].cost = cost;
  };
  await check('a file that was not written has no size, and one that is slower somewhere says where', () => shows(unmet, 'summary', (text) => {
    assert.match(text, /Size of the model filenone/);
    assert.match(text, /File 21\.8\sKB, estimated latency 100 → 162/);
    assert.match(text, /139\s% on avx2, 102\s% on amx\. Slower than float on avx2\. --benchmark/);
  }));
  await check('a file that is slower by an option names the option that is not', () => shows((r) => {
    r.options.prefer = 'integers';
    r.cost = { latency: 1.29, processors: { 'avx512-vnni': 1.29, avx2: 2.21, amx: 1.3 }, bytes: 20000 };
  }, 'summary', (text) => assert.match(text, /Slower than float\. --prefer speed leaves operators in float\. --benchmark/)));
  const failedDemand = record(10, '/a_layer_');
  unmet(failedDemand);
  await fitsAPhone(browser, 'a demand that was not met', madePage(folder, 'unmet', failedDemand));
  await check('a demand that was not met: on a phone each attempt says so, and no short name is broken', async () => {
    const page = await open(browser, madePage(folder, 'unmet', failedDemand), { width: 400, height: 850, hash: '#advice' });
    const [right, edge] = await page.$$eval('#screen-advice .scroll table', ([t]) => [t.tBodies[0].rows[0].cells[t.rows[0].cells.length - 1].getBoundingClientRect().right, innerWidth]);
    assert.ok(right > 200 && right <= edge, `the last column ends at ${right} of ${edge}`);
    await go(page, '#effects');
    const lines = await page.$$eval('#ranking tbody .name a', (all) => all.map((a) => { const range = document.createRange(); range.selectNodeContents(a); return new Set([...range.getClientRects()].map((b) => Math.round(b.top))).size; }));
    assert.ok(lines.length > 0 && lines.every((n) => n <= 3), `a name of three parts has ${Math.max(...lines)} lines`);
    await page.close();
  });
  await check('classes are marked if calibration lacks some of evaluation, not if neither has them', async () => {
    for (const [seen, marked] of [[57, 0], [40, 1]])
      await shows((r) => {
        r.layers.forEach((l) => { l.observed.nan = 0; });
        r.data.classes = { count: 63, seen, least: 1, most: 9 };
        r.accuracy = { file: 'e.h5', metric: 'top1', samples: 50, positions: 600, fp32: 0.6, int8: 0.6, fp32_interval: null, int8_interval: null, classes: { count: 63, seen: 57, least: 1, most: 9 } };
      }, 'summary', async (_, page) => assert.equal((await page.$$('#screen-summary dl .bad')).length, marked, `${seen} classes`));
  });
  await check('a file with quantized weights alone says so, not that nothing is in integers', () => shows((r) => {
    r.layers = r.layers.filter((l) => l.kind === 'weight');
    Object.assign(r, { quantized_ops: 0, integer_share: 0, int8_share: 0 });
  }, 'summary', (text) => {
    assert.match(text, /Quantized weights5Only weights: all 1 operator compute/);
    assert.ok(!/Multiply-adds in integers/.test(text));
  }));
  await check('gains have no second figure of the outputs beside them', () => shows(() => {}, 'advice', async (text, page) => {
    assert.match(text, /25\.00 → 30\.00 dB, confirmed on up to 32 calibration samples: \+5\.00\sdB/);
    assert.deepEqual(await page.$$eval('#screen-advice table', (all) => [...all.find((t) => /observer/.test(t.rows[0].textContent)).rows].map((row) => row.cells[1].textContent)), ['gain over mse, dB', '–', '−5.00 ± 1.00']);
  }));
  await check('reasons of float operators name each operator once, and no option is broken', () => shows((r) => {
    r.float_ops = ['a', 'b', 'c', 'd'].map((name) => ({ name: `/${name}/Relu`, op: 'Relu', reason: 'left in float by --activation-type none' }));
    r.float_ops.push({ name: '/e/Add', op: 'Add', reason: 'left in float by --activation-type none' });
  }, 'graph', async (_, page) => {
    const cells = await page.$$eval('#screen-graph table tbody tr', (all) => all.map((row) => [...row.cells].map((c) => c.innerText)));
    assert.deepEqual(cells, [['left in float by --activation-type none', '4 Relu: /a/Relu, /b/Relu, /c/Relu, …\n1 Add: /e/Add']]);
    assert.equal(await page.$eval('#screen-graph td .option b', (e) => e.textContent), '--activation-type');
  }));
  await check('a box that only moves values has no error of its own', () => shows((r) => {
    const at = r.graph.length - 1, of = r.graph[at - 1];
    r.graph.splice(at, 0, { kind: 'integer', name: 'pool', op: 'MaxPool', shape: '[N,8,2,2]', inputs: [at - 1], layer: of.layer });
    r.graph.at(-1).inputs = [at];
  }, 'graph', async (_, page) => {
    await unfold(page);
    const boxes = await page.$$eval('.graph .box', (all) => all.filter((e) => e.checkVisibility()).map((e) => [...e.querySelectorAll('text')].map((t) => t.textContent)));
    assert.deepEqual(boxes.filter((b) => b[0] === 'MaxPool'), [['MaxPool', 'pool', '[N,8,2,2]']]);
    assert.ok(boxes.some((b) => b[0].startsWith('Conv') && / dB$/.test(b.at(-1))), JSON.stringify(boxes));
  }));
  fs.rmSync(folder, { recursive: true });
};

(async () => {
  const words = process.argv.slice(2), pictures = words[0] === '--pictures' ? words.splice(0, 2)[1] : null;
  const browser = await puppeteer.launch({ executablePath: process.env.CHROMIUM, headless: true, args: ['--no-sandbox', '--disable-gpu'] });
  for (const word of words) {
    if (word === '--made') {
      await checkMade(browser);
      continue;
    }
    const cut = word.indexOf('='), name = word.slice(0, cut), file = word.slice(cut + 1);
    if (name.startsWith('large:')) {
      await isLarge(browser, name, file, { search: 'stage400/conv', number: 1100 });
      continue;
    }
    await looks(browser, name, file, pictures, word === words[0] || isComparison(name));
    await fitsAPhone(browser, name, file);
    if (name.startsWith('runs:')) {
      await comparesRuns(browser, name, file);
      continue;
    }
    const compared = isComparison(name);
    await usesTable(browser, name, file, compared ? 'differing' : 'weight');
    if (compared) continue;
    await usesScreens(browser, name, file);
    await isWholeWithoutScript(browser, name, file);
    await usesEffects(browser, name, file);
    await usesGraph(browser, name, file);
  }
  await browser.close();
  process.exitCode = failed ? 1 : 0;
})();
