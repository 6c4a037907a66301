'use strict';
// Tables that sort and filter, commands that can be copied: what every page has.
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
addEventListener('DOMContentLoaded', () => {
  const table = document.getElementById('layers'), rows = [...table.tBodies[0].rows];
  const heads = [...table.tHead.rows[0].cells], text = document.getElementById('filter'), kind = document.getElementById('kind');

  // Sorting: a cell's data-v, a number ('' is unknown and comes last), or its text.
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
    table.tBodies[0].append(...rows.toSorted?.(compare) ?? [...rows].sort(compare));
  };
  heads.forEach((h, column) => {
    const button = document.createElement('button');
    button.type = 'button';
    button.append(...h.childNodes);
    button.addEventListener('click', () => sort(column, h.getAttribute('aria-sort') === 'ascending'));
    h.append(button);
    h.setAttribute('aria-sort', column ? 'none' : 'ascending');
  });

  const filter = () => {
    const words = text.value.toLowerCase().split(/\s+/).filter(Boolean);
    let shown = 0;
    for (const row of rows) {
      const have = row.textContent.toLowerCase();
      row.hidden = !words.every((w) => have.includes(w)) || (kind.value && row.dataset.kind !== kind.value);
      shown += !row.hidden;
    }
    document.getElementById('shown').textContent = `${shown} of ${rows.length}`;
  };
  text.addEventListener('input', filter);
  kind.addEventListener('change', filter);
  filter();

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
