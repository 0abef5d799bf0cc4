// The papers, with names for what `content.py` packs into lists.

const data = JSON.parse(document.getElementById("data").textContent);
const cloze = data.kind === "cloze";
const noun = cloze ? "blank" : "question";
const runs = data.runs.map((_, run) => run);
const SIGNS = { right: "✓", wrong: "✗", open: "○" };
const STATES = { right: "right", wrong: "wrong", open: "no gold" };

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

// The probability that the run gives an option, or null where it gave answers alone.
function chanceOf(question, run, option) {
  return question.chances[run] ? question.chances[run][option] / 10000 : null;
}

const confidence = (question, run) => chanceOf(question, run, question.chosen[run]);

function changed(question) {
  return runs.length > 1 && question.chosen[0] !== question.chosen[1];
}

// What the last filter asked for; `paper.js` dims what does not match and marks what was sought.
// `run` is whose answers the filters, the order and the keys go by.
const filter = { active: false, decides: false, words: "", below: 0.5, view: "", run: 0 };

function isUnsure(question, run) {
  const sure = confidence(question, run);
  return sure !== null && sure < filter.below;
}
