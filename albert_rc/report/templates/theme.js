// Light or dark colours: the system's setting, or the choice made with the button, which is saved.

const root = document.documentElement;
const dark = matchMedia("(prefers-color-scheme: dark)");

function remember(name, value) {
  try { localStorage.setItem(`albert-rc-${name}`, value); } catch { /* not from a file, perhaps */ }
}

function remembered(name) {
  try { return localStorage.getItem(`albert-rc-${name}`); } catch { return null; }
}

const isDark = () => (root.dataset.theme ? root.dataset.theme === "dark" : dark.matches);

function nameTheme() {
  byId("theme").textContent = isDark() ? "Light" : "Dark";
  byId("theme").setAttribute("aria-label", `Change to ${isDark() ? "light" : "dark"} colours`);
}

function chooseTheme(theme) {
  if (theme === "dark" || theme === "light") root.dataset.theme = theme;
  nameTheme();
}

chooseTheme(remembered("theme"));
dark.addEventListener("change", nameTheme);
byId("theme").addEventListener("click", () => {
  const theme = isDark() ? "light" : "dark";
  chooseTheme(theme);
  remember("theme", theme);
});
