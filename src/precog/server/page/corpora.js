// Corpora: make one, drop a folder into it, watch it being read, see what failed and what each document takes, delete.

import { call, path } from "./api.js";
import { chosen } from "./choice.js";
import { confirmed } from "./confirm.js";
import { announce, el, empty, failure, field, loading, refocus, show, svg } from "./dom.js";
import { bytes, counted } from "./format.js";
import { followed } from "./job.js";
import { receipt } from "./receipt.js";
import { dropZone, uploaded } from "./upload.js";

const PAGE = 200;

export async function corporaPage(main, closed) {
  const list = el("section", { "aria-label": "Corpora" }, loading("Looking for corpora…"));
  const detail = el("section", { "aria-label": "Corpus" });
  show(main, el("h1", {}, "Corpora"), list, detail);
  let corpora = [];

  async function load() {
    try {
      corpora = (await call("GET", "/v1/corpora", undefined, closed)).data;
    } catch (error) {
      if (!closed.aborted && error.status !== 401) show(list, failure(error, load));
      return;
    }
    arrange();
  }

  function arrange() {
    draw();
    const name = corpora.some((one) => one.name === chosen.get()) ? chosen.get() : corpora[0]?.name;
    if (name) open(name);
    else show(detail);
  }

  function draw() {
    show(list, corpora.length ? tableOf(corpora, open) : empty(el("p", {}, "There is no corpus yet. A corpus is a set of documents, the states that reading them left, and the keys these are found by.")), creation(created, !corpora.length));
  }

  async function created(corpus) {
    chosen.set(corpus.name);
    await load();
    detail.querySelector("h2")?.focus();
  }

  function open(name) {
    chosen.set(name);
    mark(name);
    const corpus = corpora.find((one) => one.name === name);
    corpusDetail(detail, corpus, closed, async () => {
      corpora = (await call("GET", "/v1/corpora", undefined, closed)).data;
      draw();
      mark(name);
      return corpora.find((one) => one.name === name);
    }, () => isGone(name));
  }

  function mark(name) {
    for (const row of list.querySelectorAll("tbody tr")) {
      row.classList.toggle("on", row.dataset.name === name);
      row.querySelector("button").setAttribute("aria-current", String(row.dataset.name === name));
    }
  }

  /** Whether a corpus was deleted, here, in another tab or by another program; then that is said, and another is opened. */
  async function isGone(name) {
    corpora = (await call("GET", "/v1/corpora", undefined, closed)).data;
    if (corpora.some((one) => one.name === name)) return false;
    arrange();
    announce(`${name} is deleted`);
    list.prepend(el("p", { class: "notice" }, `${name} is deleted.`));
    refocus(main);
    return true;
  }

  await load();
}

function tableOf(corpora, open) {
  const cells = (one) =>
    one.error
      ? [el("td", { colspan: "4", class: "error" }, one.error.message)]
      : [one.documents.toLocaleString("en"), one.chunks.toLocaleString("en"), one.failed.toLocaleString("en"), bytes(one.bytes)].map((text) => el("td", { class: "figure" }, text));
  return el(
    "div",
    { class: "scroll", tabindex: "0", role: "region", "aria-label": "All corpora" },
    el(
      "table",
      { class: "choose" },
      el("thead", {}, el("tr", {}, ["corpus", "documents", "chunks", "failed", "on disk"].map((text, at) => el("th", { scope: "col", class: at ? "figure" : "" }, text)))),
      el(
        "tbody",
        {},
        corpora.map((one) => {
          const button = el("button", { type: "button", class: "link", onclick: () => open(one.name) }, one.name);
          const row = el("tr", {}, el("th", { scope: "row" }, button, one.shared && el("span", { class: "badge" }, "shared")), cells(one));
          row.dataset.name = one.name;
          return row;
        }),
      ),
    ),
  );
}

function creation(onMade, isFirst) {
  const name = el("input", { type: "text", required: true, placeholder: "a–z, 0–9, - and _", pattern: "[a-z0-9][a-z0-9_\\-]{0,62}", title: "a–z, 0–9, - and _", autocomplete: "off" });
  const quality = el("select", {}, [["fast", "fast: read once"], ["twice", "twice: read twice"], ["study", "study: each sentence, too"]].map(([value, text]) => el("option", { value }, text)));
  const codec = el("select", {}, [["fp16", "16 bits"], ["int8", "8 bits"], ["int4-rot", "4 bits"]].map(([value, text]) => el("option", { value }, text)));
  const place = el("div", {});
  async function make(event) {
    event.preventDefault();
    show(place);
    try {
      await onMade(await call("POST", "/v1/corpora", { name: name.value, quality: quality.value, codec: codec.value }));
    } catch (error) {
      show(place, failure(error));
    }
  }
  return el("details", { class: "make", open: isFirst }, el("summary", {}, "New corpus"), el("form", { class: "row", onsubmit: make }, field("Name", name), field("Quality", quality), field("States in", codec), el("button", { class: "primary" }, "Make")), place);
}

