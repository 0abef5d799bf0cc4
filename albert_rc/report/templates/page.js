// Keys, moving from mistake to mistake, printing, and the page's address.

const help = byId("help");

// Whether a stop comes after a question, in the order of the list.
function after(stop, here) {
  return stop.paper === here.paper ? stop.number > here.number : stop.paper.place > here.paper.place;
}

// The stop to count from: the focused question or the last stop, as long as the window shows its
// paper; else what comes first in the window.
function startingPoint() {
  const seen = (stop) => {
    const { top, bottom } = stop.paper.article.getBoundingClientRect();
    return stop.paper.shown && bottom > 0 && top < innerHeight;
  };
  const here = [questionAt(document.activeElement), current].find((stop) => stop && seen(stop));
  if (here) return here;
  const first = order.find((paper) => paper.shown && paper.article.getBoundingClientRect().bottom > 140);
  return first ? { paper: first, number: -2 } : null;
}

function move(step) {
  const here = startingPoint();
  if (!stops.length || !here) return;
  const later = stops.findIndex((stop) => after(stop, here));
  const next = later < 0 ? stops.length : later;
  const before = stops[next - 1] === here ? next - 2 : next - 1;
  show(stops[Math.max(0, Math.min(stops.length - 1, step > 0 ? next : before))]);
}

function show(stop) {
  current = stop;
  const article = stop.paper.article;
  if (!stop.paper.filled) draw(stop.paper);
  if (stop.number < 0) {
    article.focus({ preventScroll: true });
    const place = () => (article.querySelector("mark") || article).scrollIntoView({ block: "center" });
    place();
    requestAnimationFrame(() => requestAnimationFrame(place));
    return;
  }
  const element = article.querySelector(`[data-number="${stop.number}"]`);
  element.scrollIntoView({ block: "center" });
  element.focus({ preventScroll: true, focusVisible: true });
  // Papers that come near are drawn now, and may push it away.
  requestAnimationFrame(() => requestAnimationFrame(() => {
    element.scrollIntoView({ block: "center" });
    if (element.matches(".blank")) { closeDetails(); openDetails(element, false); }
  }));
}

function onKey(event) {
  if (event.key === "Escape") {
    closeDetails();
    return;
  }
  const typing = event.target.closest && event.target.closest("input:not([type=checkbox]), select, textarea");
  if (typing || help.open || event.ctrlKey || event.metaKey || event.altKey || !byId("keys").checked) return;
  const action = { j: () => move(1), k: () => move(-1), "/": () => form.elements.q.focus(), "?": () => help.showModal() }[event.key.toLowerCase()];
  if (!action) return;
  event.preventDefault();
  action();
}

function writeAddress() {
  const kept = [...new FormData(form)].filter(([name, value]) => value && !(name === "below" && value === "50"));
  const query = new URLSearchParams(kept).toString();
  try { history.replaceState(null, "", query ? `#${query}` : location.pathname + location.search); } catch { /* some browsers refuse for files */ }
}

// An address of another report may name filters that do not exist here.
function fillForm(query) {
  form.reset();
  for (const [name, value] of new URLSearchParams(query)) {
    const field = form.elements.namedItem(name);
    const choices = field && field.options ? [...field.options].map((option) => option.value) : [value];
    if (field && "value" in field && choices.includes(value)) field.value = value;
  }
  changedForm();
}

function readAddress() {
  if (!location.hash.includes("=")) return false;
  fillForm(location.hash.slice(1));
  return true;
}

function changedForm() {
  const { below } = form.elements;
  if (below) below.value = Math.max(1, Math.min(100, Math.round(Number(below.value)) || 50));
  applyFilters();
  writeAddress();
}

// Filters are not visible in print, so they are described in words.
function sayFilters() {
  const set = [...form.elements].filter((field) => field.name && field.value && field.name !== "below" && !field.disabled);
  const said = set.map((field) => {
    const label = field.closest("label").firstChild.textContent.trim();
    const below = field.name === "certainty" ? ` (below ${form.elements.below.value}%)` : "";
    return field.name === "q" ? `with \u201c${field.value}\u201d` : `${label}: ${field.selectedOptions[0].textContent}${below}`;
  });
  const legend = ["✓ right", "✗ wrong → right answer", "○ no key", ...(form.elements.below ? [`? below ${form.elements.below.value}%`] : []), ...(runs.length > 1 ? ["⇄ the runs differ"] : [])];
  byId("printed").textContent = `${[byId("count").textContent, ...said].join(" · ")}. ${legend.join(", ")}.`;
}

function printAll() {
  closeDetails();
  sayFilters();
  for (const paper of papers) if (paper.shown && !paper.filled) draw(paper);
}

// Observing again reports every paper once, so that those far from the window are cleared.
function printed() {
  for (const paper of papers) {
    observer.unobserve(paper.article);
    observer.observe(paper.article);
  }
}

byId("help-open").addEventListener("click", () => help.showModal());
byId("keys").checked = remembered("keys") !== "off";
byId("keys").addEventListener("change", (event) => remember("keys", event.target.checked ? "on" : "off"));
byId("more").addEventListener("click", (event) => {
  const open = byId("choices").classList.toggle("open");
  event.currentTarget.setAttribute("aria-expanded", String(open));
});
byId("next").addEventListener("click", () => move(1));
byId("previous").addEventListener("click", () => move(-1));
document.addEventListener("keydown", onKey);
function toPapers() {
  byId("papers").focus({ preventScroll: true });
  byId("papers").scrollIntoView();
}

document.addEventListener("click", (event) => {
  const link = event.target.closest("[data-set]");
  if (!link) return;
  fillForm(link.dataset.set);
  toPapers();
});
// The address contains the filters: a jump within the page must not replace them.
document.querySelector(".skip").addEventListener("click", (event) => {
  event.preventDefault();
  toPapers();
});

let waiting = 0;
form.addEventListener("submit", (event) => event.preventDefault());
form.addEventListener("change", (event) => { if (event.target.name !== "q") changedForm(); });
form.addEventListener("input", (event) => {
  if (event.target.name !== "q") return;
  clearTimeout(waiting);
  waiting = setTimeout(changedForm, 150);
});
addEventListener("beforeprint", printAll);
addEventListener("afterprint", printed);
addEventListener("hashchange", readAddress);
// Below 1080 pixels of width the bar is above the papers, and must not cover the focused element.
new ResizeObserver(([entry]) => {
  const above = getComputedStyle(byId("papers")).display === "block";
  root.style.setProperty("scroll-padding-top", above ? `${Math.min(entry.borderBoxSize[0].blockSize + 8, innerHeight / 2)}px` : "0");
}).observe(document.querySelector(".bar"));
onNewWidth(guessHeights);

buildList();
listenForDetails(list);
if (!readAddress()) applyFilters();
root.dataset.ready = "";
