// Memory: what is remembered, by meaning and by time; search, remember, forget with a receipt.

import { call } from "./api.js";
import { confirmed } from "./confirm.js";
import { announce, el, empty, failure, field, loading, show } from "./dom.js";
import { bytes, counted, seconds } from "./format.js";
import { memoryMap, pointOut } from "./map.js";
import { receipt } from "./receipt.js";
import { timeline } from "./timeline.js";

const ME = "/v1/memories/me";
const PAGE = 20;

export function memoryPage(main, closed) {
  const chosen = new Set();
  const about = el("p", { class: "muted" });
  const told = el("div", {});
  const map = el("section", { "aria-label": "Map" });
  const list = el("div", {});
  const listTitle = el("h2", { tabindex: "-1" }, "Timeline");
  const forgetButton = el("button", { type: "button", class: "danger", disabled: true }, "Forget");
  const back = el("button", { type: "button", class: "quiet", hidden: true }, "Show all");
  const isOver = (error) => closed.aborted || error.status === 401;

  function choice() {
    forgetButton.disabled = !chosen.size;
    forgetButton.textContent = chosen.size ? `Forget ${chosen.size} chosen` : "Forget";
  }

  async function load() {
    show(list, loading("Opening the memory…"));
    try {
      const stats = await call("GET", ME, undefined, closed);
      about.textContent = `${counted(stats.num_deposits, "deposit")} in ${counted(stats.num_subclusters, "sub-cluster")}, ${counted(stats.num_tokens, "token")} read once; ${bytes(stats.state_bytes)} of states, ${bytes(stats.disk_bytes)} on disk. A deposit is one thing that was said, kept as text and as the state that reading it leaves; a sub-cluster is what it is about.`;
      show(about, about.textContent, stats.notes.map((line) => el("span", { class: "error" }, ` ${line}`)));
      if (!stats.num_deposits) return nothing();
      await Promise.all([all(), draw()]);
    } catch (error) {
      if (isOver(error)) return;
      if (error.status === 404) nothing();
      else show(list, failure(error, load));
    }
  }

  function nothing() {
    about.textContent = "";
    show(map);
    show(list, empty(el("p", {}, "Nothing is remembered yet. What you remember here is kept as text and as states, and found by meaning. Conversations of this user remember, too.")));
  }

  async function draw() {
    show(map, el("h2", {}, "Map"), loading("Laying it out…"));
    try {
      const found = await call("GET", `${ME}/map`, undefined, closed);
      show(map, el("h2", {}, "Map"), memoryMap(found, group), el("p", { class: "muted" }, "A point is a deposit; where there are enough of them, near points mean alike. Choose a group or a point to see what was said."));
    } catch (error) {
      if (!isOver(error)) show(map, el("h2", {}, "Map"), failure(error));
    }
  }

  /** The newest deposits, and older ones on demand. */
  async function all(before = null, shown = []) {
    back.hidden = true;
    listTitle.textContent = "Timeline";
    pointOut(map, []);
    const found = await call("GET", `${ME}/deposits?limit=${PAGE}${before ? `&before=${before}` : ""}`, undefined, closed);
    const deposits = [...shown, ...found.deposits.reverse()];
    const more = el("button", { type: "button" }, "Show older");
    more.addEventListener("click", async () => {
      await all(found.older, deposits).catch((error) => show(list, failure(error)));
      list.querySelectorAll("input")[deposits.length]?.focus({ preventScroll: true });
    });
    show(list, timeline(deposits, chosen, choice), found.older && more);
  }

  async function group(domain, name, ids) {
    listTitle.textContent = `${domain} ▸ ${name}`;
    back.hidden = false;
    pointOut(map, ids);
    show(list, loading("Looking them up…"));
    listTitle.focus();
    try {
      const deposits = await Promise.all(ids.slice(0, 100).map((id) => call("GET", `${ME}/deposits/${id}`, undefined, closed)));
      show(list, timeline(deposits.reverse(), chosen, choice));
    } catch (error) {
      if (!isOver(error)) show(list, failure(error));
    }
  }

  async function search(event) {
    event.preventDefault();
    show(told);
    show(list, loading("Searching…"));
    listTitle.textContent = "Found";
    back.hidden = false;
    try {
      const found = await call("POST", `${ME}/recall`, { query: query.value, top_k: 10 }, closed);
      const took = Object.entries(found.timings_sec).map(([name, value]) => `${name.replaceAll("_", " ")} ${seconds(value)}`).join(", ");
      show(list, el("p", { class: "muted" }, `${Math.round(found.fraction_searched * 100)} % of the memory searched; ${took}.`), found.evidence.length ? timeline(found.evidence, chosen, choice) : empty(el("p", {}, "Nothing bears on that.")));
      pointOut(map, found.evidence.map((deposit) => deposit.id));
      announce(`${counted(found.evidence.length, "deposit")} found`);
    } catch (error) {
      if (!isOver(error)) show(list, failure(error));
    }
  }

  async function remember(event) {
    event.preventDefault();
    try {
      const made = await call("POST", `${ME}/deposits`, { text: words.value, ...(speaker.value && { speaker: speaker.value }) });
      const where = made.groups.map((pair) => pair.join(" ▸ ")).join(", ");
      show(told, el("p", { class: "done" }, made.duplicates ? "That was known already." : `Remembered as #${made.ids.join(", #")} under ${where}.`));
      announce("Remembered");
      words.value = "";
      await load();
    } catch (error) {
      show(told, failure(error));
    }
  }

  async function forget() {
    const ids = [...chosen];
    const [its, it] = ids.length === 1 ? ["Its", "it"] : ["Their", "they"];
    const line = `${its} text, keys and states go, summaries are made anew, and every byte of the memory is searched for what ${it} left.`;
    if (!(await confirmed(`Forget ${counted(ids.length, "deposit")}?`, line, "Forget"))) return;
    show(told, loading("Forgetting, and searching every byte…"));
    try {
      const paper = receipt(ids.map((id) => `#${id}`).join(", "), await call("POST", `${ME}/forget`, { ids, proof: true }));
      chosen.clear();
      choice();
      show(told, paper);
      paper.focus();
      announce("Forgotten");
      await load();
    } catch (error) {
      show(told, failure(error));
    }
  }

  const query = el("input", { type: "search", required: true, autocomplete: "off" });
  const words = el("input", { type: "text", required: true, autocomplete: "off" });
  const speaker = el("input", { type: "text", autocomplete: "off", size: "12" });
  forgetButton.addEventListener("click", forget);
  back.addEventListener("click", () => {
    all().catch((error) => show(list, failure(error)));
    listTitle.focus({ preventScroll: true });
  });
  show(
    main,
    el("h1", {}, "Memory"),
    about,
    map,
    el(
      "section",
      { "aria-label": "Deposits" },
      el("form", { class: "row", role: "search", onsubmit: search }, el("label", { class: "field grow" }, el("span", {}, "Search what was said"), query), el("button", { class: "primary" }, "Search")),
      el("details", { class: "make" }, el("summary", {}, "Remember something"), el("form", { class: "row", onsubmit: remember }, el("label", { class: "field grow" }, el("span", {}, "What was said"), words), field("By", speaker), el("button", {}, "Remember"))),
      el("div", { class: "bar-head sticky" }, listTitle, el("span", { class: "row" }, back, forgetButton)),
      told,
      list,
    ),
  );
  load();
}
