// While a run goes on, its page follows it: the Exchange says when something happened (server-sent events), and the page
// is fetched again and what changed in it is put in place. Where no events come, it looks by itself now and then. What
// the reader has opened stays open, what is unchanged is left alone, and a page that nobody looks at asks for nothing.

const KINDS = ["session", "update", "evidence", "session_end", "queued", "cancelled", "outcome"];
const AT_MOST_EVERY_MS = 1000;
const WITHOUT_EVENTS_EVERY_MS = 5000;

const OPEN = 1; // EventSource has these names, where there is one.
const CLOSED = 2;

let stream = null;
let asked = false;
let shownAt = 0;

const address = () => document.querySelector("main [data-events]")?.dataset.events;

async function freshContent() {
  const response = await fetch(location.pathname, { cache: "no-store" });
  if (!response.ok) return null;
  return new DOMParser().parseFromString(await response.text(), "text/html").querySelector("main");
}

function openAsBefore(fresh, shown) {
  for (const { id } of shown.querySelectorAll("details[open][id]")) {
    fresh.querySelector(`#${CSS.escape(id)}`)?.setAttribute("open", "");
  }
}

function isSelecting(part) {
  const selection = getSelection();
  return !selection.isCollapsed && selection.containsNode(part, true);
}

// Parts are the children of main. Those that have an id on both sides are changed one by one.
function show(fresh) {
  const shown = document.querySelector("main");
  openAsBefore(fresh, shown);
  const ids = (main) => [...main.children].map((part) => part.id || part.className || part.tagName).join(" ");
  if (ids(fresh) !== ids(shown)) {
    shown.replaceWith(document.adoptNode(fresh));
    return;
  }
  const parts = [...fresh.children];
  [...shown.children].forEach((part, place) => {
    if (part.outerHTML === parts[place].outerHTML || isSelecting(part)) return;
    const focused = part.contains(document.activeElement) ? document.activeElement.getAttribute("href") : null;
    part.replaceWith(document.adoptNode(parts[place]));
    if (focused) parts[place].querySelector(`[href="${CSS.escape(focused)}"]`)?.focus({ preventScroll: true });
  });
}

function tell() {
  const said = document.querySelector("#outcome .verdict")?.textContent ?? "";
  const teller = document.querySelector("#live-state");
  if (teller && teller.textContent !== said) teller.textContent = said;
}

async function look() {
  asked = false;
  shownAt = Date.now();
  try {
    const fresh = await freshContent();
    if (fresh) show(fresh);
    tell();
  } catch {
    // The Exchange is away for a moment; the next event or round asks again.
  }
  if (!address()) leave();
}

// However many events come at once, the page is fetched once for all of them.
function lookSoon() {
  if (asked || document.hidden) return;
  asked = true;
  setTimeout(look, Math.max(0, shownAt + AT_MOST_EVERY_MS - Date.now()));
}

function leave() {
  stream?.close();
  stream = null;
}

function follow() {
  if (stream || document.hidden || !address() || !window.EventSource) return;
  stream = new EventSource(address());
  for (const kind of KINDS) stream.addEventListener(kind, lookSoon);
}

document.addEventListener("visibilitychange", () => {
  if (document.hidden) leave();
  else {
    lookSoon();
    follow();
  }
});

setInterval(() => {
  if (!address()) return;
  if (stream?.readyState !== OPEN) lookSoon();
  if (stream?.readyState === CLOSED) leave();
  follow();
}, WITHOUT_EVENTS_EVERY_MS);

follow();
