// All options of a blank: shown on hover, on focus and on tap; kept by a click; closed by Escape.

const box = byId("details");
const phone = matchMedia("(max-width: 640px)");
let owner = null;
let kept = false;
let timer = 0;

function questionAt(element) {
  const chip = element instanceof Element ? element.closest("[data-number]") : null;
  const article = chip && chip.closest("article");
  if (!article) return null;
  return papers[Number(article.dataset.index)].questions[Number(chip.dataset.number)];
}

const chipAt = (element) => (element instanceof Element ? element.closest(".blank[data-number]") : null);

function openDetails(chip, keep) {
  clearTimeout(timer);
  if (owner !== chip) {
    closeDetails();
    const question = questionAt(chip);
    byId("details-body").replaceChildren(
      make("p", { class: "title" }, `Blank ${question.printed || question.number + 1}`), optionsTable(question));
    owner = chip;
    chip.setAttribute("aria-expanded", "true");
    chip.setAttribute("aria-describedby", "details-body");
    box.hidden = false;
    place(keep || chip === document.activeElement);
  }
  kept = keep;
}

function closeDetails() {
  clearTimeout(timer);
  if (!owner) return;
  owner.setAttribute("aria-expanded", "false");
  owner.removeAttribute("aria-describedby");
  owner = null;
  kept = false;
  box.hidden = true;
  document.documentElement.style.removeProperty("scroll-padding-bottom");
}

// Below the answer, or above it if there is no room; on a phone at the bottom of the screen, where
// the page may have to scroll so that the answer is not covered (except on hover).
function place(mayScroll) {
  box.classList.toggle("sheet", phone.matches);
  if (phone.matches) {
    box.style.removeProperty("left");
    box.style.removeProperty("top");
    document.documentElement.style.setProperty("scroll-padding-bottom", `${box.offsetHeight + 8}px`);
    if (mayScroll) owner.scrollIntoView({ block: "nearest" });
    return;
  }
  const lines = owner.getClientRects(); // more than one where the answer is broken
  const [first, last] = [lines[0], lines[lines.length - 1]];
  const width = box.offsetWidth;
  const height = box.offsetHeight;
  const left = Math.max(8, Math.min(last.left, document.documentElement.clientWidth - width - 8));
  const below = last.bottom + 6;
  const top = below + height > innerHeight && first.top - height > 6 ? first.top - height - 6 : below;
  box.style.setProperty("left", `${left + scrollX}px`);
  box.style.setProperty("top", `${top + scrollY}px`);
}

// The focused answer, if all of it is in the window.
function focusedInView() {
  const chip = document.activeElement;
  if (!chip || !chip.matches(".blank[data-number]")) return null;
  const { top, bottom } = chip.getBoundingClientRect();
  return top >= 0 && bottom <= innerHeight ? chip : null;
}

function keepInView(chip) {
  if (chip !== document.activeElement) return;
  chip.scrollIntoView({ block: "nearest" });
  if (chip === owner) place(true);
}

function later(action, wait) {
  clearTimeout(timer);
  timer = setTimeout(action, wait);
}

function listenForDetails(list) {
  list.addEventListener("pointerover", (event) => {
    const chip = chipAt(event.target);
    if (event.pointerType === "touch" || !chip || kept) return;
    later(() => chip.isConnected && openDetails(chip, false), owner ? 20 : 90);
  });
  list.addEventListener("pointerout", (event) => {
    if (event.pointerType !== "touch" && chipAt(event.target) && !kept) later(closeDetails, 220);
  });
  box.addEventListener("pointerenter", () => clearTimeout(timer));
  box.addEventListener("pointerleave", () => { if (!kept) later(closeDetails, 220); });
  list.addEventListener("focusin", (event) => {
    const chip = chipAt(event.target);
    // A click focuses too; it opens by itself.
    if (chip && chip.matches(":focus-visible")) openDetails(chip, false);
  });
  list.addEventListener("focusout", (event) => {
    if (!kept && !box.contains(event.relatedTarget)) closeDetails();
  });
  list.addEventListener("click", (event) => {
    const chip = chipAt(event.target);
    if (chip) toggle(chip);
  });
  list.addEventListener("keydown", (event) => {
    const chip = chipAt(event.target);
    if (!chip || (event.key !== "Enter" && event.key !== " ")) return;
    event.preventDefault();
    toggle(chip);
  });
  byId("details-close").addEventListener("click", () => {
    const chip = owner;
    closeDetails();
    if (chip) chip.focus({ preventScroll: true });
    closeDetails();
  });
  document.addEventListener("pointerdown", (event) => {
    if (!box.contains(event.target) && !chipAt(event.target)) closeDetails();
  });
  onNewWidth(closeDetails);
}

function toggle(chip) {
  if (owner === chip && kept) closeDetails();
  else openDetails(chip, true);
}
