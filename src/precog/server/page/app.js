// Which page is shown, and the key where the server wants one.

import { call, key, whenKeyIsNeeded } from "./api.js";
import { askPage } from "./ask.js";
import { corporaPage } from "./corpora.js";
import { devicePage } from "./device.js";
import { el, failure, field, show } from "./dom.js";
import { memoryPage } from "./memory.js";

const PAGES = { ask: ["Ask", askPage], corpora: ["Corpora", corporaPage], memory: ["Memory", memoryPage], device: ["Device", devicePage] };
const main = document.getElementById("main");
const leave = document.getElementById("leave");
let close = () => {};
let isAskingKey = false;

function route(event) {
  const name = location.hash.slice(1);
  if (name === "main") return main.focus();
  const [title, page] = PAGES[name] || PAGES.ask;
  document.title = `${title} – PRECOG`;
  for (const link of document.querySelectorAll("nav a")) {
    if (link.textContent === title) link.setAttribute("aria-current", "page");
    else link.removeAttribute("aria-current");
  }
  isAskingKey = false;
  close();
  const stopped = new AbortController();
  close = () => stopped.abort();
  leave.hidden = !key.get();
  page(show(main), stopped.signal);
  if (event) main.focus({ preventScroll: true });
}

function askKey(told) {
  if (isAskingKey) return;
  isAskingKey = true;
  close();
  const wasTried = Boolean(key.get());
  key.forget();
  leave.hidden = true;
  const input = el("input", { type: "password", autocomplete: "off", required: true, spellcheck: "false" });
  const enter = (event) => {
    event.preventDefault();
    key.set(input.value.trim());
    start();
  };
  show(
    main,
    el("h1", {}, "This server needs a key"),
    el("p", {}, "Whoever runs the server makes one with ", el("code", {}, "precog keys create --user NAME"), ". It is kept in this tab until you close it."),
    wasTried && failure(told),
    el("form", { class: "row", onsubmit: enter }, field("Key", input), el("button", { class: "primary" }, "Enter")),
  );
  input.focus();
}

async function start() {
  isAskingKey = false;
  try {
    const models = await call("GET", "/v1/models");
    document.getElementById("model").textContent = models.data.length ? models.data[0].id : "";
  } catch (error) {
    if (error.status === 401) return;
  }
  route();
}

whenKeyIsNeeded(askKey);
leave.addEventListener("click", () => {
  key.forget();
  start();
});
window.addEventListener("hashchange", route);
start();
