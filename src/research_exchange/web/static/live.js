// While a run is going on, fetch its page again every few seconds and show what is new. What the reader has opened
// stays open, and a page without news stays as it is.

const PAUSE_MS = 3000;

async function freshContent() {
  const response = await fetch(location.pathname, { cache: "no-store" });
  if (!response.ok) return null;
  return new DOMParser().parseFromString(await response.text(), "text/html").querySelector("main");
}

function show(fresh) {
  const shown = document.querySelector("main");
  for (const { id } of shown.querySelectorAll("details[open]")) {
    fresh.querySelector(`#${CSS.escape(id)}`)?.setAttribute("open", "");
  }
  if (fresh.innerHTML !== shown.innerHTML) shown.replaceWith(document.adoptNode(fresh));
}

async function follow() {
  if (!document.querySelector("main [data-live]")) return;
  try {
    const fresh = await freshContent();
    if (fresh) show(fresh);
  } catch {
    // The Exchange is away for a moment; the next round asks again.
  }
  setTimeout(follow, PAUSE_MS);
}

setTimeout(follow, PAUSE_MS);
