'use strict';
// Functions of all pages: sorting and filtering of tables, copying of commands.
document.documentElement.classList.add('js');
const addButton = (to, text, label, run) => {
  const b = document.createElement('button');
  b.type = 'button';
  b.textContent = text;
  b.setAttribute('aria-label', label);
  b.addEventListener('click', run);
  to.append(b);
  return b;
};
// Starts the functions of a section when its content exists: at once, or after packed.js has unpacked it.
const waiting = new Map();
const whenThere = (section, run) => {
  if (!section?.querySelector('script.packed')) run();
  else waiting.set(section, [...waiting.get(section) ?? [], run]);
};
// Makes the heads of a table buttons that sort its rows by a cell's data-v, a number ('' is unknown and last), or by its text.
const sortable = (table, rows, show) => {
  const heads = [...table.tHead.rows[0].cells];
  const value = (row, column) => row.cells[column].dataset.v ?? row.cells[column].textContent;
  const sort = (column, down) => {
    const number = heads[column].classList.contains('n');
    const compare = (a, b) => {
      const x = value(a, column), y = value(b, column);
      if (!number) return down ? y.localeCompare(x) : x.localeCompare(y);
      if (x === '' || y === '') return (x === '') - (y === '');
      return down ? y - x : x - y;
    };
    heads.forEach((h, k) => h.setAttribute('aria-sort', k === column ? (down ? 'descending' : 'ascending') : 'none'));
    show([...rows].sort(compare));
  };
  heads.forEach((h, column) => {
    const button = document.createElement('button');
    button.type = 'button';
    button.append(...h.childNodes);
    button.addEventListener('click', () => sort(column, h.getAttribute('aria-sort') === 'ascending'));
    h.append(button);
    h.setAttribute('aria-sort', column ? 'none' : 'ascending');
  });
};
// Returns whether a row has all words of a search.
const searches = () => {
  const known = new Map();
  return (row, words) => {
    if (!known.has(row)) known.set(row, row.textContent.toLowerCase());
    return words.every((w) => known.get(row).includes(w));
  };
};
const wordsOf = (input) => input.value.toLowerCase().split(/\s+/).filter(Boolean);
// The rows of the table in the shown order, including hidden ones; and a function that scrolls to a row.
const layerTable = { rows: [], reach: () => {} };
addEventListener('DOMContentLoaded', () => whenThere(document.getElementById('table'), () => {
  const ROWS = 1000, SOME = 200; // of more rows only some are drawn, and more when one scrolls there
  const table = document.getElementById('layers'), body = table.tBodies[0], rows = [...body.rows];
  const none = table.closest('.layers').nextElementSibling, text = document.getElementById('filter'), kind = document.getElementById('kind');

  let drawn = SOME;
  const draw = (count) => {
    if (rows.length <= ROWS) body.append(...layerTable.rows);
    else body.replaceChildren(...layerTable.rows.filter((r) => !r.hidden).slice(0, drawn = count));
  };
  layerTable.rows = rows;
  layerTable.reach = (row) => {
    if (!row.isConnected && !row.hidden) draw(layerTable.rows.filter((r) => !r.hidden).indexOf(row) + SOME);
    row.scrollIntoView({ block: 'nearest' });
  };
  if (rows.length > ROWS)
    table.parentElement.addEventListener('scroll', (e) => {
      const v = e.target;
      if (drawn < rows.length && v.scrollTop + 2 * v.clientHeight > v.scrollHeight) draw(drawn + SOME);
    }, { passive: true });

  sortable(table, rows, (sorted) => {
    layerTable.rows = sorted;
    draw(SOME);
  });

  const has = searches();
  const filter = () => {
    const words = wordsOf(text);
    let shown = 0;
    for (const row of rows) {
      row.hidden = !has(row, words) || (kind.value && row.dataset.kind !== kind.value);
      shown += !row.hidden;
    }
    document.getElementById('shown').textContent = `${shown} of ${rows.length}`;
    if (none?.classList.contains('none')) none.hidden = shown > 0 || !rows.length;
    draw(SOME);
  };
  text.addEventListener('input', filter);
  kind.addEventListener('change', filter);
  filter();
}));
addEventListener('DOMContentLoaded', () => whenThere(document.getElementById('effects'), () => {
  const table = document.getElementById('ranking');
  if (!table) return;
  const rows = [...table.tBodies[0].rows], tools = table.closest('.screen').querySelector('.tools');
  const input = tools.querySelector('input'), has = searches();
  sortable(table, rows, (sorted) => table.tBodies[0].append(...sorted));
  const filter = () => {
    for (const row of rows) row.hidden = !has(row, wordsOf(input));
    const shown = rows.filter((r) => !r.hidden).length;
    tools.querySelector('.shown').textContent = `${shown} of ${rows.length}`;
    table.closest('.layers').nextElementSibling.hidden = shown > 0;
  };
  input.addEventListener('input', filter);
  filter();
}));
addEventListener('DOMContentLoaded', () => {
  for (const code of document.querySelectorAll('.command code')) {
    const button = document.createElement('button');
    button.type = 'button';
    button.className = 'copy';
    button.textContent = 'Copy';
    button.addEventListener('click', async () => {
      try {
        await navigator.clipboard.writeText(code.textContent);
        button.textContent = 'Copied';
      } catch {
        getSelection().selectAllChildren(code);
        button.textContent = 'Selected';
      }
      setTimeout(() => { button.textContent = 'Copy'; }, 1500);
    });
    code.after(button);
  }
});
