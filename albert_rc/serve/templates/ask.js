// The form: sends a paper and receives the answers.

const ask = byId("ask");
const most = Number(ask.dataset.most);
const FORM_BYTES = 10_000; // at most, around a paper
let chosenFiles = [];
let request = null; // the AbortController of the paper that is being answered

const megabytes = (bytes) => (bytes < 100_000 ? `${Math.ceil(bytes / 1000)} kB` : `${(bytes / 1_000_000).toFixed(1)} MB`);

const UNSUPPORTED = /\.(heic|heif)$/i;
const isPicture = (file) => file.type.startsWith("image/");
const isSame = (one, other) => one.name === other.name && one.size === other.size && one.lastModified === other.lastModified;
const sizeOf = (files) => files.reduce((sum, file) => sum + file.size, 0);

// Pictures are the pages of one paper, in the order of their names, and may be chosen one by one;
// of other files only the first is used, and none next to pictures.
function addFiles(files) {
  if (chosenFiles.some(isPicture) && !files.some(isPicture)) {
    notUsed(files);
    return;
  }
  const before = files.every(isPicture) && chosenFiles.every(isPicture) ? chosenFiles : [];
  const pictures = [...before, ...files.filter((file) => isPicture(file) && !before.some((other) => isSame(file, other)))];
  chooseFiles(pictures.length ? pictures : files.slice(0, 1));
  const left = files.filter((file) => !chosenFiles.some((other) => isSame(file, other)));
  const unsupported = chosenFiles.find((file) => UNSUPPORTED.test(file.name));
  if (unsupported) fail(`${unsupported.name}: HEIC pictures (from iPhones) are not supported; save it as JPEG.`);
  else if (left.length) notUsed(left);
}

function notUsed(files) {
  byId("file").value = "";
  fail(`Not used: ${files.map((file) => file.name).join(", ")}. A paper is one file, or pictures of its pages; paste its key into the field below.`);
}

function chooseFiles(files) {
  chosenFiles = files.sort((a, b) => a.name.localeCompare(b.name, "en", { numeric: true }));
  byId("file").value = ""; // so that the same file can be chosen again after a correction
  byId("text").hidden = chosenFiles.length > 0;
  byId("chosen").hidden = chosenFiles.length === 0;
  if (chosenFiles.length) {
    byId("chosen-name").textContent = chosenFiles.map((file) => file.name).join(", ");
    byId("chosen-size").textContent = megabytes(sizeOf(chosenFiles));
    byId("send").focus();
  } else {
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
  byId("send").setAttribute("aria-disabled", String(on));
  if (!on && document.activeElement === byId("cancel")) byId("send").focus();
  byId("cancel").hidden = !on;
  if (!on) showProgress(null);
}

const mayDiscard = () => !unsaved.size || confirm("Your corrections have not been saved. Continue without saving them?");

// The answer to a paper, or null after a message.
async function answered(body, own) {
  const ticket = newTicket();
  watchProgress(ticket, own.signal);
  let response = null;
  try {
    response = await fetch(`/api/answer?ticket=${ticket}`, { method: "POST", body, signal: own.signal });
    const content = await response.json();
    if (response.ok) return content;
    fail(content.error);
  } catch (error) {
    if (error.name === "AbortError") return null;
    if (response) fail(`The server, or a proxy before it, answered with status ${response.status} and without an explanation.`);
    else if (chosenFiles.length) fail("The server does not respond, or the file has changed since it was chosen. Choose the file again; is the server still running?");
    else fail("The server does not respond. Is it still running?");
  }
  return null;
}

// Sends what the form holds; with `discarding`, the user has agreed to lose corrections.
async function send(discarding = false) {
  const text = byId("text").value;
  const parts = chosenFiles.length ? chosenFiles : text.trim() ? [text] : [];
  if (!parts.length) {
    fail("There is no paper yet: paste one, or choose a file.");
    byId("text").focus();
    return;
  }
  const size = (chosenFiles.length ? sizeOf(chosenFiles) : new Blob([text]).size) + new Blob([byId("key").value]).size;
  if (size + FORM_BYTES > most) {
    fail(`The paper has ${megabytes(size)}, which is over this server's limit of ${megabytes(most)}; give it in parts.`);
    return;
  }
  if (!discarding && !mayDiscard()) return;
  const body = new FormData();
  for (const part of parts) body.append("paper", part);
  if (byId("key").value.trim()) body.append("key", byId("key").value);
  fail("");
  const own = new AbortController();
  const before = changes;
  request = own;
  working(true);
  const content = await answered(body, own);
  const cancelled = own.signal.aborted;
  own.abort(); // stops asking for its progress
  request = null;
  working(false);
  if (cancelled) byId("progress").textContent = "Cancelled.";
  else if (!content) byId("send").focus();
  // Answers of the paper before may have been corrected in the meantime.
  else if (changes === before || mayDiscard()) showAnswers(content);
  else fail("The new answers are not shown. Save your corrections, and send the paper again.");
}

const TITLES = {
  refused: "Not answered",
  check: "Compare with the paper: this may have been misread",
  warning: "Warnings",
  note: "How the paper was read",
  "left out": "Lines that do not belong to any passage",
};

function messageList(level, messages) {
  const rows = messages.map(({ paper, text, picture }) => make("li", {}, ...(paper ? [make("bdi", { class: "about" }, paper), ": "] : []), make("span", { class: "text" }, text),
    ...(picture ? [make("img", { src: `data:image/jpeg;base64,${picture}`, alt: "The line in the picture" })] : [])));
  const list = make("ul", {}, ...rows);
  const isCut = messages[messages.length - 1].text.startsWith("... and ");
  const open = level === "refused" || level === "warning" || level === "check";
  return make("details", { class: `said ${level.replace(" ", "-")}`, open },
    make("summary", {}, `${TITLES[level]}${isCut ? "" : ` (${messages.length})`}`), list);
}

function correctText(text) {
  const button = make("button", { type: "button" }, "Correct the recognised text");
  button.addEventListener("click", () => {
    const written = byId("text").value.trim() && byId("text").value !== text && !chosenFiles.length;
    if (written && !confirm("Replace the text in the form by the recognised text?")) return;
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
  unsaved.clear();
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
  byId("file").addEventListener("change", (event) => { if (event.target.files.length) addFiles([...event.target.files]); });
  byId("unchoose").addEventListener("click", () => chooseFiles([]));
  byId("example").addEventListener("click", () => {
    const example = byId("example-text").content.textContent;
    const written = chosenFiles.length || byId("key").value.trim() || ![example, ""].includes(byId("text").value);
    if (request || (written && !confirm("Replace the paper in the form by the example?")) || !mayDiscard()) return;
    chooseFiles([]);
    byId("text").value = example;
    byId("key").value = "";
    send(true);
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
      if (name === "drop" && event.dataTransfer.files.length) addFiles([...event.dataTransfer.files]);
    });
  }
  document.addEventListener("dragleave", (event) => { if (!event.relatedTarget) ask.classList.remove("over"); });
}
