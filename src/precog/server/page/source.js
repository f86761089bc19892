// A source in its document: the chunk that the state has read, and in it the characters that answer.

import { call, path } from "./api.js";
import { cut, el, failure, loading, show } from "./dom.js";

const MOST_CHUNKS = 1000;

/** A dialog that shows a document with the source marked. */
export async function showSource(corpus, source, citation, opener) {
  const body = el("div", { class: "document", tabindex: "0", role: "region", "aria-label": `Text of ${source.document}` }, loading("Opening the document…"));
  const dialog = el(
    "dialog",
    { class: "wide", "aria-labelledby": "document-title" },
    el(
      "div",
      { class: "bar-head" },
      el("h2", { id: "document-title" }, source.document),
      el("button", { type: "button", class: "quiet", onclick: () => dialog.close() }, "Close"),
    ),
    el("p", { class: "legend" }, el("span", { class: "chunk-mark" }, "what its state has read"), citation && el("mark", {}, "what answers")),
    body,
  );
  dialog.addEventListener("close", () => {
    dialog.remove();
    opener.focus();
  });
  document.body.append(dialog);
  dialog.showModal();
  try {
    const found = await call("GET", `${path`/v1/corpora/${corpus}/documents/${source.document}`}?limit=${MOST_CHUNKS}`);
    show(body, whole(found.chunks, source, citation), found.chunks.length === MOST_CHUNKS && el("p", { class: "muted" }, "The document goes on; this is its beginning."));
    (body.querySelector("mark") || body.querySelector(".chunk-mark"))?.scrollIntoView({ block: "center" });
  } catch (error) {
    show(body, failure(error));
  }
}

/** The text of a source with the characters that answer marked. */
export function marked(source, citation) {
  const isHere = citation && citation.document === source.document && citation.span[0] >= source.span[0] && citation.span[1] <= source.span[1];
  const spans = isHere ? [citation.span] : [source.focus].filter(Boolean);
  return pieces(source.text, source.span[0], spans, isHere ? "mark" : "u");
}

function pieces(text, offset, spans, tag) {
  const parts = [];
  let at = 0;
  for (const [start, end] of spans) {
    parts.push(cut(text, at, start - offset), el(tag, {}, cut(text, start - offset, end - offset)));
    at = end - offset;
  }
  parts.push(cut(text, at, undefined));
  return parts;
}

function whole(chunks, source, citation) {
  let reached = 0;
  const parts = [];
  for (const chunk of chunks) {
    const [start, end] = chunk.span;
    if (end <= reached) continue;
    if (start > reached && parts.length) parts.push("\n\n");
    const isIt = start === source.span[0] && end === source.span[1];
    const from = Math.max(start, reached);
    const text = cut(chunk.text, from - start, undefined);
    if (isIt) parts.push(el("span", { class: "chunk-mark" }, from === start ? marked({ ...source, text: chunk.text }, citation) : text));
    else parts.push(text);
    reached = end;
  }
  return parts;
}