function corpusDetail(detail, corpus, closed, refreshed, isGone) {
  if (corpus.error) {
    show(detail, el("h2", {}, corpus.name), failure(corpus.error));
    return;
  }
  const [papers, jobs] = [el("div", {}), el("div", {})];
  const documents = el("div", {}, loading("Listing documents…"));
  const summary = el("p", { class: "muted" });
  const remove = el("button", { type: "button", class: "danger quiet" }, "Delete corpus");

  function tell(one) {
    corpus = one;
    summary.textContent = `${counted(one.tokens, "token")} in ${counted(one.chunks, "chunk")}; ${counted(one.states, "state")} of ${bytes(one.state_bytes)} (${one.codec}, ${one.quality}), read by ${one.model}; ${bytes(one.bytes)} on disk.`;
  }

  async function list() {
    try {
      const found = await call("GET", `${path`/v1/corpora/${corpus.name}/documents`}?limit=${PAGE}`, undefined, closed);
      const failed = await call("GET", `${path`/v1/corpora/${corpus.name}/failures`}?limit=${PAGE}`, undefined, closed);
      const sound = found.data.filter((one) => one.status !== "failed");
      const none = empty(el("p", {}, "There is nothing in this corpus yet."));
      show(documents, failures(failed, forget), sound.length ? table(sound, found.total - failed.total, corpus, forget) : failed.total ? null : none);
    } catch (error) {
      if (closed.aborted || (error.status === 404 && (await isGone().catch(() => false)))) return;
      show(documents, failure(error, list));
    }
  }

  async function add(files) {
    try {
      for await (const job of uploaded(corpus.name, files, closed)) {
        await followed(jobs, job, closed);
        await update();
      }
    } catch (error) {
      if (closed.aborted) return;
      if (error.status === 404 && (await isGone().catch(() => false))) return;
      jobs.append(failure(error));
    }
  }

  /** What the corpus holds by now. */
  async function update() {
    const one = await refreshed();
    if (one) tell(one);
    await list();
  }

  async function forget(document) {
    const told = `${document} goes with its text, keys and states, and every byte of the corpus is searched for what it left.`;
    if (!(await confirmed("Delete this document?", told, "Delete document"))) return;
    const wait = loading(`Forgetting ${document}…`);
    show(papers, wait);
    try {
      const paper = receipt(document, await call("DELETE", path`/v1/corpora/${corpus.name}/documents/${document}`));
      show(papers, paper);
      paper.focus();
      announce(`${document} is forgotten`);
    } catch (error) {
      show(papers, failure(error));
    }
    await update().catch(() => list());
  }

  remove.addEventListener("click", async () => {
    if (!(await confirmed("Delete this corpus?", `${corpus.name} goes with all its documents, states and jobs, and answers that have read it.`, "Delete corpus"))) return;
    try {
      await call("DELETE", path`/v1/corpora/${corpus.name}`);
    } catch (error) {
      if (error.status !== 404) return show(papers, failure(error));
    }
    await isGone().catch((error) => closed.aborted || show(papers, failure(error)));
  });

  tell(corpus);
  show(
    detail,
    el("div", { class: "bar-head" }, el("h2", { tabindex: "-1" }, corpus.name), !corpus.shared && remove),
    summary,
    corpus.shared ? el("p", { class: "notice" }, "This corpus is shared: everybody may ask it, nobody may change it.") : dropZone(add),
    papers,
    jobs,
    documents,
  );
  list();
  running(corpus, jobs, closed, update);
}

/** Jobs that were begun before this page was opened. */
async function running(corpus, place, closed, onEnd) {
  try {
    const { data } = await call("GET", "/v1/jobs", undefined, closed);
    for (const job of data.filter((one) => one.corpus === corpus.name && one.ended === null)) followed(place, job, closed).then(onEnd, () => {});
  } catch {
    // the list itself tells what is wrong
  }
}

function failures(failed, forget) {
  if (!failed.total) return null;
  const row = (one) => {
    const button = el("button", { type: "button", class: "quiet", onclick: () => forget(one.document), "aria-label": `Delete ${one.document}` }, "Delete");
    return el("li", {}, el("span", {}, el("strong", {}, one.document), `: ${one.reason}`), button);
  };
  return el("section", { class: "failures", "aria-label": "Failures" }, el("h3", {}, `${counted(failed.total, "document")} could not be read`), el("ul", {}, failed.data.map(row)));
}

function table(documents, total, corpus, forget) {
  const largest = Math.max(...documents.map((one) => one.state_bytes), 1);
  const row = (one) => {
    const button = el("button", { type: "button", class: "quiet", onclick: () => forget(one.document), "aria-label": `Delete ${one.document}` }, "Delete");
    const bar = svg("svg", { viewBox: "0 0 100 8", class: "share", "aria-hidden": "true" }, svg("rect", { width: 100, height: 8, class: "ground" }), svg("rect", { width: (100 * one.state_bytes) / largest, height: 8, class: "stage inject" }));
    return el(
      "tr",
      {},
      el("th", { scope: "row" }, one.document, one.warnings.map((text) => el("small", { class: "muted" }, text))),
      el("td", { class: "figure wide-only" }, bytes(one.bytes)),
      el("td", { class: "figure" }, one.chunks.toLocaleString("en")),
      el("td", { class: "figure wide-only" }, bar),
      el("td", { class: "figure" }, bytes(one.state_bytes)),
      el("td", { class: "figure" }, !corpus.shared && button),
    );
  };
  const heads = [["document"], ["file", "figure wide-only"], ["chunks", "figure"], ["", "wide-only"], ["states", "figure"], ["", ""]];
  return el(
    "div",
    {},
    el("h3", {}, counted(total, "document")),
    el(
      "div",
      { class: "scroll", tabindex: "0", role: "region", "aria-label": "Documents" },
      el("table", {}, el("thead", {}, el("tr", {}, heads.map(([text, name]) => (text ? el("th", { scope: "col", class: name }, text) : el("td", { class: name }))))), el("tbody", {}, documents.map(row))),
    ),
    total > PAGE && el("p", { class: "muted" }, `The first ${PAGE} are shown.`),
  );
}
