// Fills the page from the results and answers the reader's clicks.

const results = JSON.parse(document.getElementById("results").textContent);
const resolution = 1 / (results.data.query_count * results.data.k);
const state = { hidden: new Set(results.contestants.filter((c) => c.aside).map((c) => c.name)), walk: "all", unit: "qps", frontOnly: false };

const KNOWN = ["hmann", "hmann-batch", "hmann-aa", "hnswlib", "hnswlib-u8", "faiss", "faiss-sq8", "faiss-ivfpq"];
const others = results.contestants.map((c) => c.name).filter((name) => !KNOWN.includes(name));
/** The custom property that holds a contestant's colour. */
function colourName(name) { return KNOWN.includes(name) ? `--c-${name}` : `--c-${others.indexOf(name) % 6}`; }

function paint(node, name) { node.style.setProperty("--swatch", `var(${colourName(name)})`); return node; }

const walks = [...new Set(results.contestants.flatMap((c) => c.points.map((p) => p.setting.walk)).filter(Boolean))].sort();

/** The curves that the controls leave: a walk's filter touches only contestants that have walks. */
function shownCurves() {
  return results.contestants.filter((c) => !state.hidden.has(c.name)).map((contestant) => {
    const points = contestant.points.filter((p) => state.walk === "all" || !p.setting.walk || p.setting.walk === state.walk);
    const front = paretoFront(points);
    return {
      name: contestant.name, label: contestant.label, library: contestant.library, colour: css(colourName(contestant.name)), dash: contestant.name === "hmann-aa", front,
      others: state.frontOnly ? [] : points.filter((p) => !front.includes(p)),
    };
  });
}

function pointLines(point, curve) {
  const lines = [
    { text: curve.name },
    { text: settingText(point.setting) },
    { text: `recall ${formatRecall(point.recall)}` },
    { text: `${formatFigure(point.qps)} ± ${formatFigure(point.qps_mad)} queries/s, ${formatFigure(1e6 / point.qps)} µs each` },
  ];
  if (point.counters) {
    const c = point.counters;
    lines.push({ text: `per query: ${formatFigure((c.distances_fast || 0) + (c.distances_slow || 0))} distances, ${formatFigure(c.slow_reads || 0)} slow reads`, quiet: true });
  }
  return lines;
}

function draw() {
  const curves = shownCurves(), perQuery = state.unit === "us";
  drawCurves(byId("curves"), {
    curves, across: recallAcross(results.targets, resolution), unit: perQuery ? "µs per query" : "queries per second",
    value: perQuery ? (point) => 1e6 / point.qps : (point) => point.qps, hover: pointLines, spoken: byId("spoken"),
  });
  if (results.reference) drawRatios(byId("ratio"), { curves, reference: results.reference, targets: results.targets, resolution });
}

function fillHeader() {
  const { data, build } = results;
  document.title = `hmann: ${results.title}`;
  byId("title").textContent = results.title;
  byId("subtitle").textContent = `${formatCount(data.n)} vectors of ${data.dim} × ${data.dtype}, ${data.metric}; ${formatCount(data.query_count)} queries, `
    + `recall@${data.k}; M ${build.m}, efConstruction ${build.ef_construction}; ${results.disk || results.search_threads?.length ? "closed loop" : "one search thread"}; median of ${results.rounds} rounds`;
  const own = results.contestants.find((c) => c.name === (results.tiers ? results.tiers.own : "hmann"));
  const sentences = own && results.reference && results.reference !== "hmann" ? own.targets.filter((at) => at.ratio !== null).slice(-2)
    .map((at) => `${formatRatio(at.ratio)} as fast as ${results.reference} at recall ${at.recall}`) : [];
  byId("headline").textContent = sentences.length ? `${own.name} is ${sentences.join(", and ")}.` : "";
  byId("curves-note").textContent = "Up and to the right is better. Lines join the settings that no other setting of the same contestant beats; faint dots are the rest.";
}

function fillControls() {
  for (const { name } of results.contestants) {
    const chip = paint(text(byId("legend"), "button", name), name);
    chip.type = "button";
    chip.setAttribute("aria-pressed", String(!state.hidden.has(name)));
    chip.addEventListener("click", () => {
      state.hidden.has(name) ? state.hidden.delete(name) : state.hidden.add(name);
      chip.setAttribute("aria-pressed", String(!state.hidden.has(name)));
      update();
    });
  }
  byId("walks").hidden = walks.length < 2;
  for (const walk of walks.length < 2 ? [] : ["all", ...walks]) {
    const label = element("label", "", byId("walks")), input = element("input", "", label);
    Object.assign(input, { type: "radio", name: "walk", value: walk, checked: walk === "all" });
    text(label, "span", walk);
    input.addEventListener("change", () => { state.walk = walk; update(); });
  }
  for (const input of document.querySelectorAll("input[name=unit]")) input.addEventListener("change", () => { state.unit = input.value; update(); });
  byId("front-only").addEventListener("change", (event) => { state.frontOnly = event.target.checked; update(); });
}

function nameCell(row, name, shown = name) {
  const cell = element("th", "text", row);
  cell.scope = "row";
  paint(element("span", "dot", cell), name);
  cell.append(shown);
}

