// Fills the page from the results and reacts to the reader's clicks.

const results = JSON.parse(document.getElementById("results").textContent);
const resolution = 1 / (results.data.query_count * results.data.k);
const allSizes = [...new Set(results.systems.map((c) => c.data))].sort((a, b) => a - b);
const state = { hidden: new Set(results.systems.filter((c) => c.aside).map((c) => c.name)), mode: "all", unit: "qps", frontOnly: false, size: allSizes[allSizes.length - 1],
  figure: "node_reads", target: results.targets[Math.floor(results.targets.length / 2)] };

const KNOWN = ["hmann", "hmann-batch", "hmann-aa", "hnswlib", "hnswlib-u8", "faiss", "faiss-sq8", "faiss-ivfpq"];
const others = [...new Set(results.systems.map((c) => c.name))].filter((name) => !KNOWN.includes(name));
/** A median absolute deviation; one round shows none. */
function spread(deviation, before = "", after = "") { return results.rounds > 1 ? `${before}± ${deviation}${after}` : ""; }

/** The custom property that holds a system's color. */
function colorName(name) { return KNOWN.includes(name) ? `--c-${name}` : `--c-${others.indexOf(name) % 6}`; }

function paint(node, name) { node.style.setProperty("--swatch", `var(${colorName(name)})`); return node; }

const modes = [...new Set(results.systems.flatMap((c) => c.points.map((p) => p.setting.mode)).filter(Boolean))].sort();

const ofSize = () => results.systems.filter((c) => c.data === state.size);

/** The curves that the controls leave visible. A mode's filter affects only systems that have modes. */
function shownCurves() {
  return ofSize().filter((c) => !state.hidden.has(c.name)).map((system) => {
    const points = system.points.filter((p) => state.mode === "all" || !p.setting.mode || p.setting.mode === state.mode);
    const front = paretoFront(points);
    return {
      name: system.name, library: system.library, color: css(colorName(system.name)), dash: system.name === "hmann-aa", front,
      others: state.frontOnly ? [] : points.filter((p) => !front.includes(p)),
    };
  });
}

function pointLines(point, curve) {
  const lines = [
    { text: curve.name },
    { text: settingText(point.setting) },
    { text: `recall ${formatRecall(point.recall)}` },
    { text: `${formatFigure(point.qps)}${spread(formatFigure(point.qps_mad), " ")} queries/s, ${formatFigure(1e6 / point.qps)} µs each` },
  ];
  if (point.counters) {
    const c = point.counters;
    lines.push({ text: `per query: ${formatFigure((c.distances_fast || 0) + (c.distances_slow || 0))} distances, ${formatFigure(c.node_reads || 0)} node reads`, quiet: true });
  }
  return lines;
}

function draw() {
  if (results.load) fillLoad();
  if (results.steps) fillSteps();
  if (allSizes.length === 0) return;
  const curves = shownCurves(), perQuery = state.unit === "us";
  drawCurves(byId("curves"), {
    curves, across: recallAcross(results.targets, resolution), unit: perQuery ? "µs per query" : "queries per second",
    value: perQuery ? (point) => 1e6 / point.qps : (point) => point.qps, hover: pointLines, spoken: byId("spoken"),
  });
  if (reference && !results.merged) drawRatios(byId("ratio"), { curves, reference: reference.name, targets: results.targets, resolution });
  if (allSizes.length > 1) drawGrowth();
}

/** The curve that the chart of ratios uses as reference. */
const reference = results.systems.find((c) => c.curve === results.reference) ?? null;

function fillHeader() {
  const { data, build } = results;
  document.title = `hmann: ${results.title}`;
  byId("title").textContent = results.title;
  const vectors = allSizes.length > 1 ? `${allSizes.map(formatCount).join(", ")} vectors` : data.n ? `${formatCount(data.n)} vectors` : "Vectors";
  byId("subtitle").textContent = `${vectors} of ${data.dim} × ${data.dtype}${data.metric ? `, ${data.metric}` : ""}; ${formatCount(data.query_count)} queries, `
    + `recall@${data.k}; M ${build.m}, efConstruction ${build.ef_construction}; ${results.load ? "arrivals at random" : results.shapes.length ? "closed loop" : "one search thread"}; median of ${results.rounds} round${results.rounds === 1 ? "" : "s"}`;
  const own = results.systems.find((c) => c.name.startsWith("hmann") && !c.aside && c.targets.some((at) => at.ratio !== null) && c.curve !== results.reference);
  const sentences = own ? own.targets.filter((at) => at.ratio !== null).slice(-2).map((at, i) => `${formatRatio(at.ratio)}${spread(at.ratio_mad.toFixed(2), " (", ")")}${i === 0 ? ` as fast as ${results.reference} (${reference.library})` : ""} at recall ${at.recall}`) : [];
  byId("headline").textContent = sentences.length ? `${own.name} is ${sentences.join(", and ")}.`.replaceAll("± ", "±\u00a0") : "";
  byId("curves-note").textContent = "Up and to the right is better. Lines join the settings that no other setting of the same curve beats; faint dots are the rest.";
}

