// The options of a blank or a question; one is chosen, by the model or the reader.

function optionsTable(question) {
  const name = `choice${question.paper.index}-${question.number}`;
  const body = make("tbody");
  question.options.forEach((option, number) => {
    const field = `${name}-${number}`;
    const radio = make("input", { type: "radio", name, id: field, value: number });
    radio.checked = question.chosen === number;
    const text = make("td", { class: "option" }, make("label", { for: field }, make("bdi", {}, shown(option))));
    if (number === question.gold) text.append(make("span", { class: "is" }, " key"));
    const fill = make("span", { class: "fill" });
    fill.style.setProperty("width", `${100 * question.chances[number]}%`);
    body.append(make("tr", { "data-option": number },
      make("th", { scope: "row" }, radio, make("span", { class: "letter" }, letter(number))), text,
      make("td", { class: "chance" }, make("span", { class: "percent" }, percent(question.chances[number])),
        make("span", { class: "meter", "aria-hidden": "true" }, fill))));
  });
  const noun = question.paper.kind === "cloze" ? "blank" : "question";
  const heads = ["letter", "option", "probability"].map((text, column) => make("th", { scope: "col" },
    column < 2 ? make("span", { class: "away" }, text) : text));
  const table = make("table", { class: "options" },
    make("caption", { class: "away" }, `Options of ${noun} ${question.printed}`),
    make("thead", {}, make("tr", {}, ...heads)), body);
  const holder = make("div", { class: "choice" }, table,
    make("p", { class: "back note" }, "The model's answer is ", make("bdi", {}, letter(question.model)), ". ",
      make("button", { type: "button", class: "link", "data-back": "" }, "Restore it")));
  markRows(holder, question);
  return holder;
}

function markRows(holder, question) {
  const state = stateOf(question);
  for (const row of holder.querySelectorAll("[data-option]")) {
    const option = Number(row.dataset.option);
    const radio = row.querySelector("input");
    const chosen = option === question.chosen;
    radio.checked = chosen;
    // A separate label: one around the whole row would be read twice.
    radio.setAttribute("aria-label", `${letter(option)}, ${shown(question.options[option])}, ${percent(question.chances[option])}`);
    row.className = [option === question.gold ? "gold" : "", chosen ? `chosen ${state}` : ""].join(" ").trim();
  }
  holder.querySelector(".back").hidden = !isCorrected(question);
}
