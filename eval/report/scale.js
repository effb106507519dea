// How everything grows with the number of vectors: `hmann eval scale`.

const results = JSON.parse(document.getElementById("results").textContent);
const { head, sizes, growth, goal } = results;
const FIGURES = { slow_reads: "slow reads", rounds: "rounds", io_reads: "I/Os", distances: "distances", estimates: "codes scored", lines: "cache lines", mean_us: "mean µs", p99_us: "p99 µs", qps: "queries per second" };
const COLOURS = ["--c-hmann", "--c-hnswlib", "--c-faiss", "--c-1", "--c-3", "--c-0", "--c-2", "--c-hnswlib-u8", "--c-4", "--c-5"];
const [shape] = head.shapes;
const state = { hidden: new Set(), figure: "slow_reads", target: results.targets[Math.floor(results.targets.length / 2)] };

const nameOf = ({ fast_bytes: bytes, tier, walk }) => `${bytes} B, ${tier}, ${walk}`;
const shapeText = ([threads, inFlight]) => (threads === 1 && inFlight === 1 ? "1 thread, one at a time" : `${threads} × ${inFlight} in flight`);
const sizeText = (size) => formatCount(size.n) + (size.made_up ? ", made up" : "");
const shown = (value, format = formatFigure) => (value === null || value === undefined ? "" : format(value));
const percent = (share) => `${(100 * share).toFixed(share < 0.1 ? 1 : 0)} %`;

/** Every row of every index of every size, with the size and the bytes that it is of. */
const rows = sizes.flatMap((size) => size.indexes.flatMap((index) => index.rows.map((row) => ({ ...row, fast_bytes: index.fast_bytes, size }))));
const names = [...new Set(rows.map(nameOf))];
const colourName = (name) => COLOURS[names.indexOf(name) % COLOURS.length];

function curves() {
  return names.filter((name) => !state.hidden.has(name)).map((name) => ({
    name, colour: css(colourName(name)), others: [],
    front: rows.filter((row) => nameOf(row) === name && row.target === state.target && row.threads === shape[0] && row.in_flight === shape[1] && row[state.figure] > 1e-6),
  })).filter((curve) => curve.front.length > 0);
}

function pointLines(row, curve) {
  return [{ text: curve.name }, { text: sizeText(row.size) }, { text: `${formatFigure(row[state.figure])} ${FIGURES[state.figure]}` },
    { text: row.at_recall > row.target + 1e-12 ? `at recall ${formatRecall(row.at_recall)}, the lowest measured` : `at recall ${row.target}`, quiet: true }];
}

function draw() {
  drawCurves(byId("growth"), {
    curves: curves(), across: logAcross({ value: (row) => row.size.n, label: "vectors", format: formatCount }), value: (row) => row[state.figure], unit: FIGURES[state.figure],
    hover: pointLines, spoken: byId("spoken"),
  });
}

function errorText({ value, error }, sign) {
  return `extrapolated: ${formatFigure(value)} ${error === null ? "(error unknown: two sizes)" : `${sign} ${formatFigure(error)}`}`;
}

/** Fits of the figure and recall that are shown. */
function fillFits() {
  const host = byId("fits");
  host.replaceChildren();
  const fits = growth.filter((fit) => fit.figure === state.figure && fit.target === state.target && !state.hidden.has(nameOf(fit)));
  if (fits.length === 0) return;
  plainTable(host, [`${FIGURES[state.figure]} at recall ${state.target}`, "sizes (made up)", "a decade adds", "residuals", "grows as n to the", "residuals", `by the logarithm, at ${formatCount(goal.rows)}`, "by the power"],
    fits.map((fit) => [nameOf(fit), `${fit.points.length} (${fit.made_up})`, formatFigure(fit.logarithm.slope * Math.LN10), fit.logarithm.residuals.map(percent).join(", "), fit.power.slope.toFixed(3),
      fit.power.residuals.map(percent).join(", "), errorText(fit.extrapolated.logarithm, "±"), errorText(fit.extrapolated.power, "× or ÷")]));
}