function fillTargets() {
  const titles = [["contestant", "text"], ...results.targets.map((target) => [`QPS at recall ${target}`, ""])];
  const body = headRow(byId("targets"), titles);
  let above = false;
  for (const contestant of results.contestants.filter((one) => !one.aside)) {
    const row = element("tr", "", body);
    nameCell(row, contestant.name);
    for (const at of contestant.targets) {
      const cell = element("td", "", row);
      if (at.qps === null) { text(cell, "span", "not reached", "quiet"); continue; }
      const starred = at.at_recall > at.recall + 1e-12;
      above = above || starred;
      text(cell, "b", formatFigure(at.qps) + (starred ? "*" : "")).dataset.qps = at.qps;
      text(cell, "span", `± ${formatFigure(at.qps_mad)}`, "quiet");
      if (at.ratio !== null && contestant.name !== results.reference) {
        element("br", "", cell);
        text(cell, "span", formatRatio(at.ratio)).dataset.ratio = at.ratio;
        text(cell, "span", `± ${at.ratio_mad.toFixed(3)}`, "quiet");
      }
      if (at.of_limit) {
        element("br", "", cell);
        text(cell, "span", `${formatCount(Math.round(at.lines))} cache lines, ${(100 * at.of_limit).toFixed(0)} % of what DRAM gives`, "quiet").dataset.lines = at.lines;
      }
      if (at.mean_us) {
        element("br", "", cell);
        text(cell, "span", `mean ${formatFigure(at.mean_us)}, p99 ${formatFigure(at.p99_us)} µs`, "quiet").dataset.p99 = at.p99_us;
      }
    }
  }
  byId("targets-note").textContent = "QPS is read along each curve at equal recall (straight in log QPS over log misses), by round; given are median ± median absolute deviation."
    + (results.reference ? ` × is the ratio to ${results.reference} within the same round.` : "")
    + (results.memory ? ` DRAM gives a thread a cache line at random every ${Math.min(...results.memory.map((at) => at.ns_a_line)).toFixed(1)} ns, with many loads in flight.` : "")
    + (above ? " * The lowest recall measured already lies above this target." : "");
  if (results.noise && results.noise.length > 0) {
    const worst = Math.max(...results.noise.map((at) => Math.abs(at.ratio - 1)));
    byId("noise").textContent = `Noise of this machine: hmann, run twice over the same index${results.tiers ? "" : " (hmann-aa)"}, differs from itself by at most ${(100 * worst).toFixed(1)} % `
      + `(${results.noise.map((at) => `${at.ratio.toFixed(3)} at ${at.recall}`).join(", ")}). Smaller differences mean nothing.`;
  }
}

function barCell(row, value, most, label, name) {
  const cell = element("td", "", row);
  text(cell, "span", label);
  const bar = paint(element("span", "bar", element("span", "track", cell)), name);
  bar.style.width = `${Math.max(2, (100 * value) / most)}px`;
}

function fillBuilds() {
  const body = headRow(byId("builds"), [["contestant", "text"], ["library", "text"], ["build time", ""], ["threads", ""], ["index, vectors included", ""], ["parts", "text"]]);
  const most = (key) => Math.max(...results.contestants.map((c) => c[key]));
  // Curves of one program share its index.
  for (const c of results.contestants.filter((one, i, all) => !one.program || all.findIndex((other) => other.program === one.program) === i)) {
    const row = element("tr", "", body);
    nameCell(row, c.name, c.program);
    const own = Object.fromEntries(Object.entries(c.build).filter(([, value]) => !c.library.includes(String(value))));
    text(row, "td", c.library + (Object.keys(own).length ? ` (${settingText(own)})` : ""), "text");
    if (c.build_seconds === null) text(row, "td", "stood before", "quiet");
    else barCell(row, c.build_seconds, most("build_seconds"), formatSeconds(c.build_seconds), c.name);
    text(row, "td", c.build_seconds === null ? "-" : String(c.build_threads));
    barCell(row, c.index_bytes, most("index_bytes"), formatBytes(c.index_bytes), c.name);
    text(row, "td", Object.entries(c.phases).map(([phase, seconds]) => `${phase} ${formatSeconds(seconds)}`).join(", "), "text quiet");
  }
}

function fillEnvironment() {
  const { environment: e, data, build } = results;
  const wallOverCpu = Math.max(...results.contestants.filter((c) => !c.waits).map((c) => c.wall_over_cpu), 1);
  const rows = {
    ...machineRows(e),
    "measured": `${e.time}, ${results.clock === "cpu" ? "CPU time of the search thread" : "elapsed time"}; elapsed/CPU at most ${wallOverCpu.toFixed(2)}`,
    "base": data.base ?? "of finished indexes", "queries": data.queries, "threads of the build": build.threads,
  };
  fillPairs(byId("environment"), rows);
}

function fillPoints() {
  const table = byId("points");
  table.replaceChildren();
  const body = headRow(table, [["contestant", "text"], ["setting", "text"], ["recall", ""], ["QPS", ""], ["µs per query", ""], ["front", ""]]);
  for (const curve of shownCurves()) {
    for (const point of [...curve.front, ...curve.others].sort((a, b) => a.recall - b.recall)) {
      const row = element("tr", "", body);
      nameCell(row, curve.name);
      text(row, "td", settingText(point.setting), "text");
      text(row, "td", formatRecall(point.recall));
      text(row, "td", `${formatFigure(point.qps)} ± ${formatFigure(point.qps_mad)}`);
      text(row, "td", formatFigure(1e6 / point.qps));
      text(row, "td", curve.front.includes(point) ? "yes" : "");
    }
  }
}

function update() {
  draw();
  fillPoints();
}

fillHeader();
fillControls();
fillTargets();
fillBuilds();
fillTiers();
fillDisk();
fillEnvironment();
if (results.reference) {
  byId("ratio-section").hidden = false;
  byId("ratio-heading").textContent = `Speed as a multiple of ${results.reference}`;
  byId("ratio").setAttribute("aria-label", `Chart: speed of each contestant as a multiple of ${results.reference}, over recall. The table above has the figures.`);
}
update();
redrawWhenNeeded(byId("curves"), draw);
