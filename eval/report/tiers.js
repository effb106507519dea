// Two memories, one of them emulated: a table of bars for each recall.

function tierCells(row, line, at, most) {
  speedCell(row, at, most, line.name);
  text(row, "td", at.ratio === null ? "" : formatRatio(at.ratio));
  text(row, "td", at.of_all_dram === null ? "" : `${(100 * at.of_all_dram).toFixed(1)} %`);
  text(row, "td", at.without_latency === null ? "" : `${formatFigure(at.without_latency)} (${(100 * at.of_without_latency).toFixed(0)} %)`);
  text(row, "td", at.slow_reads === null ? "" : formatFigure(at.slow_reads));
  text(row, "td", line.fast_bytes === null ? "" : formatFigure(line.fast_bytes / results.data.n));
}

function fillTiers() {
  const { tiers } = results;
  if (!tiers) return;
  byId("tiers-section").hidden = false;
  byId("tiers-note").textContent = `The slow memory is emulated (${tiers.emulated}), on top of this machine's DRAM. Memory Mode and first-touch are models, fed with the trace of `
    + `the search and then timed on the emulated memory. × is the ratio to HNSW all slow with as many queries in flight; "of all DRAM" is the share of the speed of the same search with everything in DRAM.`;
  results.targets.forEach((target, t) => {
    const at = tiers.rows.map((line) => line.targets[t]), most = Math.max(1, ...at.map((cell) => cell.qps || 0));
    text(byId("tiers"), "h3", `At recall ${target}`);
    const table = element("table", "", element("div", "scroll", byId("tiers")));
    const body = headRow(table, [["", "text"], ["", "text"], ["QPS", ""], ["×", ""], ["of all DRAM", ""], ["QPS at +0 ns (share of it)", ""], ["slow reads a query", ""], ["fast bytes a vector", ""]]);
    tiers.rows.forEach((line, i) => {
      const row = element("tr", "", body);
      nameCell(row, line.name);
      text(row, "td", line.kind, "text quiet");
      tierCells(row, line, at[i], most);
    });
  });
}
