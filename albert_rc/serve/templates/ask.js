// The form: sends a paper and receives the answers.

const ask = byId("ask");
const most = Number(ask.dataset.most);
let chosenFiles = [];
let request = null;

const megabytes = (bytes) => (bytes < 100_000 ? `${Math.ceil(bytes / 1000)} kB` : `${(bytes / 1_000_000).toFixed(1)} MB`);

const isPicture = (file) => file.type.startsWith("image/");
const sizeOf = (files) => files.reduce((sum, file) => sum + file.size, 0);

// Pictures are the pages of one paper, in the order of their names; of other files only the first is used.
function chooseFiles(files) {
  const pictures = files.filter(isPicture).sort((a, b) => a.name.localeCompare(b.name, "en", { numeric: true }));
  chosenFiles = pictures.length ? pictures : files.slice(0, 1);
  byId("text").hidden = chosenFiles.length > 0;
  byId("chosen").hidden = chosenFiles.length === 0;
  if (chosenFiles.length) {
    byId("chosen-name").textContent = chosenFiles.map((file) => file.name).join(", ");
    byId("chosen-size").textContent = megabytes(sizeOf(chosenFiles));
    byId("send").focus();
  } else {
    byId("file").value = "";
    byId("text").focus();
  }
  fail("");
}

function fail(message) {
  byId("error").hidden = !message;
  byId("error").textContent = message;
}

function working(on) {
  ask.setAttribute("aria-busy", String(on));
  byId("send").disabled = on;
  byId("cancel").hidden = !on;
  if (!on) showProgress(null);
}

async function send() {
  const text = byId("text").value;
  const parts = chosenFiles.length ? chosenFiles : text.trim() ? [text] : [];
  if (!parts.length) {
    fail("There is no paper yet: paste one, or choose a file.");
    byId("text").focus();
    return;
  }
  const size = chosenFiles.length ? sizeOf(chosenFiles) : new Blob([text]).size;
  if (size > most) {
    fail(`${megabytes(size)} is more than this server accepts (${megabytes(most)}); give the paper in parts.`);
    return;
  }
  if (unsaved && !confirm("Your corrections have not been saved. Continue without saving them?")) return;
  const body = new FormData();
  for (const part of parts) body.append("paper", part);
  if (byId("key").value.trim()) body.append("key", byId("key").value);
  fail("");
  request = new AbortController();
  working(true);
  const ticket = newTicket();
  watchProgress(ticket, request.signal);
  try {
    const response = await fetch(`/api/answer?ticket=${ticket}`, { method: "POST", body, signal: request.signal });
    const content = await response.json();
    if (response.ok) showAnswers(content);
    else fail(content.error);
  } catch (error) {
    if (error.name !== "AbortError") fail("The server does not respond. Is it still running?");
  }
  request.abort(); // stops asking for its progress
  request = null;
  working(false);
}

const TITLES = {
  refused: "Not answered, because something is unclear",
  check: "Compare with the paper: this may have been misread",
  warning: "Warnings",
  note: "How the paper was read",
  "left out": "Lines that do not belong to any passage",
};

function messageList(level, messages) {
  const rows = messages.map(({ paper, text, picture }) => make("li", {}, ...(paper ? [make("bdi", { class: "about" }, paper), ": "] : []), make("span", { class: "text" }, text),
    ...(picture ? [make("img", { src: `data:image/jpeg;base64,${picture}`, alt: "The line in the picture" })] : [])));
  const list = make("ul", {}, ...rows);
  const open = level === "refused" || level === "warning" || level === "check";
  return make("details", { class: `said ${level.replace(" ", "-")}`, open },
    make("summary", {}, `${TITLES[level]} (${messages.length})`), list);
}

function correctText(text) {
  const button = make("button", { type: "button" }, "Correct the recognised text");
  button.addEventListener("click", () => {
    chooseFiles([]);
    byId("text").value = text;
    byId("text").rows = 20;
    byId("text").scrollIntoView();
    byId("text").focus();
  });
  return button;
}

function showAnswers(answered) {
  closeDetails();
  papers = understood(answered);
  current = null;
  unsaved = false;
  const levels = Object.keys(TITLES).map((level) => [level, answered.messages.filter((message) => message.level === level)]);
  byId("messages").replaceChildren(...levels.filter(([, found]) => found.length).map(([level, found]) => messageList(level, found)));
  if (answered.text) byId("messages").append(make("p", {}, correctText(answered.text)));
  byId("articles").replaceChildren(...papers.map(paperArticle));
  byId("papers").hidden = false;
  byId("skip").hidden = false;
  showDownloads();
  showFigures();
  byId("text").rows = 5; // room for what matters now
  byId("papers").focus({ preventScroll: true });
  byId("papers").scrollIntoView();
}

function listenForPapers() {
  ask.addEventListener("submit", (event) => {
    event.preventDefault();
    if (!request) send();
  });
  byId("cancel").addEventListener("click", () => request && request.abort());
  byId("file").addEventListener("change", (event) => { if (event.target.files.length) chooseFiles([...event.target.files]); });
  byId("unchoose").addEventListener("click", () => chooseFiles([]));
  byId("example").addEventListener("click", () => {
    chooseFiles([]);
    byId("text").value = byId("example-text").content.textContent;
    byId("key").value = "";
    send();
  });
  byId("text").addEventListener("keydown", (event) => {
    if (event.key === "Enter" && (event.ctrlKey || event.metaKey)) ask.requestSubmit();
  });
  // A file dropped outside the form would otherwise replace the page.
  for (const name of ["dragover", "drop"]) {
    document.addEventListener(name, (event) => {
      if (!event.dataTransfer.types.includes("Files")) return;
      event.preventDefault();
      ask.classList.toggle("over", name === "dragover");
      if (name === "drop" && event.dataTransfer.files.length) chooseFiles([...event.dataTransfer.files]);
    });
  }
  document.addEventListener("dragleave", (event) => { if (!event.relatedTarget) ask.classList.remove("over"); });
}
