// What `hmann tune` tried, kept and chose: the figures 3.7 and 3.8 of the paper for the reader's own index.

const results = JSON.parse(document.getElementById("results").textContent);
const state = { at: 0, hidden: new Set(), predicted: "predicted_us" };
const CLASSES = [["dropped", "dropped by the model", "--c-4"], ["seed", "run to fit the model", "--c-hnswlib"], ["kept", "kept by the model", "--c-hmann"],
  ["finalist", "run to the end", "--c-faiss"], ["chosen", "chosen", "--c-1"]];
const MEANINGS = { dropped: "never run while tuning" };

const table = () => results.tuned[state.at];
const checked = () => table().check !== undefined;
const percent = (share) => `${(100 * share).toFixed(1)} %`;
const formatUs = (us) => `${formatFigure(us)} µs`;
const dialsText = (setting) => settingText(Object.fromEntries(results.dials.filter((dial) => setting[dial] !== undefined).map((dial) => [dial, setting[dial]])));
const targetText = (target) => Object.entries(target).map(([key, value]) => (key === "recall" ? `recall ${value}` : `${formatFigure(value)} µs`)).join(", ");

/** Where a setting is drawn: as the check saw it, else as it was measured, else as predicted. */
function place(setting) {
  return { recall: setting.test_recall ?? setting.recall ?? setting.predicted_recall, us: setting.test_mean_us ?? setting.mean_us ?? setting.predicted_us, setting };
}

function settingLines({ recall, us, setting }, curve) {
  const lines = [{ text: curve.name }, { text: dialsText(setting) }, { text: `recall ${formatRecall(recall)}, ${formatUs(us)}` },
    { text: `predicted ${formatUs(setting.predicted_us)}, recall ${formatRecall(setting.predicted_recall)}; by Equation 3.1 ${formatUs(setting.paper_us)}`, quiet: true }];
  if (setting.chosen.length > 0) lines.splice(1, 0, { text: `for ${setting.chosen.map(targetText).join(" and ")}` });
  return lines;
}

/** A curve for each kind of setting that is not hidden; `able` says which settings take part, `make` how they are drawn. */
function kinds(able, make) {
  return CLASSES.filter(([fate]) => !state.hidden.has(fate)).map(([fate, name, colour]) => {
    const members = table().settings.filter((s) => (fate === "chosen" ? s.chosen.length > 0 : s.fate === fate) && able(s));
    return { name, colour: css(colour), scattered: true, names: [], size: fate === "chosen" ? 12 : undefined, others: [], ...make(members, fate) };
  });
}

function drawSettings() {
  const { settings, check, learning_queries: queries, k } = table();
  const curves = kinds(() => true, (members, fate) => {
    const points = members.map(place).sort((a, b) => a.recall - b.recall);
    if (fate === "chosen") return { front: points, names: points.map((point) => ({ name: point.setting.chosen.map(targetText).join(", "), point })) };
    if (fate !== "finalist") return { front: points };
    return { scattered: false, front: points.filter((p) => p.setting.front), others: points.filter((p) => !p.setting.front) };
  });
  byId("settings-note").textContent = `${formatCount(settings.length)} settings of the dials; down and to the right is better. The line joins what no other setting beats. `
    + (check ? "Recall and time are those of the check, which ran all of them on queries that were not learned from."
      : "Settings that were run are drawn as measured, the others as predicted: `hmann tune --check` runs them all.");
  drawCurves(byId("settings"), { curves, across: recallAcross(table().choices.map((c) => c.target.recall).filter(Boolean), 1 / (queries * k)), value: (p) => p.us,
    unit: "µs per query", hover: settingLines, spoken: byId("spoken") });
}

/** The line of equal times and a quarter to either side. */
function drawEqual(u) {
  const { ctx, bbox } = u, { min, max } = u.scales.x;
  ctx.save();
  ctx.beginPath();
  ctx.rect(bbox.left, bbox.top, bbox.width, bbox.height);
  ctx.clip();
  ctx.lineWidth = devicePixelRatio;
  for (const factor of [0.75, 1, 1.25]) {
    ctx.strokeStyle = css(factor === 1 ? "--ink" : "--target");
    ctx.setLineDash(factor === 1 ? [] : [3 * devicePixelRatio, 4 * devicePixelRatio]);
    ctx.beginPath();
    for (const x of [min, max]) ctx.lineTo(u.valToPos(x, "x", true), u.valToPos(factor * 10 ** x, "y", true));
    ctx.stroke();
  }
  ctx.restore();
}

function drawModel() {
  const curves = kinds((s) => (s.test_mean_us ?? s.mean_us) > 0 && s[state.predicted] > 0, (members) => ({ front: members.map(place).sort((a, b) => a.us - b.us) }));
  byId("model-note").textContent = "On the line both agree; the dashed ones are 25 % off. "
    + (checked() ? "Measured on queries that were not learned from." : "Only settings that the model was fitted to: `hmann tune --check` measures the others.");
  drawCurves(byId("model"), { curves, across: logAcross({ value: (p) => p.us, label: "measured µs per query", draw: drawEqual }), value: (p) => p.setting[state.predicted],
    unit: "predicted µs per query", hover: settingLines, spoken: byId("spoken") });
}

