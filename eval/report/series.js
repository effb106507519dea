// Growth and load: results with more than one size of data, or more than one rate.

const FIGURES = { node_reads: "node reads", hops: "hops", io_reads: "I/Os", distances: "distances", estimates: "codes scored", lines: "cache lines", mean_us: "mean µs", p99_us: "p99 µs", qps: "queries per second" };

function radios(host, name, values, label, chosen, take) {
  byId(host).hidden = values.length < 2;
  for (const value of values) {
    const box = element("label", "", byId(host)), input = element("input", "", box);
    Object.assign(input, { type: "radio", name, value: String(value), checked: value === chosen });
    text(box, "span", label(value));
    input.addEventListener("change", () => { take(value); update(); });
  }
}

/** The first shape of each curve: [{curve, rows by size}]. */
function grownCurves() {
  const names = [...new Set(results.systems.filter((row) => !row.aside).map((row) => row.curve))];
  return names.map((curve) => {
    const rows = results.systems.filter((row) => row.curve === curve).sort((a, b) => a.data - b.data);
    return { curve, rows: rows.filter((row) => row.threads === rows[0].threads && row.in_flight === rows[0].in_flight) };
  });
}

function drawGrowth() {
  const t = results.targets.indexOf(state.target);
  const points = (rows) => rows.map((row) => ({ row, at: row.targets[t], value: row.targets[t][state.figure] })).filter(({ value }) => value > 0);
  const curves = grownCurves().filter(({ rows }) => !rows.every((row) => state.hidden.has(row.name))).map(({ curve, rows }) => ({ name: curve, color: css(colorName(rows[0].name)), front: points(rows), others: [] }));
  drawCurves(byId("growth"), {
    curves: curves.filter((curve) => curve.front.length > 0), across: logAcross({ value: ({ row }) => row.data, label: "vectors", format: formatCount }), value: ({ value }) => value, unit: FIGURES[state.figure],
    hover: ({ row, at, value }, curve) => [{ text: curve.name }, { text: sizeText(row) }, { text: `${formatFigure(value)} ${FIGURES[state.figure]}` },
      { text: at.at_recall > at.recall + 1e-12 ? `at recall ${formatRecall(at.at_recall)}, the lowest measured` : `at recall ${at.recall}`, quiet: true }],
    spoken: byId("growth-spoken"),
  });
}

/** Fits y = start + slope x by least squares. `at(x)`: y there, and its standard error, which takes three points. */
function lineThrough(x, y) {
  const mean = (values) => values.reduce((sum, value) => sum + value, 0) / values.length, meanX = mean(x), meanY = mean(y);
  const spread = x.reduce((sum, value) => sum + (value - meanX) ** 2, 0), slope = x.reduce((sum, value, i) => sum + (value - meanX) * (y[i] - meanY), 0) / spread;
  const start = meanY - slope * meanX, squares = x.reduce((sum, value, i) => sum + (y[i] - start - slope * value) ** 2, 0);
  return { slope, fitted: x.map((value) => start + slope * value),
    at: (value) => ({ value: start + slope * value, error: Math.sqrt((squares / (x.length - 2)) * (1 + 1 / x.length + (value - meanX) ** 2 / spread)) }) };
}

/**
 * Fits a figure over sizes, [[n, value], ...], as a logarithm of n and as a power of n. From three sizes on, both have a residual, and the
 * closer one is extrapolated to a billion.
 */
function fitRow(name, points, madeUp) {
  const x = points.map(([n]) => Math.log10(n)), y = points.map(([, value]) => value), logarithm = lineThrough(x, y), power = lineThrough(x, y.map(Math.log10));
  const growth = [name, `${points.length} (${madeUp})`, Math.abs(logarithm.slope) < 1000 ? logarithm.slope.toFixed(2) : formatFigure(logarithm.slope), power.slope.toFixed(3)];
  if (points.length < 3) return growth;
  const worst = (fitted) => Math.max(...fitted.map((value, i) => Math.abs(y[i] / value - 1)));
  const low = logarithm.at(9), high = power.at(9), residuals = [worst(logarithm.fitted), worst(power.fitted.map((value) => 10 ** value))];
  const told = residuals[0] > residuals[1] ? `${formatFigure(10 ** high.value)} × or ÷ ${formatFigure(10 ** high.error)}`
    : low.value > 0 ? `${formatFigure(low.value)} ± ${formatFigure(Math.round(1e6 * low.error) / 1e6)}` : "";
  return [...growth, ...residuals.map(percent), told];
}

/** Fits the shown figure at the shown recall, and the builds. */
function fillFits() {
  const host = byId("fits"), t = results.targets.indexOf(state.target), lines = [];
  const add = (name, rows, value) => {
    const told = rows.filter((row) => value(row) > 0);
    if (told.length > 1) lines.push(fitRow(name, told.map((row) => [row.data, value(row)]), told.filter((row) => row.synthetic).length));
  };
  // A row above the target has a different recall at each size.
  for (const { curve, rows } of grownCurves()) add(curve, rows, (row) => (row.targets[t].at_recall > state.target + 1e-12 ? 0 : row.targets[t][state.figure]));
  for (const { rows } of grownCurves().filter(({ rows: [first] }, i, all) => all.findIndex((other) => other.rows[0].system === first.system) === i)) {
    for (const key of ["build_cpu_seconds", "peak_anonymous_bytes"]) add(`${rows[0].system}, build: ${key.replaceAll("_", " ")}`, rows, (row) => row[key]);
  }
  host.replaceChildren();
  if (lines.length > 0) {
    const titles = [`${FIGURES[state.figure]} at recall ${state.target}`, "sizes (synthetic)", "a decade adds", "grows as n to the", "worst residual of the logarithm", "of the power", "extrapolated to a billion"];
    const shown = titles.slice(0, Math.max(...lines.map((line) => line.length)));
    plainTable(host, shown, lines.map((line) => shown.map((_, i) => line[i] ?? "")));
  }
  byId("fits-note").textContent = results.sizes.length < 3 ? "Two sizes show no error, so nothing is extrapolated from them." : "The fit with the smaller residual is extrapolated, where there are three sizes.";
}

