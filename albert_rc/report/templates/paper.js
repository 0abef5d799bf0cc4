// A paper as a reader sees it.

// Text with what was searched for marked, each piece kept apart from its neighbours' direction.
const segment = (text, places = placesIn([text])[0]) => make("span", { class: "text" }, ...marked(text, places));

// The description of an answer for screen readers.
function said(question, run) {
  const state = stateOf(question, run);
  const sure = confidence(question, run);
  const number = question.number + 1;
  return [
    cloze ? `Blank ${number}, ${chosenText(question, run)}` : `Question ${number}`,
    !cloze && question.chosen[run] < 0 ? "no answer" : "",
    STATES[state] + (state === "wrong" ? `, right answer ${shown(question.options[question.gold])}` : ""),
    sure === null ? "" : percent(sure) + (isUnsure(question, run) ? ", unsure" : ""),
    changed(question) ? "the runs differ" : "",
  ].filter(Boolean).join("; ");
}

const signs = (question, run) => (
  (isUnsure(question, run) ? "?" : "") + (changed(question) ? "⇄" : "")
);

function blank(question, run, chosenAt, rightAt) {
  const state = stateOf(question, run);
  const chip = make("span", {
    class: `blank ${state}${question.match ? "" : " dim"}`,
    role: "button",
    tabindex: "0",
    "aria-label": said(question, run),
    "aria-expanded": "false",
    "data-number": question.number,
  });
  chip.append(
    make("span", { class: "no" }, String(question.number + 1)),
    make("span", { class: "sign" }, SIGNS[state]),
    make("bdi", { class: "word" }, ...marked(chosenText(question, run), chosenAt)),
  );
  if (state === "wrong") {
    const right = marked(shown(question.options[question.gold]), rightAt);
    chip.append(make("span", { class: "gold" }, " → ", make("bdi", {}, ...right)));
  }
  const marks = signs(question, run);
  if (marks) chip.append(make("span", { class: "sign" }, marks));
  return chip;
}

function clozeText(paper, run) {
  const passage = make("p", { class: "passage", dir: "auto" });
  const chosen = placesIn(reading(paper, (question) => question.chosen[run]));
  const right = placesIn(reading(paper, (question) => question.gold));
  paper.parts.forEach((part, number) => {
    // A sentence may be found with the word that was chosen in it, or with the right one.
    passage.append(segment(part, chosen[2 * number].length ? chosen[2 * number] : right[2 * number]));
    const place = 2 * number + 1;
    if (number < paper.questions.length) passage.append(blank(paper.questions[number], run, chosen[place], right[place]));
  });
  return passage;
}

function optionsTable(question) {
  const head = make("tr", {}, make("th", { scope: "col" }, make("span", { class: "away" }, "letter")),
    make("th", { scope: "col" }, make("span", { class: "away" }, "option")));
  for (const run of runs) {
    const title = runs.length > 1 ? data.runs[run] : question.chances[run] ? "probability" : "answer";
    head.append(make("th", { scope: "col" }, make("bdi", {}, title)));
  }
  const body = make("tbody");
  question.options.forEach((option, number) => {
    const right = number === question.gold;
    const row = make("tr", { class: right ? "gold" : null }, make("th", { scope: "row" }, letter(number)));
    const text = make("td", { class: "option" }, make("bdi", {}, segment(shown(option))));
    if (right) text.append(make("span", { class: "is" }, " right"));
    row.append(text);
    for (const run of runs) row.append(chanceCell(question, run, number));
    body.append(row);
  });
  return make("table", { class: `options${runs.length > 1 ? " two" : ""}` },
    make("caption", { class: "away" }, `Options of ${noun} ${question.number + 1}`),
    make("thead", {}, head), body);
}

