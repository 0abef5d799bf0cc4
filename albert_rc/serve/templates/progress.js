// The progress of a request, polled twice a second.

const STAGES = { sending: "Sending the paper ...", reading: "Reading the paper ...", again: "Reading some questions a second time ...", loading: "Loading the model for this kind of paper ..." };

// crypto.randomUUID exists only over https and on localhost.
const newTicket = () => [...crypto.getRandomValues(new Uint8Array(16))].map((byte) => byte.toString(16).padStart(2, "0")).join("");

function showProgress(found) {
  // The sentence is read out, so it changes with the stage alone; the bar is for the eye.
  let said = "";
  if (found && found.stage === "waiting") said = found.before ? `Waiting for ${plural(found.before, "earlier paper")} ...` : "Sent ...";
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
  showProgress({ stage: "sending" });
  while (!signal.aborted) {
    await new Promise((resolve) => { setTimeout(resolve, 500); });
    try {
      const found = await (await fetch(`/api/progress?ticket=${ticket}`, { signal })).json();
      if (!signal.aborted && found.stage !== "unknown") showProgress(found);
    } catch { /* errors of the request itself are reported there */ }
  }
}