function fillGrowthControls() {
  const madeUp = results.sizes.filter((size) => size.synthetic);
  byId("made-up").textContent = madeUp.length === 0 ? "All vectors and queries are real." : `Made-up vectors and queries, resampled from the real ones: ${madeUp.map((size) => formatCount(size.data)).join(", ")}.`;
  const measured = Object.keys(FIGURES).filter((figure) => results.systems.some((row) => row.targets.some((at) => at[figure] > 0)));
  if (!measured.includes(state.figure)) [state.figure] = measured;
  radios("figures", "figure", measured, (figure) => FIGURES[figure], state.figure, (figure) => { state.figure = figure; });
  radios("at", "target", results.targets, String, state.target, (target) => { state.target = target; });
}

/** Runbooks: vectors that come and go, and searches in between. */
function fillSteps() {
  const nameOf = (row) => (results.runbooks.some((other) => other.target !== row.target) ? `${row.system} at ${row.target}` : row.system);
  const names = [...new Set(results.runbooks.map(nameOf))], colors = ["--c-hmann", "--c-hnswlib", "--c-faiss", "--c-0", "--c-1", "--c-2", "--c-3", "--c-4", "--c-5"];
  drawCurves(byId("steps"), {
    curves: names.map((name, i) => ({ name, color: css(colors[i % colors.length]), others: [], front: results.steps.filter((row) => nameOf(row) === name) })), across: logAcross({ value: (row) => row.step, label: "step" }), value: (row) => 1e6 / row.qps, unit: "µs per query",
    hover: (row, curve) => [{ text: curve.name }, { text: `step ${row.step}: ${formatCount(row.vectors)} vectors` }, { text: `${formatFigure(1e6 / row.qps)} µs each, recall ${row.recall.toFixed(4)}` }], spoken: byId("steps-spoken"),
  });
  for (const id of ["runbooks-table", "steps-table"]) byId(id).replaceChildren();
  plainTable(byId("runbooks-table"), ["runbook", "recall asked", "mean recall", "least", "changes", "searches", "merges", "memory at most"], results.runbooks.map((row) => [row.system, String(row.target), row.recall.toFixed(4), row.least_recall.toFixed(4), `${formatFigure(row.update_seconds)} s`, `${formatFigure(row.search_seconds)} s`, String(row.merges), formatBytes(row.peak_anonymous_bytes)]));
  plainTable(byId("steps-table"), ["", "step", "vectors", "recall", "µs per query", ""], results.steps.map((row) => [nameOf(row), String(row.step), formatCount(row.vectors), row.recall.toFixed(4), formatFigure(1e6 / row.qps), row.noisy ? "disturbed" : ""]));
}

function fillLoad() {
  const shares = { p50_us: "half", p99_us: "99 %", p999_us: "99.9 %" }, colors = ["--c-hmann", "--c-hnswlib", "--c-faiss"];
  byId("load-note").textContent = "Requests arrive at random times, whether or not the server keeps up. Latency is from a request's arrival to its answer, of those that were answered in time.";
  const nameOf = (row) => [row.system, settingText(row.setting)].filter(Boolean).join(", ");
  const names = [...new Set(results.load.map(nameOf))];
  const curves = names.flatMap((name) => Object.entries(shares).map(([key, share], i) => ({
    name: names.length > 1 ? `${share}, ${name}` : share, color: css(colors[i]), others: [], dash: names.indexOf(name) > 0,
    front: results.load.filter((row) => nameOf(row) === name && row[key]).map((row) => ({ row, value: row[key] })).sort((a, b) => a.row.rate - b.row.rate),
  })));
  drawCurves(byId("load"), {
    curves: curves.filter((curve) => curve.front.length > 0), across: logAcross({ value: ({ row }) => row.rate, label: "requests a second" }), value: ({ value }) => value, unit: "µs",
    hover: ({ row, value }, curve) => [{ text: curve.name }, { text: `${formatFigure(row.rate)} requests a second` }, { text: `${formatFigure(value)} µs` }, { text: `${formatCount(row.answered)} of ${formatCount(row.offered)} answered`, quiet: true }],
    spoken: byId("load-spoken"),
  });
  const host = byId("load-table");
  host.replaceChildren();
  plainTable(host, ["", "round", "requests a second", "queries each", "answered", "queries/s", "p50 µs", "p90 µs", "p99 µs", "p99.9 µs", "most µs", "client CPU µs", "server CPU µs", "failed", ""], results.load.map((row) => [nameOf(row), String(row.round + 1),
    formatFigure(row.rate), String(row.batch), `${formatCount(row.answered)} of ${formatCount(row.offered)}`, formatFigure(row.queries_per_second), ...["p50_us", "p90_us", "p99_us", "p999_us", "max_us", "client_cpu_us", "server_cpu_us"].map((key) => shown(row[key])),
    Object.entries(row.failed).map(([code, count]) => `${count} ${code}`).join(", "), row.noisy ? "disturbed" : ""]));
}
