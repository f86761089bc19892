// Stretches of time, one after the other, on one scale for all ways.

import { el, svg } from "./dom.js";
import { seconds } from "./format.js";

const WIDTH = 1000;
const BAR = 26;

/** Each stage of each way in a line of its own, beginning where the one before ended. */
export function steps(rows, caption) {
  const longest = Math.max(...rows.map(total), 1e-9);
  return el("figure", { class: "waterfall" }, el("figcaption", {}, caption), el("div", { class: "ways" }, rows.map((row) => stepped(row, longest))));
}

function stepped(row, longest) {
  let at = 0;
  const lines = row.stages.map((stage) => {
    const bar = strip([{ x: at / longest, width: stage.sec / longest, stage }], "step");
    at += stage.sec;
    return el("tr", {}, el("th", { scope: "row" }, stage.name), el("td", { class: "track", "aria-hidden": "true" }, bar), el("td", { class: "figure" }, seconds(stage.sec)));
  });
  const sum = el("tr", { class: "sum" }, el("th", { scope: "row" }, "total"), el("td", { class: "track", "aria-hidden": "true" }), el("td", { class: "figure" }, seconds(at)));
  return el("table", { class: "steps" }, el("caption", {}, el("strong", {}, row.name), " ", el("span", { class: "muted" }, row.note)), el("tbody", {}, lines, sum));
}

/** Bars on a ground; x and width are shares of the whole. */
function strip(bars, name) {
  return svg(
    "svg",
    { viewBox: `0 0 ${WIDTH} ${BAR}`, preserveAspectRatio: "none", class: `bars ${name}`, "aria-hidden": "true", focusable: "false" },
    svg("rect", { x: 0, y: 0, width: WIDTH, height: BAR, class: "ground" }),
    bars.map(({ x, width, stage }) => {
      const drawn = stage.sec > 0 ? Math.max(width * WIDTH, name === "step" ? 10 : 3) : 0; // what took any time can be seen
      return svg("rect", { x: Math.min(x * WIDTH, WIDTH - drawn), y: 0, width: drawn, height: BAR, class: `stage ${stage.kind}` }, svg("title", {}, `${stage.name}: ${seconds(stage.sec)}`));
    }),
  );
}

/** A bar for each way, {name, stages: [{name, sec, kind}]}, and a table of all stages. */
export function waterfall(rows, caption) {
  const longest = Math.max(...rows.map(total), 1e-9);
  return el(
    "figure",
    { class: "waterfall" },
    el("figcaption", {}, caption),
    rows.map((row) => drawn(row, longest)),
    table(rows),
  );
}

function total(row) {
  return row.stages.reduce((sum, stage) => sum + stage.sec, 0);
}

function drawn(row, longest) {
  let at = 0;
  const bars = row.stages.map((stage) => {
    const bar = { x: at / longest, width: stage.sec / longest, stage };
    at += stage.sec;
    return bar;
  });
  const head = el("div", { class: "bar-head" }, el("strong", {}, row.name), el("span", { class: "figure" }, seconds(total(row))));
  return el("div", { class: "bar-row" }, head, strip(bars, "whole"));
}

function table(rows) {
  const longest = rows.reduce((most, row) => (row.stages.length > most.stages.length ? row : most));
  const others = rows.flatMap((row) => row.stages).filter((stage) => !longest.stages.some((one) => one.name === stage.name));
  const names = [...new Map([...longest.stages.slice(0, -1), ...others, ...longest.stages.slice(-1)].map((stage) => [stage.name, stage.kind])).entries()];
  const cell = (row, name) => row.stages.filter((stage) => stage.name === name).reduce((sum, stage) => sum + stage.sec, 0);
  return el(
    "div",
    { class: "scroll", tabindex: "0", role: "region", "aria-label": "How long each stage took" },
    el(
      "table",
      { class: "stages" },
      el("thead", {}, el("tr", {}, el("th", { scope: "col" }, "stage"), rows.map((row) => el("th", { scope: "col", class: "figure" }, row.name)))),
      el(
        "tbody",
        {},
        names.map(([name, kind]) =>
          el(
            "tr",
            {},
            el("th", { scope: "row" }, el("span", { class: `swatch ${kind}`, "aria-hidden": "true" }), name),
            rows.map((row) => el("td", { class: "figure" }, row.stages.some((stage) => stage.name === name) ? seconds(cell(row, name)) : "–")),
          ),
        ),
        el("tr", { class: "sum" }, el("th", { scope: "row" }, "total"), rows.map((row) => el("td", { class: "figure" }, seconds(total(row))))),
      ),
    ),
  );
}
