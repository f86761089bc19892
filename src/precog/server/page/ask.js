// Ask: an answer as it comes, where it stands, what it cost, and what reading would have cost.

import { call, events, path } from "./api.js";
import { chosen } from "./choice.js";
import { announce, el, empty, failure, field, loading, refocus, show } from "./dom.js";
import { bytes, counted, figure, seconds, times } from "./format.js";
import { marked, showSource } from "./source.js";
import { steps } from "./waterfall.js";

const STAGES = [
  ["encode", "encode"],
  ["search", "search"],
  ["load", "load"],
  ["inject", "inject"],
  ["first_token", "first token"],
];

export async function askPage(main, closed) {
  show(main, el("h1", {}, "Ask"), loading("Looking for corpora…"));
  let corpora;
  try {
    corpora = (await call("GET", "/v1/corpora", undefined, closed)).data.filter((corpus) => corpus.chunks > 0);
  } catch (error) {
    if (closed.aborted || error.status === 401) return;
    show(main, el("h1", {}, "Ask"), failure(error, () => askPage(main, closed)));
    return;
  }
  if (!corpora.length) {
    show(
      main,
      el("h1", {}, "Ask"),
      empty(
        el("p", {}, "There are no documents yet. The model reads each chunk of a document once and keeps the state it is left with; a question then starts in that state, and nothing is read again."),
        el("p", {}, el("a", { class: "button primary", href: "#corpora" }, "Add documents")),
      ),
    );
    return;
  }
  form(main, corpora, closed);
}

function form(main, corpora, closed) {
  const about = el("p", { class: "muted" });
  const corpus = el("select", {}, corpora.map((one) => el("option", { value: one.name }, one.name)));
  if (corpora.some((one) => one.name === chosen.get())) corpus.value = chosen.get();
  const tell = () => {
    const one = corpora.find((entry) => entry.name === corpus.value);
    chosen.set(one.name);
    show(
      about,
      `A state is what the model is left with after reading a chunk: ${bytes(one.state_bytes)} here, however long the chunk. ` +
        `${counted(one.chunks, "chunk")} of ${counted(one.documents, "document")}, ${counted(one.tokens, "token")}, were read once and their states kept. ` +
        "A question starts in the state that fits it, and only the question is read.",
    );
  };
  corpus.addEventListener("change", tell);
  tell();
  const question = el("input", { type: "text", required: true, autocomplete: "off", maxlength: "16000" });
  const compare = el("input", { type: "checkbox", checked: true });
  const button = el("button", { class: "primary" }, "Ask");
  const stop = el("button", { type: "button", class: "quiet", hidden: true }, "Stop");
  const result = el("section", { "aria-label": "Answer" });
  let running = null;
  closed.addEventListener("abort", () => running?.abort());
  stop.addEventListener("click", () => running?.abort());

  async function ask(event) {
    event.preventDefault();
    if (running || !question.value.trim()) return;
    running = new AbortController();
    button.disabled = true;
    stop.hidden = false;
    try {
      await answered(result, corpora.find((one) => one.name === corpus.value), question.value, compare.checked, running.signal);
    } catch (error) {
      if (error.name !== "AbortError") show(result, failure(error, error.status === 404 ? () => askPage(main, closed) : null));
      else if (!closed.aborted) result.append(el("p", { class: "notice" }, "Stopped."));
    } finally {
      running = null;
      button.disabled = false;
      stop.hidden = true;
      if (!closed.aborted) refocus(button);
    }
  }

  show(
    main,
    el("h1", {}, "Ask"),
    el(
      "form",
      { class: "row", onsubmit: ask },
      field("Corpus", corpus),
      el("label", { class: "field grow" }, el("span", {}, "Question"), question),
      button,
      stop,
      el("label", { class: "check" }, compare, "measure reading in context, too"),
    ),
    about,
    result,
  );
  question.focus({ preventScroll: true });
}

async function answered(result, { name: corpus, codec }, question, compares, signal) {
  const text = el("p", { class: "answer", "aria-busy": "true" });
  const wait = loading("Finding the state…");
  show(result, text, wait);
  const answer = await streamed(corpus, { question, mode: "inject" }, signal, (piece) => {
    wait.remove();
    text.append(piece);
  });
  wait.remove();
  text.removeAttribute("aria-busy");
  show(text, answer.text);
  const from = answer.citation && answer.sources[answer.citation.source];
  announce(`Answer: ${answer.text}${from ? `, from ${from.document}${from.page ? `, page ${from.page}` : ""}` : ""}`);
  text.classList.toggle("none", answer.abstained);
  const cost = el("section", { "aria-label": "What it cost" });
  result.append(...[sureness(answer, codec), ...sources(corpus, answer, cost)].filter(Boolean));
  costs(cost, corpus, question, answer, null, signal);
  if (compares) await compared(cost, corpus, question, answer, signal);
}