function fillChoices() {
  const { settings, choices, check } = table(), host = byId("choices");
  host.replaceChildren();
  const rows = choices.map((choice, i) => {
    const row = [targetText(choice.target) + (choice.met ? "" : ": cannot be met; the best"), dialsText(choice), formatRecall(choice.recall), formatFigure(choice.mean_us), formatFigure(choice.predicted_us)];
    if (!check) return row;
    const tested = check.choices[i];
    return [...row, formatRecall(tested.test_recall), formatFigure(tested.test_mean_us), tested.best ? dialsText(tested.best) : "none meets it",
      tested.best ? percent(tested.regret) : ""];
  });
  plainTable(host, ["target", "chosen", "recall", "µs", "predicted µs", ...(check ? ["recall on test queries", "µs there", "best of the grid there", "regret"] : [])], rows);
  const run = settings.filter((s) => s.fate !== "dropped").length;
  byId("headline").textContent = `${formatCount(run)} of ${formatCount(settings.length)} settings were run (${percent(1 - run / settings.length)} were not)`
    + (check ? `; times of the others, predicted, are off by ${percent(check.model_error_less_drift.median)} (median).` : ".");
}

function fillErrors() {
  const { check } = table(), host = byId("errors");
  host.replaceChildren();
  if (!check) return;
  const row = (name, error) => [name, percent(error.median), percent(error.p95), percent(error.worst)];
  plainTable(host, [`${formatCount(check.held_out)} settings never run: |predicted / measured - 1|`, "median", "95 of 100", "worst"],
    [row("the model", check.model_error), row("the model, less the machine's drift since tuning", check.model_error_less_drift), row("Equation 3.1", check.paper_model_error),
      row("a setting against itself, measured again", check.same_again)]);
}

function fillAll() {
  const { settings } = table();
  byId("all").replaceChildren();
  const shown = (value, format) => (value === undefined ? "" : format(value));
  plainTable(byId("all"), ["setting", "", "recall", "µs", "predicted recall", "predicted µs", "Equation 3.1, µs", ...(checked() ? ["recall in the check", "µs in the check"] : [])],
    settings.map((s) => [dialsText(s), s.chosen.length > 0 ? "chosen" : MEANINGS[s.fate] ?? CLASSES.find(([fate]) => fate === s.fate)[1], shown(s.recall, formatRecall),
      shown(s.mean_us, formatFigure), formatRecall(s.predicted_recall), formatFigure(s.predicted_us), formatFigure(s.paper_us),
      ...(checked() ? [formatRecall(s.test_recall), formatFigure(s.test_mean_us)] : [])]));
}

function draw() {
  drawSettings();
  drawModel();
}

function update() {
  const { k, fast, slow, cache, learning_queries: queries, origin, seconds } = table();
  byId("subtitle").textContent = `${formatCount(results.index.n)} vectors of ${results.index.dim} × ${results.index.dtype}, ${results.index.metric}; k = ${k}; upper layers on ${fast}, `
    + `L0 on ${slow}, cache ${cache}; tuned in ${formatSeconds(seconds)} with ${formatCount(queries)} queries (${origin})`;
  fillChoices();
  fillErrors();
  fillAll();
  draw();
}

function fillControls() {
  byId("tables").hidden = results.tuned.length < 2;
  results.tuned.forEach(({ slow, k }, i) => {
    const label = element("label", "", byId("tables")), input = element("input", "", label);
    Object.assign(input, { type: "radio", name: "table", value: i, checked: i === 0 });
    text(label, "span", `${slow}, k = ${k}`);
    input.addEventListener("change", () => { state.at = i; update(); });
  });
  for (const [fate, name, colour] of CLASSES) {
    const chip = text(byId("legend"), "button", name);
    chip.type = "button";
    chip.style.setProperty("--swatch", `var(${colour})`);
    chip.setAttribute("aria-pressed", "true");
    chip.addEventListener("click", () => {
      state.hidden.has(fate) ? state.hidden.delete(fate) : state.hidden.add(fate);
      chip.setAttribute("aria-pressed", String(!state.hidden.has(fate)));
      draw();
    });
  }
  for (const input of document.querySelectorAll("input[name=model]")) input.addEventListener("change", () => { state.predicted = input.value; drawModel(); });
}

document.title = `hmann: ${results.title}`;
byId("title").textContent = results.title;
fillPairs(byId("environment"), { ...machineRows(results.environment), "measured": results.environment.time, "index": results.index.path, "table": results.table });
fillControls();
update();
redrawWhenNeeded(byId("settings"), draw);