function fillControls() {
  for (const name of [...new Set(results.systems.map((c) => c.name))]) {
    const chip = paint(text(byId("legend"), "button", name), name);
    chip.type = "button";
    chip.setAttribute("aria-pressed", String(!state.hidden.has(name)));
    chip.addEventListener("click", () => {
      state.hidden.has(name) ? state.hidden.delete(name) : state.hidden.add(name);
      chip.setAttribute("aria-pressed", String(!state.hidden.has(name)));
      update();
    });
  }
  radios("sizes", "size", allSizes, formatCount, state.size, (size) => { state.size = size; });
  radios("modes", "mode", modes.length < 2 ? [] : ["all", ...modes], String, "all", (mode) => { state.mode = mode; });
  for (const input of document.querySelectorAll("input[name=unit]")) input.addEventListener("change", () => { state.unit = input.value; update(); });
  byId("front-only").addEventListener("change", (event) => { state.frontOnly = event.target.checked; update(); });
}

function nameCell(row, of, shownName = of.name) {
  const cell = element("th", "text", row);
  cell.scope = "row";
  paint(element("span", "dot", cell), of.name);
  cell.append(shownName + (allSizes.length > 1 ? `, ${sizeText(of)}` : ""));
  if (of.noisy > 0) text(cell, "span", ` ${of.noisy} run${of.noisy === 1 ? "" : "s"} disturbed`, "quiet");
}

function fillTargets() {
  const table = byId("targets");
  table.replaceChildren();
  const body = headRow(table, [["system", "text"], ...results.targets.map((target) => [`QPS at recall ${target}`, ""])]);
  for (const system of ofSize().filter((one) => !one.aside)) {
    const row = element("tr", "", body);
    nameCell(row, system);
    for (const at of system.targets) {
      const cell = element("td", "", row);
      if (at.qps === null) { text(cell, "span", "not reached", "quiet"); continue; }
      text(cell, "b", formatFigure(at.qps) + (at.at_recall > at.recall + 1e-12 ? "*" : "")).dataset.qps = at.qps;
      text(cell, "span", spread(formatFigure(at.qps_mad)), "quiet");
      if (at.ratio === null || system.curve === results.reference) continue;
      element("br", "", cell);
      text(cell, "span", formatRatio(at.ratio)).dataset.ratio = at.ratio;
      text(cell, "span", spread(at.ratio_mad.toFixed(3)), "quiet");
    }
  }
}

function fillNotes() {
  const above = results.systems.some((c) => !c.aside && c.targets.some((at) => at.at_recall > at.recall + 1e-12));
  byId("targets-note").textContent = "QPS is read along each curve at equal recall (straight in log QPS over log misses), by round; given are median ± median absolute deviation."
    + (results.reference ? ` × is the ratio to ${results.reference} with as many threads, within the same round${results.merged ? " of its file" : ""}.` : "") + (above ? " * The lowest recall measured already lies above this target." : "");
  byId("rows-note").textContent = (results.memory ? `DRAM gives a thread a cache line at random every ${Math.min(...results.memory.map((at) => at.ns_a_line)).toFixed(1)} ns, with many loads in flight; the limit in memory is as many lines as a query needs `
    + "(computed from its counters) at that rate. " : "") + (results.options.emulated ? `The slow memory is emulated (${results.options.emulated}), on top of this machine's DRAM. Memory Mode and first-touch are models, fed with the trace of the search and then timed on the emulated memory.` : "");
}

