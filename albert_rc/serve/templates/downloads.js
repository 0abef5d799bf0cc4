// Files to download: answer.json as `predict` writes it, and the papers, with their key or these answers.

// Written without JSON.stringify, which would reorder keys that are numbers.
function answersJson(kind) {
  const rows = papers.filter((paper) => paper.kind === kind).flatMap((paper) => {
    const letters = paper.questions.map((question) => letter(question.chosen));
    if (kind !== "cloze") return letters.map((answer, i) => [`${paper.id}#${i + 1}`, JSON.stringify(answer)]);
    return [[paper.id, `[\n    ${letters.map((answer) => JSON.stringify(answer)).join(",\n    ")}\n  ]`]];
  });
  return `{\n${rows.map(([name, value]) => `  ${JSON.stringify(name)}: ${value}`).join(",\n")}\n}\n`;
}

function paperContent(paper, withAnswers) {
  if (!withAnswers) return paper.content;
  return { ...paper.content, answers: paper.questions.map((question) => letter(question.chosen)) };
}

// As lines, because only there a cloze paper's id is its own, which answer.json uses, and not the file's name.
function papersJson(kind, withAnswers) {
  const contents = papers.filter((paper) => paper.kind === kind).map((paper) => paperContent(paper, withAnswers));
  return contents.map((content) => `${JSON.stringify(content)}\n`).join("");
}

// A file name that is valid on every system.
function fileName(kind, ending) {
  const own = papers.filter((paper) => paper.kind === kind);
  const stem = own.length === 1 ? own[0].id.replace(/\.(json|jsonl|txt)$/i, "").replace(/[^\p{L}\p{N}.-]+/gu, "_") : `papers-${kind}`;
  const trimmed = stem.replace(/^[._-]+/, "").slice(0, 80) || "paper";
  return `${trimmed}${ending}.jsonl`;
}

function save(name, text) {
  const link = make("a", { href: URL.createObjectURL(new Blob([text], { type: "application/json" })), download: name });
  link.click();
  setTimeout(() => URL.revokeObjectURL(link.href), 10_000);
}

function button(text, action) {
  const made = make("button", { type: "button" }, text);
  made.addEventListener("click", action);
  return made;
}

function showDownloads() {
  const kinds = ["cloze", "choice"].filter((kind) => papers.some((paper) => paper.kind === kind));
  byId("downloads").replaceChildren(...kinds.flatMap((kind) => {
    const name = kinds.length > 1 ? `answer-${kind}.json` : "answer.json";
    const one = papers.filter((paper) => paper.kind === kind).length === 1;
    const noun = `${kinds.length > 1 ? `${kind} ` : ""}paper${one ? "" : "s"}`;
    const saved = (file, text) => { unsaved.delete(kind); save(file, text); };
    return [
      button(`The answers (${name})`, () => saved(name, answersJson(kind))),
      button(`The ${noun} as JSON`, () => save(fileName(kind, ""), papersJson(kind, false))),
      button(`The ${noun} as JSON, with these answers as the key`, () => saved(fileName(kind, "-key"), papersJson(kind, true))),
    ];
  }));
}
