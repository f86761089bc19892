// A place to drop files and folders, or to choose them.

import { call, path } from "./api.js";
import { el } from "./dom.js";

const MOST_BYTES = 64e6;
const MOST_FILES = 500;

/** Tells `onFiles` what was dropped or chosen, as [{name, file}]. */
export function dropZone(onFiles) {
  const files = el("input", { type: "file", multiple: true, id: "files", class: "unseen" });
  const folder = el("input", { type: "file", multiple: true, webkitdirectory: true, id: "folder", class: "unseen" });
  for (const input of [files, folder]) {
    input.addEventListener("change", () => {
      onFiles(Array.from(input.files, (file) => ({ name: file.webkitRelativePath || file.name, file })));
      input.value = "";
    });
  }
  const zone = el(
    "div",
    { class: "drop" },
    el("p", {}, el("strong", {}, "Drop a folder or files here")),
    el("p", { class: "row" }, files, el("label", { for: "files", class: "button" }, "Choose files"), folder, el("label", { for: "folder", class: "button" }, "Choose a folder")),
    el("p", { class: "muted" }, "Text, Markdown, HTML, PDF, Word, CSV, JSON, source code. A file of the same name is replaced."),
  );
  zone.addEventListener("dragover", (event) => {
    event.preventDefault();
    zone.classList.add("over");
  });
  zone.addEventListener("dragleave", () => zone.classList.remove("over"));
  zone.addEventListener("drop", async (event) => {
    event.preventDefault();
    zone.classList.remove("over");
    onFiles(await dropped(event.dataTransfer));
  });
  return zone;
}

async function dropped(transfer) {
  const entries = Array.from(transfer.items, (item) => item.webkitGetAsEntry?.()).filter(Boolean);
  if (!entries.length) return Array.from(transfer.files, (file) => ({ name: file.name, file }));
  return (await Promise.all(entries.map(below))).flat();
}

async function below(entry) {
  if (entry.isFile) {
    const file = await new Promise((resolve, reject) => entry.file(resolve, reject));
    return [{ name: entry.fullPath.replace(/^\/+/, ""), file }];
  }
  const reader = entry.createReader();
  const found = [];
  for (;;) {
    const some = await new Promise((resolve, reject) => reader.readEntries(resolve, reject));
    if (!some.length) break;
    found.push(...some);
  }
  return (await Promise.all(found.map(below))).flat();
}

/** Sends files in parts that a server takes; hidden ones are left out. Yields the job of each part. */
export async function* uploaded(corpus, files, signal) {
  const shown = files.filter(({ name }) => !name.split("/").some((part) => part.startsWith(".")));
  let form = new FormData();
  let [count, size] = [0, 0];
  const send = () => call("POST", path`/v1/corpora/${corpus}/documents`, form, signal);
  for (const { name, file } of shown) {
    if (count && (count === MOST_FILES || size + file.size > MOST_BYTES)) {
      yield await send();
      form = new FormData();
      [count, size] = [0, 0];
    }
    form.append("files", file, name);
    count += 1;
    size += file.size;
  }
  if (count) yield await send();
}
