// Small helpers that `report` and `serve` share.

const byId = (id) => document.getElementById(id);

// An element; texts are always set as text, never as markup.
function make(tag, attributes = {}, ...children) {
  const element = document.createElement(tag);
  for (const [name, value] of Object.entries(attributes)) {
    if (value !== null && value !== false) element.setAttribute(name, value === true ? "" : value);
  }
  element.append(...children.filter((child) => child !== null));
  return element;
}

// A phone's address bar appears and disappears, which changes only the height.
function onNewWidth(action) {
  let width = innerWidth;
  addEventListener("resize", () => {
    if (innerWidth === width) return;
    width = innerWidth;
    action();
  });
}

function letter(index) {
  let name = "";
  for (let left = index + 1; left; left = Math.floor((left - 1) / 26)) {
    name = String.fromCharCode(65 + ((left - 1) % 26)) + name;
  }
  return name;
}

const count = (number) => number.toLocaleString("en");
const plural = (number, noun) => `${count(number)} ${noun}${number === 1 ? "" : "s"}`;
const shown = (option) => option || "(empty)";

function percent(share) {
  if (share < 0.01) return "<1%";
  if (share > 0.99) return ">99%";
  // Rounded down, so that no share below a threshold is shown as if it reached it.
  return `${Math.floor(100 * share + 1e-9)}%`;
}
