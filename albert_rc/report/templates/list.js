// Filters, order, and the list of papers; only papers near the window are drawn.

const form = byId("filters");
const list = byId("list");
const MARGIN = 1500; // pixels above and below the window
let order = papers;
let stops = [];
let current = null;

function draw(paper) {
  paper.filled = true;
  paper.article.replaceChildren(...paperContent(paper));
  paper.article.setAttribute("aria-labelledby", `paper${paper.index}`);
  paper.article.style.removeProperty("min-height");
}

function clear(paper, height) {
  if (paper.article.contains(document.activeElement) || paper.article.contains(owner)) return;
  paper.filled = false;
  paper.article.removeAttribute("aria-labelledby");
  paper.article.replaceChildren();
  paper.article.style.setProperty("min-height", `${height}px`);
}

const observer = new IntersectionObserver((entries) => {
  const leaving = [];
  const answer = focusedInView();
  for (const entry of entries) {
    const paper = papers[Number(entry.target.dataset.index)];
    if (entry.isIntersecting && !paper.filled) draw(paper);
    else if (!entry.isIntersecting && paper.filled && paper.shown) leaving.push(paper);
  }
  // All heights first: reading between writes would lay the page out again each time.
  const heights = leaving.map((paper) => paper.article.offsetHeight);
  leaving.forEach((paper, number) => clear(paper, heights[number]));
  // Papers drawn above or below may have pushed the focused answer out of the window.
  if (answer) requestAnimationFrame(() => requestAnimationFrame(() => keepInView(answer)));
}, { rootMargin: `${MARGIN}px 0px` });

const listWidth = () => list.clientWidth || 800;

// Estimated height of a paper, so that the scroll bar is right before the paper is drawn.
function estimate(paper, width) {
  const views = cloze && runs.length > 1 && filter.view === "" && width > 900 ? 2 : 1;
  const letters = paper.parts.reduce((sum, part) => sum + part.length, 0) + (cloze ? 16 * paper.questions.length : 0);
  const lines = Math.ceil((letters * 8.3) / Math.min(680, width / views - 40));
  const asked = cloze ? 0 : paper.questions.reduce((sum, question) => sum + 70 + 31 * question.options.length, 0);
  return 110 + 31 * lines + asked;
}

function guessHeights() {
  const width = listWidth();
  for (const paper of papers) {
    if (!paper.filled) paper.article.style.setProperty("min-height", `${estimate(paper, width)}px`);
  }
}

function buildList() {
  for (const paper of papers) {
    paper.article = make("article", { "data-index": paper.index, tabindex: "-1" });
  }
  guessHeights();
  list.append(...papers.map((paper) => paper.article));
  for (const paper of papers) observer.observe(paper.article);
}

const ANSWERS = {
  wrong: (question) => stateOf(question, filter.run) === "wrong",
  right: (question) => stateOf(question, filter.run) === "right",
  open: (question) => question.gold < 0,
};
const CHANGES = {
  changed,
  gained: (question) => stateOf(question, 0) === "right" && stateOf(question, 1) === "wrong",
  lost: (question) => stateOf(question, 0) === "wrong" && stateOf(question, 1) === "right",
  both: (question) => stateOf(question, 0) === "wrong" && stateOf(question, 1) === "wrong",
};
const CERTAINTY = {
  unsure: (question) => isUnsure(question, filter.run),
  sure: (question) => confidence(question, filter.run) !== null && !isUnsure(question, filter.run),
};

// The conditions on a question, one for each active filter.
function tests(values) {
  const found = [ANSWERS[values.get("answer")], CERTAINTY[values.get("certainty")], CHANGES[values.get("change")]];
  data.slices.forEach(([kind, names], slice) => {
    const group = names.indexOf(values.get(kind));
    if (group >= 0) found.push((question) => question.groups[slice] === group);
  });
  return found.filter(Boolean);
}

