// A slider over powers of ten, with the number beside it to type.

import { el } from "./dom.js";

const STEPS = 400;

/** A labelled slider; `onChange(number)` for whoever moves it. */
export class Slider {
  constructor(label, unit, least, most, { isWhole = false, onChange }) {
    Object.assign(this, { least, most, isWhole, onChange, hasChanged: false });
    const id = `s-${label.replaceAll(" ", "-")}`;
    this.range = el("input", { type: "range", min: "0", max: String(STEPS), step: "1", id });
    this.number = el("input", { type: "number", min: isWhole ? "1" : "0", step: isWhole ? "1" : "any", "aria-label": `${label}, ${unit}`, placeholder: "unknown" });
    this.range.addEventListener("input", () => this.changed(this.valueAt(Number(this.range.value)), this.range));
    this.number.addEventListener("change", () => this.number.value !== "" && this.number.reportValidity() && this.changed(Number(this.number.value), this.number));
    this.element = el("div", { class: "slider" }, el("label", { for: id }, label), this.number, el("span", { class: "muted unit" }, unit), this.range);
  }

  valueAt(step) {
    const value = this.least * (this.most / this.least) ** (step / STEPS);
    return this.isWhole ? Math.round(value) : Number(value.toPrecision(3));
  }

  changed(value, by) {
    this.hasChanged = true;
    this.put(value, by);
    this.onChange();
  }

  /** Shows a value without telling anybody. */
  put(value, by = null) {
    this.value = value;
    const step = value > 0 ? (Math.log(value / this.least) / Math.log(this.most / this.least)) * STEPS : 0;
    if (by !== this.range) this.range.value = String(Math.min(Math.max(Math.round(step), 0), STEPS));
    if (by !== this.number) this.number.value = value === null ? "" : String(this.isWhole ? Math.round(value) : Number(value.toPrecision(4)));
    this.range.setAttribute("aria-valuetext", value === null ? "unknown" : this.number.value);
  }
}
