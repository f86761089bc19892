// A question before something goes for good.

import { el } from "./dom.js";

/** Resolves to whether somebody said yes. */
export function confirmed(title, text, yes) {
  return new Promise((resolve) => {
    const opener = document.activeElement;
    const dialog = el(
      "dialog",
      { "aria-labelledby": "confirm-title", "aria-describedby": "confirm-text" },
      el("h2", { id: "confirm-title" }, title),
      el("p", { id: "confirm-text" }, text),
      el(
        "div",
        { class: "row end" },
        el("button", { type: "button", onclick: () => dialog.close() }, "Keep"),
        el("button", { type: "button", class: "danger", onclick: () => dialog.close("yes") }, yes),
      ),
    );
    dialog.addEventListener("close", () => {
      dialog.remove();
      if (opener?.isConnected) opener.focus();
      resolve(dialog.returnValue === "yes");
    });
    document.body.append(dialog);
    dialog.showModal();
  });
}
