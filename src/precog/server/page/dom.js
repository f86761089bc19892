// Elements of a page. Text goes in as text: nothing here can make HTML of it.

const SVG = "http://www.w3.org/2000/svg";

/** An element with properties, listeners (onclick: …), attributes and children (elements or text). */
export function el(tag, properties = {}, ...children) {
  return filled(document.createElement(tag), properties, children);
}

/** The same in a drawing. */
export function svg(tag, properties = {}, ...children) {
  return filled(document.createElementNS(SVG, tag), properties, children);
}

function filled(element, properties, children) {
  for (const [name, value] of Object.entries(properties)) {
    if (value === null || value === undefined || value === false) continue;
    if (name.startsWith("on")) element.addEventListener(name.slice(2), value);
    else if (name === "value" || name === "checked") element[name] = value;
    else element.setAttribute(name, value === true ? "" : String(value));
  }
  element.append(...children.flat().filter((child) => child !== null && child !== undefined && child !== false));
  return element;
}

/** Replaces what an element holds. */
export function show(element, ...children) {
  element.replaceChildren(...children.flat().filter(Boolean));
  return element;
}

/** Tells a screen reader what has just happened. */
export function announce(text) {
  document.getElementById("announcer").textContent = text;
}

/** Puts the focus somewhere where what had it is gone, or cannot have it any more. */
export function refocus(element) {
  if (!document.activeElement || document.activeElement === document.body) element.focus({ preventScroll: true });
}

/** A labelled field. */
export function field(label, input, hint = "") {
  return el("label", { class: "field" }, el("span", {}, label), input, hint && el("small", { class: "muted" }, hint));
}

/** A line of work that goes on. */
export function loading(text) {
  return el("p", { class: "loading" }, el("span", { class: "spinner", "aria-hidden": "true" }), text);
}

/** What stands where there is nothing yet. */
export function empty(...children) {
  return el("div", { class: "empty" }, ...children);
}

/** An error as the server tells it: what is wrong, what was given, what to do. */
export function failure(error, again = null) {
  const parts = [el("strong", {}, sentence(error.message))];
  const isSaid = (text) => String(error.message).toLowerCase().includes(String(text).toLowerCase());
  if (error.given && !isSaid(error.given)) parts.push(el("span", {}, ` Given: ${error.given}.`));
  if (error.expected && !isSaid(error.expected)) parts.push(el("span", {}, ` Expected: ${error.expected}.`));
  if (error.hint) parts.push(el("span", {}, ` ${sentence(error.hint)}`));
  const retry = () => {
    document.getElementById("main").focus({ preventScroll: true }); // the button goes
    again();
  };
  if (again) parts.push(" ", el("button", { type: "button", class: "quiet", onclick: retry }, "Try again"));
  return el("p", { class: "error", role: "alert" }, parts);
}

function sentence(text) {
  const line = String(text);
  return /[.!?…]$/.test(line) ? upper(line) : `${upper(line)}.`;
}

export function upper(text) {
  return text.charAt(0).toUpperCase() + text.slice(1);
}

/** Characters of a text as the server counts them: by code points. */
export function cut(text, start, end) {
  return Array.from(text).slice(start, end).join("");
}