function fillRows() {
  const host = byId("rows");
  host.replaceChildren();
  const body = headRow(element("table", "", element("div", "scroll", host)), [[`at recall ${state.target}`, "text"], ["vectors", "text"], ["", "text"], ["QPS", ""], ["limit, QPS", ""], ["of the limit", ""], ["mean µs", ""],
    ["p99 µs", ""], ["distances", ""], ["codes scored", ""], ["cache lines", ""], ["slow reads", ""], ["rounds", ""], ["I/Os", ""]]);
  for (const row of rows.filter((one) => one.target === state.target && !state.hidden.has(nameOf(one)))) {
    const line = element("tr", "", body), name = element("th", "text", line);
    name.scope = "row";
    element("span", "dot", name).style.setProperty("--swatch", `var(${colourName(nameOf(row))})`);
    name.append(nameOf(row));
    text(line, "td", sizeText(row.size), "text");
    text(line, "td", shapeText([row.threads, row.in_flight]), "text quiet");
    text(line, "td", row.qps === null ? "not reached" : formatFigure(row.qps) + (row.at_recall > row.target + 1e-12 ? "*" : "")).dataset.qps = row.qps;
    text(line, "td", shown(row.limit_qps));
    text(line, "td", shown(row.of_limit, percent));
    for (const key of ["mean_us", "p99_us", "distances", "estimates", "lines", "slow_reads", "rounds", "io_reads"]) text(line, "td", shown(row[key]));
  }
}

function fillGoal() {
  const size = formatCount(goal.rows);
  byId("goal-heading").textContent = `${size} vectors, extrapolated`;
  const levels = goal.levels.map(({ fast_bytes: bytes, fits }) => `${bytes} bytes a vector ${fits ? "fit" : "do not fit"} (${formatBytes(bytes * goal.rows)})`);
  byId("goal-note").textContent = `Nobody has measured ${size} vectors here: what follows is extrapolated from ${sizes.map(sizeText).join("; ")}. Of ${formatBytes(goal.fast_memory_bytes)} of fast memory, ${levels.join(", ")}. `
    + `${goal.structure === null ? "" : `For all of it the planner takes: ${goal.structure}. `}Errors are one standard error of a prediction, from the residuals of few sizes; that growth goes on as it does is assumed.`;
  const host = byId("goal");
  plainTable(host, ["", "recall", "figure", "by the logarithm", "by the power of n"],
    growth.filter((fit) => ["slow_reads", "rounds", "mean_us", "cpu_seconds", "peak_anonymous_bytes"].includes(fit.figure)).map((fit) => {
      const build = fit.tier === null, memory = fit.figure === "peak_anonymous_bytes";
      const told = (at, sign) => (memory ? errorText({ value: at.value / 2 ** 30, error: at.error === null || sign !== "±" ? at.error : at.error / 2 ** 30 }, sign) + " (GiB)" : errorText(at, sign));
      return [build ? `${fit.fast_bytes} B, build` : nameOf(fit), build ? "" : String(fit.target), FIGURES[fit.figure] ?? (memory ? "memory" : "CPU seconds"),
        told(fit.extrapolated.logarithm, "±"), told(fit.extrapolated.power, "× or ÷")];
    }));
}

function fillBuilds() {
  const every = sizes.flatMap((size) => size.indexes.map((index) => ({ size, index })));
  plainTable(byId("builds"), ["vectors", "fast bytes a vector", "placed", "structure", "made of", "wall", "CPU", "memory", "work folder", "file", "CPU by phase"],
    every.map(({ size, index: { build, ...index } }) => [sizeText(size), String(index.fast_bytes), index.placed_bytes === null ? "" : formatFigure(index.placed_bytes / size.n), index.structure, build.from,
      formatSeconds(build.seconds), formatSeconds(build.cpu_seconds), formatBytes(build.peak_anonymous_bytes), formatBytes(build.work_bytes), formatBytes(build.file_bytes),
      build.phases.filter((phase) => phase.name !== "total").map((phase) => `${phase.name} ${formatSeconds(phase.cpu_seconds)}`).join(", ")]));
  const parts = [...new Set(every.flatMap(({ index }) => index.build.bytes.map((part) => `${part.structure} (${part.tier})`)))];
  plainTable(byId("bytes"), ["bytes of a vector in the file", ...parts], every.map(({ size, index }) => [`${sizeText(size)}, ${index.fast_bytes} B`,
    ...parts.map((part) => shown(index.build.bytes.find((one) => `${one.structure} (${one.tier})` === part)?.a_vector))]));
}

