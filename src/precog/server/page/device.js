// Device: what stored states buy on a device that is described, one of the paper's, or this machine as measured.

import { call } from "./api.js";
import { announce, el, failure, field, loading, refocus, show } from "./dom.js";
import { bytes, counted, joules, seconds, times } from "./format.js";
import { Slider } from "./slider.js";
import { waterfall } from "./waterfall.js";

const WAYS = { inject: "state injected", "in-context": "read in context", "kv-cache": "KV loaded", "kv-recomputed": "KV recomputed" };
const KINDS = { tokenise: "tokenise", encode: "encode", search: "search", load: "load", inject: "inject", "read context": "read-context", "read question": "first-token", "first token": "first-token" };
const TITLES = { paper: "the paper's device", ufs4: "phone, UFS 4.0", ufs5: "phone, UFS 5.0", lpddr5: "LPDDR5", ddr5: "DDR5", hbm3: "HBM3" };
const WAIT_MS = 150;

export async function devicePage(main, closed) {
  show(main, el("h1", {}, "Device"), loading("Asking for the presets…"));
  let known;
  try {
    known = await call("GET", "/v1/edge", undefined, closed);
  } catch (error) {
    if (!closed.aborted && error.status !== 401) show(main, el("h1", {}, "Device"), failure(error, () => devicePage(main, closed)));
    return;
  }
  describe(main, known, closed);
}

function describe(main, known, closed) {
  const result = el("section", { "aria-label": "What it buys" });
  let [base, timer, asked, isMeasured, measuredNotes] = [{ preset: "paper" }, 0, null, false, []];
  const change = () => {
    clearTimeout(timer);
    timer = setTimeout(ask, WAIT_MS);
  };
  const slider = (label, unit, least, most, isWhole = false) => new Slider(label, unit, least, most, { isWhole, onChange: change });
  const device = {
    tok_per_s: slider("Tokens written", "a second", 0.1, 1e5),
    prefill_tok_per_s: slider("Tokens read", "a second", 0.1, 1e6),
    watts: slider("Power", "watts", 0.05, 1000),
    flash_gb_per_s: slider("Flash", "GB a second", 0.01, 5000),
    flash_latency_us: slider("Flash latency", "µs a read", 0.1, 1e5),
  };
  const question = {
    chunk: slider("Chunk", "tokens", 1, 1e5, true),
    query: slider("Question", "tokens", 1, 1000, true),
    answer: slider("Answer", "tokens", 1, 2000, true),
    top_k: slider("Injected", "chunks", 1, 100, true),
    state_bytes: slider("State", "bytes", 1e3, 1e8, true),
    chunks: slider("Corpus", "chunks", 1, 1e7, true),
  };
  const preset = el("select", {}, known.presets.map((one) => el("option", { value: one.preset }, TITLES[one.preset] || one.preset)), el("option", { value: "measured", hidden: true }, "this machine"));
  const measure = el("button", { type: "button", class: "primary" }, "Measure this machine");

  function fill(report, isNew) {
    const found = report.device;
    const values = { tok_per_s: found.decode_tok_per_sec, prefill_tok_per_s: found.prefill_tok_per_sec, watts: found.watts, flash_gb_per_s: found.flash_bytes_per_sec / 1e9, flash_latency_us: found.flash_latency_sec * 1e6 };
    for (const [name, one] of Object.entries(device)) {
      if (isNew) one.hasChanged = false;
      if (!one.hasChanged) one.put(values[name]);
    }
    const asked = report.question;
    const sizes = { chunk: asked.chunk_tokens, query: asked.query_tokens, answer: asked.answer_tokens, top_k: asked.top_k, state_bytes: asked.state_bytes, chunks: report.chunks };
    for (const [name, one] of Object.entries(question)) if (one.value === undefined || isNew) one.put(sizes[name]);
  }

  async function send(body, isNew, wait = null) {
    clearTimeout(timer);
    asked?.abort();
    const mine = new AbortController();
    asked = mine;
    const stop = () => mine.abort();
    closed.addEventListener("abort", stop);
    if (wait) show(result, wait);
    try {
      const report = await call("POST", "/v1/edge", body, mine.signal);
      if (body.measure) measuredNotes = report.notes;
      fill(report, isNew);
      show(result, told(report, isMeasured || report.measured, [...(base.device && !body.measure ? measuredNotes : []), ...report.notes]));
      return report;
    } catch (error) {
      if (error.name !== "AbortError") show(result, failure(error));
      return null;
    } finally {
      closed.removeEventListener("abort", stop);
    }
  }

  function sizes() {
    return Object.fromEntries(Object.entries(question).map(([name, one]) => [name, one.value]));
  }

  function ask() {
    const changed = Object.entries(device).filter(([, one]) => one.hasChanged && one.value !== null);
    return send({ ...base, ...sizes(), ...Object.fromEntries(changed.map(([name, one]) => [name, one.value])) }, false);
  }

  preset.addEventListener("change", () => {
    if (preset.value === "measured") return;
    base = { preset: preset.value };
    isMeasured = false;
    send(base, true);
  });
  measure.addEventListener("click", async () => {
    const sets = [measure, preset, ...main.querySelectorAll("fieldset")];
    for (const one of sets) one.disabled = true; // a change would stop the measurement
    const { state_bytes: _, ...others } = sizes();
    const report = await send({ measure: true, ...others }, true, loading("Measuring the disk, reading, writing, the encoder and the search of this machine; it takes some seconds…"));
    for (const one of sets) one.disabled = false;
    if (closed.aborted) return;
    refocus(measure);
    if (!report) return;
    base = { device: report.device };
    isMeasured = true;
    preset.querySelector("[value=measured]").hidden = false;
    preset.value = "measured";
    announce("Measured");
  });

  show(
    main,
    el("h1", {}, "Device"),
    el("p", { class: "muted" }, "What stored states buy on a device: time to the first token, energy and storage, beside reading the text in context and beside a KV cache. Virtual time, computed from the numbers below; a measured device has its numbers from this machine."),
    el("div", { class: "row" }, field("Device", preset), measure),
    el(
      "div",
      { class: "split" },
      el("div", { class: "sliders" }, el("fieldset", {}, el("legend", {}, "Device"), Object.values(device).map((one) => one.element)), el("fieldset", {}, el("legend", {}, "Question and corpus"), Object.values(question).map((one) => one.element))),
      result,
    ),
  );
  fill(known.report, true);
  show(result, told(known.report, false, known.report.notes));
}

