// Trying the API from its page.

const form = byId("try");
const field = byId("try-body");
const sort = byId("try-type");
let sending = false;

for (const place of document.querySelectorAll(".address")) place.textContent = location.origin;

const examples = ["text", "json"].map((kind) => byId(`example-${kind}`).content.textContent);
sort.addEventListener("change", () => {
  if (examples.includes(field.value)) field.value = examples[sort.value === "text/plain" ? 0 : 1];
});
form.addEventListener("submit", async (event) => {
  event.preventDefault();
  if (sending) return;
  sending = true;
  byId("try-status").textContent = "Sent; waiting ...";
  byId("try-result").hidden = true;
  try {
    const response = await fetch("/api/answer", { method: "POST", body: field.value, headers: { "Content-Type": sort.value } });
    byId("try-status").textContent = `${response.status} ${response.statusText}`.trim();
    byId("try-result").textContent = JSON.stringify(await response.json(), null, 2);
    byId("try-result").hidden = false;
  } catch {
    byId("try-status").textContent = "The server does not respond. Is it still running?";
  }
  sending = false;
});
root.dataset.ready = "";
