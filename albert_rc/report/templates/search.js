// Search that ignores case, accents, kinds of quotes and dashes, and amounts of white space.

const GAP = "\u0000"; // between texts that do not follow one another

const fold = (text) => text.normalize("NFKD").replace(/\p{M}+/gu, "").toLowerCase()
  .replace(/[\u2018\u2019\u02bc]/gu, "'").replace(/[\u201c-\u201f]/gu, '"').replace(/[\u2010-\u2015\u2212]/gu, "-").replace(/\s+/gu, " ");

// A paper's text in pieces, with options in its blanks: a run's, or the right ones.
function reading(paper, optionOf) {
  if (!cloze) return paper.parts;
  return paper.parts.flatMap((part, number) => {
    const question = paper.questions[number];
    return question ? [part, shown(question.options[optionOf(question)] ?? "_")] : [part];
  });
}

const shownRuns = () => runs.filter((run) => !cloze || filter.view === "" || Number(filter.view) === run);
const readings = (paper) => [...shownRuns().map((run) => reading(paper, (question) => question.chosen[run])),
  reading(paper, (question) => question.gold)];

// The searchable text of a paper, and separately the options of every question.
function sought(paper) {
  if (paper.sought === undefined || paper.sought.view !== filter.view) {
    const texts = new Set([...readings(paper).map((pieces) => pieces.join("")), paper.parts.join("_"), paper.id]);
    paper.sought = {
      view: filter.view,
      text: fold([...texts, ...paper.questions.map((question) => question.text)].join(GAP)),
      options: paper.questions.map((question) => fold(question.options.join(GAP))),
    };
  }
  return paper.sought;
}

const inText = (paper) => sought(paper).text.includes(filter.words);
const inOptions = (question) => sought(question.paper).options[question.number].includes(filter.words);

// Positions of the searched words in pieces of a text, also across pieces: [from, to] per piece.
function placesIn(pieces) {
  const places = pieces.map(() => []);
  if (!filter.words) return places;
  let folded = "";
  const origins = [];
  pieces.forEach((piece, number) => {
    let at = 0;
    for (const sign of piece) {
      let same = fold(sign);
      if (same === " " && folded.endsWith(" ")) same = "";
      for (let i = 0; i < same.length; i++) origins.push([number, at, at + sign.length]);
      folded += same;
      at += sign.length;
    }
  });
  for (let from = folded.indexOf(filter.words); from >= 0; from = folded.indexOf(filter.words, from + filter.words.length)) {
    for (const [number, start, end] of origins.slice(from, from + filter.words.length)) {
      const last = places[number].at(-1);
      if (last && start <= last[1]) last[1] = Math.max(last[1], end);
      else places[number].push([start, end]);
    }
  }
  return places;
}

// Text with places in it marked.
function marked(text, places) {
  const pieces = [];
  let at = 0;
  for (const [start, end] of places) {
    pieces.push(text.slice(at, start), make("mark", {}, text.slice(start, end)));
    at = end;
  }
  return [...pieces, text.slice(at)];
}