/** Shows the machine's noise. */
function fillNoise() {
  const { noise, quiet } = results;
  if (noise.length > 0) {
    const worst = Math.max(...noise.map((at) => Math.abs(at.ratio - 1)));
    byId("noise").textContent = `Noise of this machine: ${[...new Set(noise.map((at) => at.system))].join(", ")}, a second run of the same over the same index, differs from the first by at most ${(100 * worst).toFixed(1)} % `
      + `(${noise.map((at) => `${at.ratio.toFixed(3)} at ${at.recall}`).join(", ")}). Smaller differences mean nothing.`;
  }
  byId("quiet").textContent = (quiet.noisy > 0 ? `${quiet.noisy} of ${quiet.runs} runs were disturbed by others, twice; medians leave them out where there are others. ` : `None of ${quiet.runs} runs was disturbed by others. `)
    + (quiet.busy === null ? "" : `Others took ${percent(quiet.busy)} of the CPU, other virtual machines ${percent(quiet.steal)} (median of the rounds).`);
}

function fillEnvironment() {
  const { environment: e, data, build } = results;
  const wallOverCpu = Math.max(1, ...results.systems.filter((c) => !c.waits).map((c) => c.wall_over_cpu));
  const rows = {
    ...machineRows(e),
    "measured": `${e.time}, ${results.clock === "cpu" ? "CPU time of the search thread" : "elapsed time"}; elapsed/CPU at most ${wallOverCpu.toFixed(2)}`,
    "base": data.base ?? "of finished indexes", "queries": data.queries, "threads of the build": build.threads,
    ...(results.merged ?? [{ environment: e }]).reduce((all, { file, environment: { time, command } }) => ({ ...all, ...(command && { [file ? `command, ${file}, ${time}` : "command"]: command }) }), {}),
  };
  fillPairs(byId("environment"), rows);
}

function fillPoints() {
  const table = byId("points");
  table.replaceChildren();
  const body = headRow(table, [["system", "text"], ["setting", "text"], ["recall", ""], ["QPS", ""], ["µs per query", ""], ["front", ""]]);
  for (const curve of shownCurves()) {
    for (const point of [...curve.front, ...curve.others].sort((a, b) => a.recall - b.recall)) {
      const row = element("tr", "", body);
      nameCell(row, { name: curve.name, data: state.size });
      text(row, "td", settingText(point.setting), "text");
      text(row, "td", formatRecall(point.recall));
      text(row, "td", `${formatFigure(point.qps)}${spread(formatFigure(point.qps_mad), " ")}`);
      text(row, "td", formatFigure(1e6 / point.qps));
      text(row, "td", curve.front.includes(point) ? "yes" : "");
    }
  }
}

/** What the table of settings shows, or the load or the steps, unrounded. */
function csvRows() {
  if (results.load) return results.load.map(({ place, setting, failed, ...row }) => ({ ...row, ...setting, failed: JSON.stringify(failed) }));
  if (results.steps) return results.steps;
  return shownCurves().flatMap((curve) => [...curve.front, ...curve.others].map(({ setting, counters, ...point }) => ({ system: curve.name, vectors: state.size, ...setting, ...point, front: curve.front.some((on) => on.setting === setting), ...counters })));
}

/** On paper the scheme is light, and what the screen folds away is open. */
function printed(on) {
  document.documentElement.classList.toggle("printed", on);
  byId("all").open = on;
  draw();
}

function update() {
  draw();
  if (allSizes.length === 0) return;
  fillTargets();
  fillRows(ofSize().filter((one) => !one.aside));
  fillPoints();
  if (allSizes.length > 1) fillFits();
}

function show(...sections) { for (const name of sections) byId(name).hidden = false; }

fillHeader();
fillNoise();
fillEnvironment();
if (allSizes.length > 0) {
  show("curves-section", "targets-section", "rows-section", "builds-section", "all");
  fillControls();
  fillNotes();
  fillBuilds();
}
if (allSizes.length > 1) { show("growth-section"); fillGrowthControls(); }
if (results.disk) { show("disk-section"); fillDisk(); }
if (results.load) show("load-section");
if (results.steps) show("steps-section");
if (results.claims) { show("claims-section"); fillClaims(); }
if (reference && !results.merged) {  // rounds of one file only
  show("ratio-section");
  byId("ratio-heading").textContent = `Speed as a multiple of ${reference.name}`;
  byId("ratio").setAttribute("aria-label", `Chart: speed of each system as a multiple of ${reference.name}, over recall. The table above has the figures.`);
}
update();
redrawWhenNeeded(document.querySelector("main"), draw);
byId("csv").addEventListener("click", () => save("report.csv", "text/csv", csvText(csvRows())));
byId("json").addEventListener("click", () => save("report.json", "application/json", `${JSON.stringify(results, null, 2)}\n`));
addEventListener("beforeprint", () => printed(true));
addEventListener("afterprint", () => printed(false));