function chanceCell(question, run, option) {
  const cell = make("td", { class: "chance" });
  const chance = chanceOf(question, run, option);
  if (question.chosen[run] === option) {
    const state = stateOf(question, run);
    cell.classList.add("chosen", state);
    cell.append(make("span", { class: "sign" }, SIGNS[state]), make("span", { class: chance === null ? null : "away" }, " chosen "));
  }
  if (chance !== null) {
    const fill = make("span", { class: "fill" });
    fill.style.setProperty("width", `${100 * chance}%`);
    cell.append(make("span", { class: "percent" }, percent(chance)), make("span", { class: "meter", "aria-hidden": "true" }, fill));
  }
  return cell;
}

function choiceQuestion(question) {
  const state = stateOf(question, filter.run);
  const ask = make("p", { class: "ask", dir: "auto" },
    make("span", { class: "no" }, String(question.number + 1)),
    make("span", { class: `sign ${state}` }, SIGNS[state]), make("span", { class: "away" }, ` ${STATES[state]}: `),
    segment(question.text));
  const marks = signs(question, filter.run);
  if (marks) ask.append(make("span", { class: "sign" }, ` ${marks}`));
  if (question.chosen[filter.run] < 0) ask.append(make("small", {}, " (no answer)"));
  return make("div", {
    class: `question ${state}${question.match ? "" : " dim"}`,
    role: "group", tabindex: "-1", "aria-label": said(question, filter.run), "data-number": question.number,
  }, ask, optionsTable(question));
}

function figuresOf(paper, run) {
  const known = paper.questions.filter((question) => question.gold >= 0);
  const parts = [];
  if (known.length) {
    const right = known.filter((question) => stateOf(question, run) === "right").length;
    parts.push(`${right} of ${known.length} right`);
  }
  if (paper.losses[run] !== null) parts.push(`loss ${paper.losses[run].toFixed(2)}`);
  return parts.join(", ");
}

// Whether all blanks have the same options, as in a word bank.
function hasOneList(paper) {
  const [first, ...others] = paper.questions;
  return cloze && others.length > 1 && others.every((question) => (
    question.options.length === first.options.length
    && question.options.every((option, number) => option === first.options[number])));
}

function heading(paper) {
  const first = paper.questions[0];
  const about = data.slices
    .filter(([kind]) => ["level", "passage length", "overlap with training"].includes(kind))
    .map(([kind, names]) => names[first.groups[data.slices.findIndex((slice) => slice[0] === kind)]])
    .filter((name) => name && name !== "not in training");
  if (hasOneList(paper)) about.push(`one list of ${first.options.length} options for all blanks`);
  return make("header", {},
    make("h3", { id: `paper${paper.index}` }, make("bdi", {}, ...marked(paper.id, placesIn([paper.id])[0]))),
    make("p", {}, [runs.length > 1 ? "" : figuresOf(paper, 0), ...about, whereFound(paper)].filter(Boolean).join(" · ")));
}

// Options that were not chosen are not visible, so matches in them are reported.
function whereFound(paper) {
  if (!filter.words || !cloze || inText(paper)) return "";
  const numbers = paper.questions.filter(inOptions).map((question) => question.number + 1);
  return `found among the options of ${noun}${numbers.length > 1 ? "s" : ""} ${numbers.join(", ")}`;
}

function paperContent(paper) {
  const content = [heading(paper)];
  if (!cloze) {
    if (runs.length > 1) {
      content.push(make("p", { class: "which" }, ...runs.flatMap((run) => (
        [run ? " · " : "", make("bdi", { class: "run" }, data.runs[run]), ` ${figuresOf(paper, run)}`]))));
    }
    content.push(make("p", { class: "passage", dir: "auto" }, segment(paper.parts[0])));
    content.push(...paper.questions.map(choiceQuestion));
    return content;
  }
  const views = shownRuns();
  const columns = views.map((run) => make("div", { class: "column", role: runs.length > 1 ? "group" : null, "aria-label": runs.length > 1 ? data.runs[run] : null },
    runs.length > 1 ? make("p", { class: "which" }, make("bdi", { class: "run" }, data.runs[run]), ` ${figuresOf(paper, run)}`) : null,
    clozeText(paper, run)));
  content.push(make("div", { class: views.length > 1 ? "columns" : null }, ...columns));
  return content;
}
