// What was forgotten, and the search of every byte for it.

import { el } from "./dom.js";
import { bytes, counted } from "./format.js";

const SHARES = /^deposit (\d+) says some of the same$/;

/** A receipt of a document or of deposits, as the server gives it. */
export function receipt(what, told) {
  const entries = told.outside || [];
  const sharing = entries.map((entry) => (typeof entry === "string" ? entry.match(SHARES)?.[1] : entry)).filter(Boolean);
  const outside = entries.filter((entry) => typeof entry === "string" && !SHARES.test(entry));
  const others = sharing.map((entry) => (typeof entry === "string" ? `#${entry}` : Object.values(entry)[0])).join(", ");
  const shared = told.forgotten?.every(Number.isInteger) ? "words, speaker or day also in" : "words also in";
  const isClean = told.hits === 0 && told.complete !== false;
  const rows = [
    ["forgotten", what],
    ["searched", `${counted(told.files_searched, "file")}, ${bytes(told.bytes_searched)}`],
    ["for", `${counted(told.searched_for, "piece")} of text, tokens, keys and states`],
    ["found", told.hits === 0 ? "0" : `${told.hits}, in ${told.hit_files.join(", ")}`],
    told.rebuilt?.length && ["made anew", told.rebuilt.join(", ")],
    told.responses > 0 && ["stored answers deleted that had read it", String(told.responses)],
    sharing.length && [shared, others],
    outside.length && ["not searched", outside.join("; ")],
  ].filter(Boolean);
  return el(
    "section",
    { class: `receipt ${isClean ? "" : "bad"}`, "aria-label": "Receipt", tabindex: "-1" },
    el("h3", {}, isClean ? "Forgotten: not a byte of it is left" : "Forgotten, but something is left"),
    el("dl", {}, rows.map(([name, value]) => [el("dt", {}, name), el("dd", {}, value)]).flat()),
  );
}