async function streamed(corpus, body, signal, onText) {
  for await (const [name, data] of events("POST", path`/v1/corpora/${corpus}/ask`, { ...body, stream: true }, signal)) {
    if (name === "delta") onText(data.text);
    if (name === "answer") return data;
  }
  throw new Error("the answer broke off");
}

function sureness(answer, codec) {
  if (answer.confidence === null) return null;
  const percent = Math.round(answer.confidence * 100);
  const told = answer.abstained ? `The best passage holds an answer with a probability of ${percent} %: too little to say one.` : `Confidence ${percent} %.`;
  const kept = codec === "fp32" ? "." : `, kept as ${codec}.`;
  const exact = answer.composition.exact && !answer.abstained ? ` The state is the one that reading the chunk leaves${kept}` : "";
  return el("p", { class: "muted" }, told + exact);
}

/** The source that was used, what the answer cost, and what else was found. */
function sources(corpus, answer, cost) {
  const found = answer.abstained ? answer.looked_at : answer.sources;
  const used = answer.composition.members.map((member) => member.source);
  const entries = found.map((source, number) => {
    const cited = !answer.abstained && answer.citation && answer.citation.source === number ? answer.citation : null;
    const isUsed = Boolean(cited) || (!answer.abstained && used.includes(number));
    return [isUsed, entry(corpus, source, cited, cited ? "answered from this state" : isUsed ? "state injected" : answer.abstained ? "looked at" : "found, not used", isUsed)];
  });
  const [mine, others] = [entries.filter(([isUsed]) => isUsed), entries.filter(([isUsed]) => !isUsed)].map((some) => some.map(([, item]) => item));
  const list = (items) => el("ul", { class: "sources" }, items);
  return [
    mine.length ? el("section", { "aria-label": "Source" }, el("h2", {}, "Where it comes from"), list(mine)) : null,
    cost,
    others.length ? el("details", { class: "others-found", open: !mine.length }, el("summary", {}, mine.length ? `Also found: ${counted(others.length, "chunk")}` : "What was looked at"), list(others)) : null,
  ];
}

function entry(corpus, source, cited, badge, isUsed) {
  const place = [source.page && `page ${source.page}`, `characters ${source.span[0]}–${source.span[1]}`].filter(Boolean).join(", ");
  const open = el("button", { type: "button", class: "quiet", "aria-label": `Show ${source.document}, ${place}, in the document` }, "Show in document");
  open.addEventListener("click", () => showSource(corpus, source, cited, open));
  return el(
    "li",
    { class: isUsed ? "used" : "" },
    el("div", { class: "bar-head" }, el("span", { class: "source-name" }, el("strong", {}, source.document), el("span", { class: "muted" }, place), el("span", { class: `badge ${isUsed ? "on" : ""}` }, badge)), open),
    el("blockquote", {}, marked(source, cited)),
  );
}

function rowOf(name, answer) {
  const stages = STAGES.filter(([key]) => answer.timings_sec[key] > 0).map(([key, label]) => ({ name: label, sec: answer.timings_sec[key], kind: key.replace("_", "-") }));
  return { name, note: `the model read ${counted(answer.tokens_processed, "token")}`, stages };
}

function costs(cost, corpus, question, answer, reading, signal, below = null) {
  const rows = [rowOf("state injected", answer)];
  if (reading) rows.push(rowOf("read in context", reading));
  const measure = el("button", { type: "button" }, "Measure reading in context");
  measure.addEventListener("click", () => compared(cost, corpus, question, answer, signal).catch((error) => error.name === "AbortError" || cost.append(failure(error))));
  show(
    cost,
    el("h2", {}, "What it cost"),
    reading && verdict(answer, reading),
    steps(rows, "As measured on this machine just now. Encode makes a key of the question, search finds the chunk, load and inject bring its state from disk into the model; the first token includes reading the question, and in context the chunk before it."),
    reading ? null : below || measure,
  );
}

function verdict(answer, reading) {
  const [ours, theirs] = [answer.timings_sec.ttft, reading.timings_sec.ttft];
  const isSame = reading.text === answer.text;
  const same = !isSame ? `Reading answers: ${reading.text}` : answer.abstained ? "Neither way finds an answer." : "The answer is the same both ways.";
  const read = `${figure(answer.tokens_processed)} tokens instead of ${figure(reading.tokens_processed)}`;
  return el("p", { class: "verdict" }, el("strong", {}, `${seconds(ours)} to the first token, ${times(theirs / ours, "sooner", "later")} than reading.`), ` The model read ${read}. ${same}`);
}

async function compared(cost, corpus, question, answer, signal) {
  costs(cost, corpus, question, answer, null, signal, loading("Measuring the same question with the text read in context…"));
  try {
    const reading = await streamed(corpus, { question, mode: "in-context" }, signal, () => {});
    costs(cost, corpus, question, answer, reading, signal);
    announce(cost.querySelector(".verdict").textContent);
  } catch (error) {
    costs(cost, corpus, question, answer, null, signal);
    throw error;
  }
}
