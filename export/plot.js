// Describes the point nearest to the pointer.
addEventListener('DOMContentLoaded', () => whenThere(document.getElementById('screen-plot'), () => {
  const words = document.getElementById('plot-readout'), hover = matchMedia('(hover: hover) and (min-width: 761px)').matches;
  for (const svg of document.querySelectorAll('#screen-plot svg.points')) {
    const points = [...svg.querySelectorAll('a')].map((a) => ({ a, x: Number(a.dataset.x), text: a.querySelector('title').textContent }));
    let near = null;
    const nearest = (e) => {
      const box = svg.getBoundingClientRect(), x = (e.clientX - box.left) * (svg.viewBox.baseVal.width / box.width);
      return points.reduce((best, p) => (Math.abs(p.x - x) < Math.abs(best.x - x) ? p : best), points[0]);
    };
    const mark = (p) => {
      if (p === near) return;
      near?.a.classList.remove('near');
      near = p;
      p.a.classList.add('near');
      words.textContent = p.text;
    };
    svg.addEventListener('pointermove', (e) => mark(nearest(e)));
    svg.addEventListener('click', (e) => {
      if (e.target.closest('a')) return;
      mark(nearest(e));
      near.a.dispatchEvent(new MouseEvent('click', { bubbles: true, cancelable: true, detail: 1 }));
    });
    points.forEach((p) => p.a.querySelector('title').remove()); // the browser's own hint would lie over the plot
    points.forEach((p) => p.a.setAttribute('aria-label', p.text));
  }
  // Marks the open layer, and scrolls the plot to it.
  document.addEventListener('screen', () => {
    const { screen, layer } = document.body.dataset;
    for (const a of document.querySelectorAll('#screen-plot svg.points a')) {
      const open = screen === 'plot' && a.getAttribute('href') === `#L${layer}`, scroll = a.closest('.scroll');
      a.classList.toggle('open', open);
      if (!open || scroll.scrollWidth <= scroll.clientWidth) continue;
      const point = a.getBoundingClientRect(), box = scroll.getBoundingClientRect();
      if (point.left < box.left || point.right > box.right) scroll.scrollLeft += point.left - box.left - box.width / 2;
    }
  });
  if (words) words.textContent = hover ? 'Point at a layer for its figures; click to open it.' : 'Tap a layer to open it.';
}));
