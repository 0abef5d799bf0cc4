// How far the answers have come, asked twice a second while they are waited for.

const STAGES = { reading: "Reading the paper ...", loading: "Loading the model for this kind of paper ..." };

// crypto.randomUUID is only there by https and on this machine.
const newTicket = () => [...crypto.getRandomValues(new Uint8Array(16))].map((byte) => byte.toString(16).padStart(2, "0")).join("");

function showProgress(found) {
  // The sentence is read out, so it changes with the stage alone; the bar is for the eye.
  let said = "";
  if (found && found.stage === "waiting") said = found.before ? `In line behind ${plural(found.before, "paper")} ...` : "Sent ...";
  else if (found) said = STAGES[found.stage] || `Answering ${plural(found.total, "question")} ...`;
  if (byId("progress").textContent !== said) byId("progress").textContent = said;
  const answering = found !== null && found.stage === "answering";
  byId("progress-bar").hidden = byId("progress-count").hidden = !answering;
  if (!answering) return;
  byId("progress-bar").max = found.total;
  byId("progress-bar").value = found.done;
  byId("progress-count").textContent = `${count(found.done)} of ${count(found.total)}`;
}

async function watchProgress(ticket, signal) {
  showProgress({ stage: "waiting", before: 0 });
  while (!signal.aborted) {
    await new Promise((resolve) => { setTimeout(resolve, 500); });
    try {
      const found = await (await fetch(`/api/progress?ticket=${ticket}`, { signal })).json();
      if (!signal.aborted && found.stage !== "unknown") showProgress(found);
    } catch { /* what is wrong with the request itself is said there */ }
  }
}
