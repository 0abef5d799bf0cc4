// Keys, moving from mistake to mistake, printing, and the page's address.

const help = byId("help");

// Whether a stop comes after a question, in the order of the list.
function after(stop, here) {
  return stop.paper === here.paper ? stop.number > here.number : stop.paper.place > here.paper.place;
}

// The question to count from: the focused one, the last one, or the first that the window shows.
function startingPoint() {
  const here = questionAt(document.activeElement) || current;
  if (here && here.paper.shown) return here;
  const top = order.find((paper) => paper.shown && paper.article.getBoundingClientRect().bottom > 140);
  return top ? { paper: top, number: -1 } : null;
}

function move(step) {
  const here = startingPoint();
  if (!stops.length || !here) return;
  const later = stops.findIndex((stop) => after(stop, here));
  const next = later < 0 ? stops.length : later;
  const before = stops[next - 1] === here ? next - 2 : next - 1;
  show(stops[Math.max(0, Math.min(stops.length - 1, step > 0 ? next : before))]);
}

function show(question) {
  current = question;
  if (!question.paper.filled) draw(question.paper);
  const element = question.paper.article.querySelector(`[data-number="${question.number}"]`);
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
  const action = { j: () => move(1), k: () => move(-1), "/": () => form.elements.q.focus(), "?": () => help.showModal() }[event.key];
  if (!action) return;
  event.preventDefault();
  action();
}

function writeAddress() {
  const kept = [...new FormData(form)].filter(([name, value]) => value && !(name === "below" && value === "50"));
  const query = new URLSearchParams(kept).toString();
  try { history.replaceState(null, "", query ? `#${query}` : location.pathname + location.search); } catch { /* some browsers refuse for files */ }
}

function fillForm(query) {
  form.reset();
  for (const [name, value] of new URLSearchParams(query)) {
    const field = form.elements.namedItem(name);
    if (field && "value" in field) field.value = value;
  }
  changedForm();
}

function changedForm() {
  applyFilters();
  writeAddress();
}

function printAll() {
  closeDetails();
  for (const paper of papers) if (paper.shown && !paper.filled) draw(paper);
}

// Watching anew reports every paper once, and those far from the window are cleared.
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
document.addEventListener("click", (event) => {
  const link = event.target.closest("[data-set]");
  if (!link) return;
  fillForm(link.dataset.set);
  byId("papers").focus({ preventScroll: true });
  byId("papers").scrollIntoView();
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
let width = innerWidth;
addEventListener("resize", () => {
  if (innerWidth === width) return;
  width = innerWidth;
  guessHeights();
});

buildList();
listenForDetails(list);
if (location.hash.includes("=")) fillForm(location.hash.slice(1));
else applyFilters();
root.dataset.ready = "";
