// Large pages compress hidden parts: zlib, in base64, as the text of a script element that is never run.
const unpack = (script) => {
  const bytes = Uint8Array.from(atob(script.textContent), (c) => c.charCodeAt(0));
  return new Response(new Blob([bytes]).stream().pipeThrough(new DecompressionStream('deflate'))).text();
};
const isPacked = (section) => section.querySelector('script.packed') !== null;
const fill = async (section) => {
  const scripts = [...section.querySelectorAll('script.packed')], texts = await Promise.all(scripts.map(unpack));
  scripts.forEach((s, i) => {
    if (s.isConnected) s.insertAdjacentHTML('afterend', texts[i]);
    s.remove();
  });
  waiting.get(section)?.forEach((run) => run());
  waiting.delete(section);
};
