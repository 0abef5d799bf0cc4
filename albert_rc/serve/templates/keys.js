// Keyboard shortcuts, and the initialisation of the page.

const help = byId("help");

// Moves the focus from a blank into its options, and back.
function intoOptions() {
  const radio = box.querySelector("input:checked");
  if (radio) radio.focus();
}

function leaveOptions() {
  const chip = owner;
  closeDetails();
  if (chip) chip.focus({ preventScroll: true });
  closeDetails(); // focus opens them again
}

function onLetter(event) {
  const question = questionOf(event.target);
  const option = /^[a-z]$/.test(event.key) ? event.key.charCodeAt(0) - 97 : -1;
  if (!question || option < 0 || option >= question.options.length) return false;
  // j and k move between answers, and choose options J and K only among the options themselves.
  if ("jk".includes(event.key) && !event.target.matches("input")) return false;
  choose(question, option);
  return true;
}

function onKey(event) {
  if (event.key === "Escape") {
    if (box.contains(document.activeElement)) leaveOptions();
    else closeDetails();
    return;
  }
  const typing = event.target.closest && event.target.closest("input:not([type=checkbox], [type=radio]), select, textarea");
  if (typing || help.open || event.ctrlKey || event.metaKey || event.altKey || !byId("keys").checked) return;
  if (onLetter(event)) {
    event.preventDefault();
    return;
  }
  const action = { j: () => move(1), k: () => move(-1), "?": () => help.showModal() }[event.key];
  if (!action || (event.key !== "?" && !papers.length)) return;
  event.preventDefault();
  action();
}

listenForDetails(byId("articles"));
listenForCorrections();
listenForPapers();
byId("articles").addEventListener("keydown", (event) => {
  if ((event.key === "Enter" || event.key === " ") && chipAt(event.target) && kept) intoOptions();
});
// Screen readers click instead of pressing a key; a mouse's click counts one.
byId("articles").addEventListener("click", (event) => {
  if (event.detail === 0 && chipAt(event.target) && kept) intoOptions();
});
// Tab leads out of the options as out of a menu: back to the blank, not to the end of the page.
box.addEventListener("keydown", (event) => {
  if (event.key !== "Tab") return;
  const back = box.querySelector(".back");
  const last = !back || back.hidden || event.target.matches("[data-back]");
  if (event.shiftKey ? !event.target.matches("input") : !last) return;
  event.preventDefault();
  leaveOptions();
});
box.addEventListener("keydown", (event) => {
  if (event.key === "Enter" && event.target.matches("input")) leaveOptions();
});
document.addEventListener("keydown", onKey);
byId("help-open").addEventListener("click", () => help.showModal());
byId("keys").checked = remembered("keys") !== "off";
byId("keys").addEventListener("change", (event) => remember("keys", event.target.checked ? "on" : "off"));
if (remembered("below")) {
  setThreshold(remembered("below"));
  byId("below").value = Math.round(100 * settings.below);
}
root.dataset.ready = "";
