// A memory on planes, one a domain: a point is a deposit, its colour a sub-cluster; others are grey, what emerges is outlined.

import { el, svg } from "./dom.js";
import { counted } from "./format.js";

const WIDTH = 300;
const HEIGHT = 210;
const HEIGHT_OF_FEW = 110;
const FEW = 10;
const EDGE = 18;
const AROUND = 9;
const NAME = 14;
const LETTER = 6.6;
const COLOURS = 10;

/** The planes; `onGroup(domain, sub-cluster or null, ids)` when somebody chooses a group or a point. */
export function memoryMap(map, onGroup) {
  const order = [...map.panels].sort((a, b) => b.points.length - a.points.length);
  return el("div", { class: "panels", tabindex: "0", role: "region", "aria-label": "Domains" }, order.map((panel) => drawn(panel, onGroup)));
}

/** Makes these deposits stand out, and no others. */
export function pointOut(map, ids) {
  const chosen = new Set(ids);
  for (const point of map.querySelectorAll(".point")) point.classList.toggle("chosen", chosen.has(Number(point.dataset.id)));
}

function drawn(panel, onGroup) {
  const emergent = Object.entries(panel.emergent);
  const { at, height } = placed(panel.points, emergent.length ? NAME : 0);
  const groups = grouped(panel);
  const colour = new Map(groups.map(([name], index) => [name, `c${index % COLOURS}`]));
  const radius = panel.points.length > 300 ? 3 : panel.points.length > 60 ? 4.5 : 6;
  const picture = svg(
    "svg",
    { viewBox: `0 0 ${WIDTH} ${height}`, class: "map", role: "img", "aria-label": [`${panel.domain}: ${counted(panel.points.length, "deposit")} in ${counted(groups.length, "sub-cluster")}`, ...emergent.map(([name]) => `emerging: ${name}`)].join("; ") },
    emergent.map(([, rows]) => svg("polygon", { points: corners(at, rows).map((corner) => corner.map((value) => value.toFixed(1)).join(",")).join(" "), class: "outline" })),
    at.map(([x, y], row) => {
      const name = panel.subclusters[row];
      const point = svg("circle", { cx: x, cy: y, r: name === null ? radius * 0.8 : radius, class: `point ${name === null ? "others" : colour.get(name)}`, "data-id": panel.ids[row] }, svg("title", {}, name || "Others"));
      point.addEventListener("click", () => onGroup(panel.domain, name || "Others", [panel.ids[row]]));
      return point;
    }),
    emergent.map(([name, rows]) => label(name, corners(at, rows))),
  );
  const others = panel.subclusters.map((name, row) => [name, row]).filter(([name]) => name === null).map(([, row]) => row);
  const entry = (swatch, text, rows) =>
    el("li", {}, el("button", { type: "button", class: "link", onclick: () => onGroup(panel.domain, text, rows.map((row) => panel.ids[row])) }, el("span", { class: `dot ${swatch}`, "aria-hidden": "true" }), `${text} (${rows.length})`));
  return el(
    "figure",
    { class: "panel" },
    el("figcaption", {}, el("strong", {}, panel.domain), ` ${counted(panel.points.length, "deposit")}`),
    picture,
    el(
      "ul",
      { class: "legend-list" },
      emergent.map(([name, rows]) => entry("ring", `emerging: ${name}`, rows)),
      groups.map(([name, rows]) => entry(colour.get(name), name, rows)),
      others.length ? entry("others", "Others", others) : null,
    ),
    panel.note && el("small", { class: "muted" }, panel.note),
  );
}

function grouped(panel) {
  const rows = new Map();
  panel.subclusters.forEach((name, row) => name !== null && rows.set(name, [...(rows.get(name) || []), row]));
  return [...rows.entries()].sort((a, b) => b[1].length - a[1].length || a[0].localeCompare(b[0]));
}

/** Coordinates on the picture, the same scale both ways, and its height: the longer way lies, few take little room, and above all is some for a name. */
function placed(points, above) {
  const spread = (index) => Math.max(...points.map((point) => point[index])) - Math.min(...points.map((point) => point[index]));
  const [across, down] = spread(0) < spread(1) ? [1, 0] : [0, 1];
  const most = points.length < FEW ? HEIGHT_OF_FEW : HEIGHT;
  const scale = Math.min((WIDTH - 2 * EDGE) / Math.max(spread(across), 1e-9), (most - 2 * EDGE) / Math.max(spread(down), 1e-9));
  const height = above + Math.max(spread(down) * scale + 2 * EDGE, 4 * EDGE);
  const middle = (index) => (Math.max(...points.map((point) => point[index])) + Math.min(...points.map((point) => point[index]))) / 2;
  const [x, y] = [middle(across), middle(down)];
  return { at: points.map((point) => [WIDTH / 2 + (point[across] - x) * scale, (above + height) / 2 - (point[down] - y) * scale]), height };
}

/** The corners of an outline that goes around a group's points. */
function corners(at, rows) {
  const found = hull(core(rows.map((row) => at[row])));
  const mean = (index) => found.reduce((sum, corner) => sum + corner[index], 0) / found.length;
  const [x, y] = [mean(0), mean(1)];
  return found.map((corner) => {
    const away = Math.hypot(corner[0] - x, corner[1] - y);
    const factor = away ? 1 + AROUND / away : 1;
    return [x + (corner[0] - x) * factor, y + (corner[1] - y) * factor];
  });
}

/** The name of an outline, above it. */
function label(name, outline) {
  const [xs, ys] = [0, 1].map((index) => outline.map((corner) => corner[index]));
  const half = Math.min((name.length * LETTER) / 2, WIDTH / 2);
  const x = Math.min(Math.max((Math.min(...xs) + Math.max(...xs)) / 2, half), WIDTH - half);
  return svg("text", { x: x.toFixed(1), y: (Math.min(...ys) - 5).toFixed(1), class: "outline-name" }, name);
}

/** Three quarters of a group: a few far away do not stretch its outline. */
function core(points) {
  const median = (values) => [...values].sort((a, b) => a - b)[Math.floor(values.length / 2)];
  const [x, y] = [median(points.map((point) => point[0])), median(points.map((point) => point[1]))];
  const away = (point) => Math.hypot(point[0] - x, point[1] - y);
  return [...points].sort((a, b) => away(a) - away(b)).slice(0, Math.max(3, Math.ceil(points.length * 0.75)));
}

function hull(points) {
  const sorted = [...points].sort((a, b) => a[0] - b[0] || a[1] - b[1]);
  const turn = (a, b, c) => (b[0] - a[0]) * (c[1] - a[1]) - (b[1] - a[1]) * (c[0] - a[0]);
  const half = (ordered) => {
    const chain = [];
    for (const point of ordered) {
      while (chain.length > 1 && turn(chain.at(-2), chain.at(-1), point) <= 0) chain.pop();
      chain.push(point);
    }
    return chain.slice(0, -1);
  };
  return [...half(sorted), ...half(sorted.reverse())];
}
