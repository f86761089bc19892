// What was said, the newest first, day by day; each may be chosen to be forgotten.

import { el } from "./dom.js";
import { moment } from "./format.js";

/** Deposits with boxes; `chosen` is a set of their numbers, `onChoice` is told when it changes. */
export function timeline(deposits, chosen, onChoice) {
  const days = new Map();
  for (const deposit of deposits) {
    const day = (deposit.time || "").slice(0, 10) || "no time";
    days.set(day, [...(days.get(day) || []), deposit]);
  }
  return el(
    "div",
    { class: "timeline" },
    [...days.entries()].map(([day, entries]) => el("section", {}, el("h3", {}, title(day)), el("ul", {}, entries.map((deposit) => item(deposit, chosen, onChoice))))),
  );
}

function title(day) {
  return day === "no time" ? day : moment(`${day}T12:00:00`).split(",")[0];
}

function item(deposit, chosen, onChoice) {
  const box = el("input", { type: "checkbox", checked: chosen.has(deposit.id) });
  box.addEventListener("change", () => {
    if (box.checked) chosen.add(deposit.id);
    else chosen.delete(deposit.id);
    onChoice();
  });
  const group = `${deposit.domain} ▸ ${deposit.subcluster}`;
  const about = [`#${deposit.id}`, deposit.speaker, group, deposit.place, deposit.score !== undefined && `score ${deposit.score.toFixed(2)}`, deposit.superseded_by && `replaced by #${deposit.superseded_by}`].filter(Boolean).join(" · ");
  return el("li", { class: deposit.superseded_by ? "old" : "" }, el("label", {}, box, el("span", {}, el("span", { class: "said" }, deposit.text), el("small", { class: "muted" }, about))));
}
