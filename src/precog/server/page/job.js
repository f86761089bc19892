// A job as it goes on.

import { call, events, path } from "./api.js";
import { announce, el, failure, show, upper } from "./dom.js";
import { bytes, counted, figure, roughly } from "./format.js";

/** Shows a job in an element until it ends; resolves to it. */
export async function followed(place, job, signal) {
  const bar = el("progress", { max: "1", value: 0, "aria-label": "Progress" });
  const line = el("p", { class: "muted" }, "Waiting for its turn…");
  const stop = el("button", { type: "button", class: "quiet" }, "Stop");
  stop.addEventListener("click", () => {
    stop.disabled = true;
    card.focus({ preventScroll: true }); // a button that is off has no focus
    call("DELETE", path`/v1/jobs/${job.id}`).catch((error) => place.append(failure(error)));
  });
  const card = el("div", { class: "job", tabindex: "-1" }, el("div", { class: "bar-head" }, el("strong", {}, `Reading ${counted(job.documents.length, "document")}`), stop), bar, line);
  place.append(card);
  let last = job;
  for (;;) {
    let lost = "the server stops";
    try {
      for await (const [name, data] of events("GET", path`/v1/jobs/${job.id}/events`, undefined, signal)) {
        last = data;
        const { progress } = data;
        if (progress.total) bar.value = progress.done / progress.total;
        if (data.state === "running") line.textContent = told(progress);
        if (name !== "progress") break;
      }
    } catch (error) {
      if (error.status === 0) lost = error.message;
      else {
        card.remove();
        throw error;
      }
    }
    if (last.ended !== null) break;
    stop.hidden = true;
    await pressed(line, lost);
    stop.hidden = false;
    line.textContent = "Looking for the job…";
    card.focus({ preventScroll: true });
  }
  show(card, ended(last));
  announce(card.textContent);
  return last;
}

/** Waits until somebody wants to look again. The work itself is the server's, which goes on with it when it is back. */
function pressed(line, lost) {
  return new Promise((resolve) => {
    const again = el("button", { type: "button", class: "quiet", onclick: resolve }, "Look again");
    show(line, el("span", { role: "alert" }, `${upper(lost)}. A server that starts again goes on with this. `), again);
  });
}

function told(progress) {
  const amount = progress.unit === "bytes" ? `${bytes(progress.done)} of ${bytes(progress.total)}` : `${figure(progress.done)} of ${figure(progress.total)} tokens`;
  if (!progress.tokens) return `${progress.document || "starting"} – ${amount}`;
  const tokens = progress.unit === "bytes" ? `, ${counted(progress.tokens, "token")}` : "";
  const left = progress.eta_sec === null ? "" : `, about ${roughly(progress.eta_sec)} left`;
  return `${progress.document || "starting"} – ${amount}${tokens}, ${figure(progress.tokens_per_sec)} a second${left}`;
}

function ended(job) {
  if (job.state === "failed") return failure(job.error);
  if (job.state === "cancelled") return el("p", { class: "notice" }, "Stopped. What was read until then is kept.");
  const { documents, tokens, failures, elapsed_sec: elapsed, tokens_per_sec: rate } = job.report;
  const told = `Read ${counted(documents.new + documents.changed, "document")}, ${counted(tokens, "token")} in ${elapsed.toFixed(1)} s (${figure(rate)} a second).`;
  const parts = [el("p", { class: "done" }, told)];
  if (documents.unchanged) parts.push(el("p", { class: "muted" }, `${counted(documents.unchanged, "document")} had not changed.`));
  if (failures.length) parts.push(el("p", { class: "error" }, `${counted(failures.length, "document")} could not be read:`), el("ul", {}, failures.map((one) => el("li", {}, el("strong", {}, one.document), `: ${one.reason}`))));
  return el("div", {}, parts);
}
