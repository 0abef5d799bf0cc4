// The papers, with names for the values that `content.py` packs into lists.

const data = JSON.parse(document.getElementById("data").textContent);
const cloze = data.kind === "cloze";
const noun = cloze ? "blank" : "question";
const runs = data.runs.map((_, run) => run);
const SIGNS = { right: "✓", wrong: "✗", open: "○" };
const STATES = { right: "right", wrong: "wrong", open: "no key" };

const papers = data.papers.map(([id, losses, parts, questions], index) => {
  const paper = { id, losses, parts, index, shown: true, article: null, filled: false };
  paper.questions = questions.map(([options, gold, chosen, chances, groups, text], number) => (
    { paper, number, options, gold, chosen, chances, groups, text: text || "", match: true }
  ));
  return paper;
});
data.papers = null;

const mean = (values) => values.reduce((sum, value) => sum + value, 0) / values.length;

function stateOf(question, run) {
  if (question.gold < 0) return "open";
  return question.chosen[run] === question.gold ? "right" : "wrong";
}

// The option that a run chose, or a note that it chose none, as a pupil may.
const chosenText = (question, run) => (
  question.chosen[run] < 0 ? "no answer" : shown(question.options[question.chosen[run]])
);

// The probability that a run gives an option, or null if it only has answers.
function chanceOf(question, run, option) {
  return question.chances[run] ? question.chances[run][option] / 10000 : null;
}

const confidence = (question, run) => chanceOf(question, run, question.chosen[run]);

function changed(question) {
  return runs.length > 1 && question.chosen[0] !== question.chosen[1];
}

// The current filter; `paper.js` dims questions that do not match, and marks the searched words.
// `run` is the run whose answers the filters, the order and the keys use.
const filter = { active: false, decides: false, words: "", below: 0.5, view: "", run: 0 };

function isUnsure(question, run) {
  const sure = confidence(question, run);
  return sure !== null && sure < filter.below;
}
