// Creates elements.

const byId = (id) => document.getElementById(id);

function css(name) { return getComputedStyle(document.documentElement).getPropertyValue(name).trim(); }

function element(tag, className, parent) {
  const made = document.createElement(tag);
  if (className) made.className = className;
  if (parent) parent.append(made);
  return made;
}

function text(parent, tag, content, className) {
  const node = element(tag, className, parent);
  node.textContent = content;
  return node;
}

function headRow(table, titles) {
  const row = element("tr", "", element("thead", "", table));
  for (const [title, className] of titles) text(row, "th", title, className).scope = "col";
  return element("tbody", "", table);
}

/** A table whose rows are [text, ...figures], or texts only. */
function plainTable(host, titles, rows, texts = false) {
  const body = headRow(element("table", "", element("div", "scroll", host)), titles.map((title, i) => [title, i === 0 || texts ? "text" : ""]));
  for (const [name, ...cells] of rows) {
    const row = element("tr", "", body);
    text(row, "th", name, "text").scope = "row";
    for (const cell of cells) text(row, "td", cell, texts ? "text" : /, | of /.test(cell) ? "words" : "");
  }
}

/** A list of names and their meanings. */
function fillPairs(list, rows) {
  for (const [key, value] of Object.entries(rows)) {
    text(list, "dt", key);
    text(element("dd", "", list), key.startsWith("command") ? "code" : "span", String(value));
  }
}

/** Describes the measured machine in words. */
function machineRows(e) {
  return {
    "processor": `${e.cpu}, ${e.cores} cores usable, hmann's kernels: ${e.simd}`, "memory": formatBytes(e.memory_bytes), "system": `${e.system}, ${e.kernel}`,
    "compiler": e.compiler, "frequency governor": e.governor, "transparent huge pages": e.huge_pages, "load before the first run": e.load.toFixed(2),
  };
}

/** Comma-separated values of objects, a column for each key that any of them has. */
function csvText(rows) {
  const keys = [...new Set(rows.flatMap(Object.keys))];
  const cell = (value) => { const plain = String(value ?? ""); return /[",\n]/.test(plain) ? `"${plain.replaceAll('"', '""')}"` : plain; };
  return [keys, ...rows.map((row) => keys.map((key) => row[key]))].map((line) => `${line.map(cell).join(",")}\n`).join("");
}

/** Hands the reader a file, also where the page itself is one. */
function save(name, type, content) {
  const link = element("a");
  link.href = URL.createObjectURL(new Blob([content], { type }));
  link.download = name;
  link.click();
  URL.revokeObjectURL(link.href);
}

/** Calls `draw` when the width of `host` or the reader's color scheme has changed. */
function redrawWhenNeeded(host, draw) {
  let width = host.clientWidth;
  new ResizeObserver(() => {
    if (host.clientWidth === width) return;
    width = host.clientWidth;
    draw();
  }).observe(host);
  matchMedia("(prefers-color-scheme: dark)").addEventListener("change", draw);
}
