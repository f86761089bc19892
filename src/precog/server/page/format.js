// Numbers as people read them.

export function bytes(count) {
  if (count < 1000) return `${count} B`;
  let value = count;
  for (const unit of ["kB", "MB", "GB", "TB", "PB"]) {
    value /= 1000;
    if (value < 1000) return `${value.toFixed(1)} ${unit}`;
  }
  return `${(value / 1000).toFixed(1)} EB`;
}

export function seconds(value) {
  if (value === 0) return "0";
  if (value < 1e-3) return `${Math.round(value * 1e6)} µs`;
  if (value < 1) return `${(value * 1e3).toFixed(1)} ms`;
  if (value < 120) return `${value.toFixed(2)} s`;
  for (const [unit, size] of [["years", 31557600], ["days", 86400], ["hours", 3600], ["minutes", 60]]) {
    if (value >= 2 * size) return `${(value / size).toLocaleString("en", { maximumFractionDigits: 1 })} ${unit}`;
  }
  return `${value.toFixed(0)} s`;
}

/** How long something may still take: nobody knows it to the second. */
export function roughly(value) {
  if (value < 90) return `${Math.max(1, Math.ceil(value))} s`;
  if (value < 5400) return `${Math.round(value / 60)} min`;
  return `${(value / 3600).toFixed(1)} h`;
}

export function joules(value) {
  if (value === null) return "unknown";
  for (const [unit, size] of [["MJ", 1e6], ["kJ", 1e3], ["J", 1]]) if (value >= size) return `${figure(value / size)} ${unit}`;
  return `${figure(value * 1e3)} mJ`;
}

/** Three digits at least. */
export function figure(value) {
  return value >= 100 ? Math.round(value).toLocaleString("en") : String(Number(value.toPrecision(3)));
}

export function counted(count, noun) {
  const plural = noun.endsWith("y") ? `${noun.slice(0, -1)}ies` : `${noun}s`;
  return `${count.toLocaleString("en")} ${count === 1 ? noun : plural}`;
}

export function times(ratio, above, below) {
  return ratio >= 1 ? `${figure(ratio)}× ${above}` : `${figure(1 / ratio)}× ${below}`;
}

export function moment(text) {
  if (!text) return "no time";
  const found = new Date(text);
  if (Number.isNaN(found.getTime())) return text;
  return found.toLocaleString("en-GB", { day: "numeric", month: "short", year: "numeric", hour: "2-digit", minute: "2-digit" });
}
