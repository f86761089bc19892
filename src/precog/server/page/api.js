// Requests to the server that this page came from. The key stays in the session's storage and in a header: never in an address.

const STORED = "precog-key";

/** What the server refuses, in its words. */
export class ApiError extends Error {
  constructor(status, told) {
    super(told.message || `the server answered ${status}`);
    Object.assign(this, { status, code: told.code, given: told.given, expected: told.expected, hint: told.hint });
  }
}

export const key = {
  get: () => sessionStorage.getItem(STORED),
  set: (text) => sessionStorage.setItem(STORED, text),
  forget: () => sessionStorage.removeItem(STORED),
};

let onKeyNeeded = () => {};

/** Whom to tell that a key is needed, or is none. */
export function whenKeyIsNeeded(listener) {
  onKeyNeeded = listener;
}

async function answer(method, path, body, signal) {
  const headers = { Accept: "application/json, text/event-stream" };
  if (key.get()) headers.Authorization = `Bearer ${key.get()}`;
  const isForm = body instanceof FormData;
  if (body !== undefined && !isForm) headers["Content-Type"] = "application/json";
  let response;
  try {
    response = await fetch(path, { method, headers, body: isForm || body === undefined ? body : JSON.stringify(body), signal });
  } catch (error) {
    if (error.name === "AbortError") throw error;
    throw new ApiError(0, { message: "the server does not answer", hint: "see whether `precog serve` still runs" });
  }
  if (response.ok) return response;
  const told = await response.json().then((data) => data.error, () => ({}));
  if (response.status === 401) onKeyNeeded(told);
  throw new ApiError(response.status, told || {});
}

/** The object that a request is answered with. */
export async function call(method, path, body, signal) {
  return (await answer(method, path, body, signal)).json();
}

/** Events of an answer as they come: [name, data]. EventSource cannot send a key, so the stream is read by hand. */
export async function* events(method, path, body, signal) {
  const response = await answer(method, path, body, signal);
  const reader = response.body.pipeThrough(new TextDecoderStream()).getReader();
  let rest = "";
  for (;;) {
    let piece;
    try {
      piece = await reader.read();
    } catch (error) {
      if (error.name === "AbortError") throw error;
      throw new ApiError(0, { message: "the connection was lost" });
    }
    if (piece.done) return;
    const blocks = (rest + piece.value.replaceAll("\r\n", "\n")).split("\n\n");
    rest = blocks.pop();
    for (const block of blocks) {
      const event = parsed(block);
      if (!event) continue;
      if (event[0] === "error") throw new ApiError(0, event[1].error);
      yield event;
    }
  }
}

function parsed(block) {
  let name = "message";
  const data = [];
  for (const line of block.split("\n")) {
    if (line.startsWith("event:")) name = line.slice(6).trim();
    else if (line.startsWith("data:")) data.push(line.slice(5).trimStart());
  }
  return data.length ? [name, JSON.parse(data.join("\n"))] : null;
}

/** A path whose parts may hold anything. */
export function path(strings, ...parts) {
  return strings.reduce((whole, text, index) => whole + encodeURIComponent(parts[index - 1]) + text);
}
