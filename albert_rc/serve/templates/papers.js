// The answers, and the display of papers.

let papers = [];
const SIGNS = { right: "✓", wrong: "✗", open: "" };
const settings = { below: 0.5 };

const indexOf = (letters) => [...letters].reduce((sum, sign) => sum * 26 + sign.charCodeAt(0) - 64, 0) - 1;

function understood(answered) {
  return answered.papers.map(({ id, kind, paper, questions }, index) => {
    const made = { id, kind, index, content: paper, article: null };
    made.questions = questions.map((question, number) => ({
      paper: made,
      number,
      printed: question.number,
      options: paper.options[number],
      text: paper.questions ? paper.questions[number] : "",
      gold: question.right === null ? -1 : indexOf(question.right),
      model: indexOf(question.answer),
      chosen: indexOf(question.answer),
      chances: question.probabilities,
    }));
    return made;
  });
}

function stateOf(question) {
  if (question.gold < 0) return "open";
  return question.chosen === question.gold ? "right" : "wrong";
}

const isCorrected = (question) => question.chosen !== question.model;
const isUnsure = (question) => !isCorrected(question) && question.chances[question.model] < settings.below;
const marksOf = (question) => (isCorrected(question) ? "✎" : isUnsure(question) ? "?" : "");

function classOf(question) {
  const more = isCorrected(question) ? " corrected" : isUnsure(question) ? " unsure" : "";
  return stateOf(question) + more;
}

// The description of an answer for screen readers.
function said(question) {
  const blank = question.paper.kind === "cloze";
  const state = stateOf(question);
  const word = shown(question.options[question.chosen]);
  return [
    `${blank ? "Blank" : "Question"} ${question.printed}, ${blank ? word : letter(question.chosen)}`,
    state === "open" ? "" : state + (state === "wrong" ? `, right answer ${shown(question.options[question.gold])}` : ""),
    isCorrected(question) ? "corrected" : percent(question.chances[question.chosen]),
    isUnsure(question) ? "unsure" : "",
  ].filter(Boolean).join("; ");
}

function fillBlank(chip, question) {
  const state = stateOf(question);
  chip.className = `blank ${classOf(question)}`;
  chip.setAttribute("aria-label", said(question));
  chip.replaceChildren(
    make("span", { class: "no" }, String(question.printed)),
    ...(SIGNS[state] ? [make("span", { class: "sign" }, SIGNS[state])] : []),
    make("bdi", { class: "word" }, shown(question.options[question.chosen])),
    ...(state === "wrong" ? [make("span", { class: "gold" }, " → ", make("bdi", {}, shown(question.options[question.gold])))] : []),
    ...(marksOf(question) ? [make("span", { class: "sign" }, marksOf(question))] : []),
  );
  return chip;
}

function clozeText(paper) {
  const passage = make("p", { class: "passage", dir: "auto" });
  // Each blank is one underscore, and nothing else is.
  paper.content.article.split("_").forEach((part, number) => {
    passage.append(make("span", { class: "text" }, part));
    if (number < paper.questions.length) {
      const chip = make("span", { role: "button", tabindex: "0", "aria-expanded": "false", "aria-haspopup": "dialog", "data-number": number });
      passage.append(fillBlank(chip, paper.questions[number]));
    }
  });
  return passage;
}

function fillQuestion(block, question) {
  const state = stateOf(question);
  block.className = `question ${classOf(question)}`;
  block.setAttribute("aria-label", said(question));
  block.querySelector(".ask").replaceChildren(
    make("span", { class: "no" }, String(question.printed)),
    ...(SIGNS[state] ? [make("span", { class: `sign ${state}` }, SIGNS[state])] : []),
    make("span", { class: "text" }, question.text),
    ...(marksOf(question) ? [make("span", { class: "sign mark" }, ` ${marksOf(question)}`)] : []),
  );
  return block;
}

function choiceQuestion(question) {
  const block = make("div", { role: "group", tabindex: "-1", "data-number": question.number },
    make("p", { class: "ask", dir: "auto" }), optionsTable(question));
  return fillQuestion(block, question);
}

function paperArticle(paper) {
  const title = `paper${paper.index}`;
  const article = make("article", { "data-index": paper.index, "aria-labelledby": title, tabindex: "-1" },
    make("header", {}, make("h3", { id: title }, make("bdi", {}, paper.id)), make("p", { class: "figures" })));
  if (paper.kind === "cloze") article.append(clozeText(paper));
  else {
    article.append(make("p", { class: "passage", dir: "auto" }, make("span", { class: "text" }, paper.content.article)),
      ...paper.questions.map(choiceQuestion));
  }
  paper.article = article;
  return article;
}