function told(report, isMeasured, notes) {
  const inject = report.ways.find((way) => way.way === "inject");
  const rows = report.ways.map((way) => ({
    name: WAYS[way.way],
    stages: way.stages.filter((stage) => stage.name !== "answer").map((stage) => ({ name: stage.name, sec: stage.end_sec - stage.start_sec, kind: KINDS[stage.name] })),
  }));
  const pays = report.questions_to_pay === null ? "no question pays for it" : `paid for after ${counted(report.questions_to_pay, "question")}`;
  return el(
    "div",
    {},
    el("h2", {}, report.device.name, isMeasured && el("span", { class: "badge on" }, "measured")),
    el("p", { class: "verdict" }, el("strong", {}, `${seconds(inject.ttft_sec)} to the first token, ${times(report.ttft_speedup, "sooner", "later")} than reading in context.`), ` Finding and injecting adds ${seconds(report.injection_overhead_sec)} to a question.`),
    waterfall(rows, "From the question to the first token"),
    el(
      "div",
      { class: "scroll", tabindex: "0", role: "region", "aria-label": "Cost of each way" },
      el(
        "table",
        { class: "costs" },
        el("thead", {}, el("tr", {}, ["way", "answer ended", "energy", "read from flash", "corpus stored"].map((text, at) => el("th", { scope: "col", class: at ? "figure" : "" }, text)))),
        el(
          "tbody",
          {},
          report.ways.map((way) => el("tr", {}, el("th", { scope: "row" }, WAYS[way.way]), [seconds(way.total_sec), joules(way.joules), bytes(way.bytes_read), bytes(way.storage_bytes)].map((text) => el("td", { class: "figure" }, text)))),
        ),
      ),
    ),
    el("p", {}, `Injecting is sooner than reading for chunks of ${counted(report.break_even_tokens, "token")} or more. Reading the whole corpus once on this device takes ${seconds(report.encode_corpus_sec)}: ${pays}.`),
    !report.composition_exact && el("p", { class: "notice" }, "The average of several states is approximate."),
    el("ul", { class: "notes" }, [...notes, "KV cache: that of Llama-3.2-1B, of a model taken to be as fast; loaded as a prefix from flash, or computed again"].map((line) => el("li", {}, line))),
  );
}