// Filters and orders by probability are available only if the run has probabilities.
function offer(run) {
  const scored = papers.some((paper) => paper.questions.some((question) => question.chances[run]));
  const asked = form.elements;
  for (const field of [asked.certainty, asked.below]) if (field) field.disabled = !scored;
  for (const option of asked.order.options) {
    if (option.value === "loss" || option.value === "unsure") option.disabled = !scored;
  }
  if (asked.order.selectedOptions[0].disabled) asked.order.value = "";
}

const share = (paper, test) => paper.questions.filter(test).length / paper.questions.length;
const ORDERS = {
  loss: (paper) => paper.losses[filter.run] ?? -1,
  wrong: (paper) => share(paper, ANSWERS.wrong),
  unsure: (paper) => 1 - mean(paper.questions.map((question) => confidence(question, filter.run) ?? 1)),
  changed: (paper) => share(paper, changed),
};

function arrange(by) {
  const key = ORDERS[by];
  const keys = key ? papers.map(key) : null;
  const next = key ? [...papers].sort((a, b) => keys[b.index] - keys[a.index] || a.index - b.index) : papers;
  if (next.every((paper, place) => paper === order[place])) return;
  order = next;
  list.append(...order.map((paper) => paper.article));
}

function applyFilters() {
  closeDetails();
  filter.view = form.elements.view ? form.elements.view.value : "";
  filter.run = filter.view === "1" ? 1 : 0;
  offer(filter.run);
  const values = new FormData(form);
  const below = Number(values.get("below"));
  filter.below = below > 0 ? below / 100 : 0.5;
  filter.words = fold(values.get("q") || "").trim();
  const asked = tests(values);
  filter.active = asked.length > 0;
  // If the filter selects by correctness, the share of right answers is not shown.
  filter.decides = Boolean(values.get("answer") || (values.get("change") && values.get("change") !== "changed"));
  for (const paper of papers) {
    const fits = !filter.words || inText(paper) || paper.questions.some(inOptions);
    let any = false;
    for (const question of paper.questions) {
      question.match = fits && asked.every((test) => test(question));
      any ||= question.match;
    }
    paper.shown = any;
  }
  arrange(values.get("order"));
  const width = listWidth();
  for (const paper of papers) {
    paper.article.hidden = !paper.shown;
    if (paper.filled && paper.shown) draw(paper);
    else if (paper.filled) clear(paper, estimate(paper, width));
  }
  current = null;
  findStops();
  report();
}

// Where the keys stop: at mistakes, at search results, or at questions that match the filter.
function findStops() {
  const seen = order.filter((paper) => paper.shown);
  seen.forEach((paper, place) => {
    paper.place = place;
    paper.article.setAttribute("aria-posinset", place + 1);
    paper.article.setAttribute("aria-setsize", seen.length);
  });
  if (filter.words && !filter.active) {
    stops = seen.flatMap((paper) => [...(inText(paper) ? [{ paper, number: -1 }] : []), ...paper.questions.filter(inOptions)]);
    return;
  }
  const matching = seen.flatMap((paper) => paper.questions.filter((question) => question.match));
  const wrong = filter.active ? [] : matching.filter(ANSWERS.wrong);
  stops = wrong.length ? wrong : matching;
}

function rightShare(questions, run) {
  const right = questions.filter((question) => stateOf(question, run) === "right").length;
  return `${((100 * right) / questions.length).toFixed(1)}%`;
}

function report() {
  const seen = order.filter((paper) => paper.shown);
  const matching = seen.flatMap((paper) => paper.questions.filter((question) => question.match));
  const known = matching.filter((question) => question.gold >= 0);
  const total = papers.reduce((sum, paper) => sum + paper.questions.length, 0);
  const parts = [`${count(seen.length)} of ${plural(papers.length, "paper")}`, `${count(matching.length)} of ${plural(total, noun)}`];
  if (known.length && !filter.decides) parts.push(`${runs.map((run) => rightShare(known, run)).join(" and ")} right`);
  byId("count").textContent = parts.join(" · ");
  byId("nothing").hidden = seen.length > 0;
}