function fillMachine() {
  const { environment } = sizes[sizes.length - 1];
  fillPairs(byId("environment"), { ...machineRows(environment), "measured": sizes.map((size) => `${formatCount(size.n)}: ${size.environment.time}, load ${size.environment.load.toFixed(2)}`).join("; "),
    "base": results.base, "queries": results.queries });
  const host = byId("machine"), loads = sizes[0].gathers.map((at) => at.loads);
  plainTable(host, ["ns a cache line, with loads in flight", ...loads.map(String)], sizes.map((size) => [`when ${formatCount(size.n)} ran`, ...size.gathers.map((at) => formatFigure(at.ns_a_line))]));
  const drives = sizes.flatMap((size) => size.indexes.flatMap((index) => index.drives.flatMap((drive) => drive.measured.map((measured) => ({ size, index, measured })))));
  if (drives.length === 0) return;
  plainTable(host, ["reads a second (mean µs) of the drive, with reads in flight", ...drives[0].measured.depths.map((at) => String(at.depth))],
    drives.map(({ size, index, measured }) => [`${formatCount(size.n)}, ${index.fast_bytes} B, ${measured.threads} threads`, ...measured.depths.map((at) => `${formatFigure(at.iops)} (${formatFigure(at.mean_us)})`)]));
}

function choice(host, name, values, label, chosen, take) {
  for (const value of values) {
    const box = element("label", "", byId(host)), input = element("input", "", box);
    Object.assign(input, { type: "radio", name, value: String(value), checked: value === chosen });
    text(box, "span", label(value));
    input.addEventListener("change", () => { take(value); update(); });
  }
}

function fillControls() {
  const measured = Object.keys(FIGURES).filter((figure) => rows.some((row) => row[figure] > 1e-6));
  if (!measured.includes(state.figure)) [state.figure] = measured;
  choice("figures", "figure", measured, (figure) => FIGURES[figure], state.figure, (figure) => { state.figure = figure; });
  choice("targets", "target", results.targets, String, state.target, (target) => { state.target = target; });
  for (const name of names) {
    const chip = text(byId("legend"), "button", name);
    chip.type = "button";
    chip.style.setProperty("--swatch", `var(${colourName(name)})`);
    chip.setAttribute("aria-pressed", "true");
    chip.addEventListener("click", () => {
      state.hidden.has(name) ? state.hidden.delete(name) : state.hidden.add(name);
      chip.setAttribute("aria-pressed", String(!state.hidden.has(name)));
      update();
    });
  }
}

function update() {
  draw();
  fillFits();
  fillRows();
}

document.title = `hmann: ${results.title}`;
byId("title").textContent = results.title;
byId("subtitle").textContent = `${head.base.dim} × ${head.base.dtype}, ${head.metric}; recall@${head.k}; M ${head.m}; ${formatCount(sizes[0].queries)} queries, dials chosen on ${formatCount(sizes[0].learned_from)} others; median of ${head.rounds} `
  + (head.rounds === 1 ? "round" : "rounds");
const madeUp = sizes.filter((size) => size.made_up);
byId("made-up").textContent = madeUp.length === 0 ? "All vectors and queries are real." : `Made-up vectors and queries, resampled from the real ones: ${madeUp.map((size) => formatCount(size.n)).join(", ")}.`;
byId("growth-note").textContent = `Curves are of ${shapeText(shape)}, with equal bytes of fast memory a vector at every size. Bytes, tier of L0, walk.`;
byId("rows-note").textContent = "The limit in DRAM: the cache lines that a query needs, computed from its counters (rows of distances, lists of nodes expanded, codes scored; nobody counts them), at the fastest rate of "
  + "independent loads that was measured beside it; of an index that the CPU's caches hold it says nothing. On a drive: its rounds at the drive's latency, and no more reads than the drive gives, at the depth used. "
  + "* The lowest recall measured lies above the target.";
fillControls();
fillGoal();
fillBuilds();
fillMachine();
update();
redrawWhenNeeded(byId("growth"), draw);
