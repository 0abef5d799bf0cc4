// Corrections: the reader's choices, their effects, and the summary figures.

let stops = [];
let current = null;
const unsaved = new Set(); // the kinds of papers with corrections that have not been downloaded
let changes = 0;

function choose(question, option) {
  if (option >= question.options.length || option === question.chosen) return;
  question.chosen = option;
  unsaved.add(question.paper.kind);
  changes += 1;
  redraw(question);
  showFigures();
}

function redraw(question) {
  const element = question.paper.article.querySelector(`[data-number="${question.number}"]`);
  if (question.paper.kind === "cloze") {
    fillBlank(element, question);
    if (owner === element) markRows(byId("details-body"), question);
  } else {
    fillQuestion(element, question);
    markRows(element, question);
  }
}

function figures(questions) {
  const known = questions.filter((question) => question.gold >= 0);
  const right = known.filter((question) => stateOf(question) === "right").length;
  const unsure = questions.filter(isUnsure).length;
  const corrected = questions.filter(isCorrected).length;
  return [
    known.length ? `${count(right)} of ${count(known.length)} right` : "",
    unsure ? `${count(unsure)} unsure` : "none unsure",
    corrected ? `${count(corrected)} corrected` : "",
  ].filter(Boolean);
}

function showFigures() {
  const questions = papers.flatMap((paper) => paper.questions);
  const blanks = questions.filter((question) => question.paper.kind === "cloze").length;
  byId("count").textContent = [
    plural(papers.length, "paper"),
    blanks ? plural(blanks, "blank") : "",
    questions.length - blanks ? plural(questions.length - blanks, "question") : "",
    ...figures(questions),
  ].filter(Boolean).join(" · ");
  for (const paper of papers) {
    const noun = paper.kind === "cloze" ? "blank" : "question";
    const parts = [plural(paper.questions.length, noun), ...figures(paper.questions)];
    paper.article.querySelector(".figures").textContent = parts.join(" · ");
  }
  const unsure = questions.filter(isUnsure);
  stops = unsure.length ? unsure : questions;
}

function setThreshold(value) {
  const share = Number(value);
  if (!(share >= 1 && share <= 100)) return;
  settings.below = Math.round(share) / 100;
  remember("below", String(share));
  for (const paper of papers) for (const question of paper.questions) redraw(question);
  showFigures();
}

const isAfter = (one, other) => (one.paper === other.paper ? one.number > other.number : one.paper.index > other.paper.index);

// Move to the next or previous unsure answer, by position, since a corrected one is no longer unsure.
function move(step) {
  const here = questionAt(document.activeElement) || (owner && questionAt(owner)) || current;
  const known = here && papers.includes(here.paper) ? here : null;
  let next = stops[0];
  if (known && step > 0) next = stops.find((stop) => isAfter(stop, known));
  if (known && step < 0) next = stops.findLast((stop) => isAfter(known, stop));
  if (next) show(next);
}

function show(question) {
  current = question;
  const element = question.paper.article.querySelector(`[data-number="${question.number}"]`);
  element.scrollIntoView({ block: "center" });
  element.focus({ preventScroll: true, focusVisible: true });
  if (element.matches(".blank")) { closeDetails(); openDetails(element, false); }
}

function questionOf(element) {
  return box.contains(element) ? owner && questionAt(owner) : questionAt(element);
}

function listenForCorrections() {
  document.addEventListener("change", (event) => {
    if (!event.target.matches(".options input[type=radio]")) return;
    const question = questionOf(event.target);
    kept = true; // the options stay open
    if (question) choose(question, Number(event.target.value));
  });
  document.addEventListener("click", (event) => {
    if (!event.target.closest("[data-back]")) return;
    const holder = event.target.closest(".choice");
    const question = questionOf(event.target);
    choose(question, question.model);
    // The button has disappeared, so the focus moves to the option.
    holder.querySelector("input:checked").focus({ preventScroll: true });
  });
  byId("below").addEventListener("input", (event) => setThreshold(event.target.value));
  byId("below").addEventListener("change", (event) => { event.target.value = Math.round(100 * settings.below); });
  byId("next").addEventListener("click", () => move(1));
  byId("previous").addEventListener("click", () => move(-1));
  addEventListener("beforeunload", (event) => { if (unsaved.size || request) event.preventDefault(); });
}
