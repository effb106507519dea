// Tables with one row per curve: at each target, of the drive and its memory, of builds.

const percent = (share) => `${(100 * share).toFixed(share < 0.1 ? 1 : 0)} %`;
const shown = (value, format = formatFigure) => (value === null || value === undefined ? "" : format(value));
const sizeText = (row) => formatCount(row.data) + (row.synthetic ? ", synthetic" : "");

/** The columns of a row at a target. Columns without a value in any row are left out. */
const COLUMNS = [
  ["fast bytes a vector", (row) => (row.fast_bytes === null ? "" : formatFigure(row.fast_bytes / row.data))],
  ["×", (row, at) => shown(at.ratio, formatRatio)],
  ["of all DRAM", (row, at) => shown(at.of_all_dram, percent)],
  ["of +0 ns", (row, at) => shown(at.of_without_latency, percent)],
  ["mean µs", (row, at) => shown(at.mean_us)],
  ["p99 µs", (row, at) => shown(at.p99_us)],
  ["CPU µs", (row, at) => shown(at.cpu_us)],
  ["distances", (row, at) => shown(at.distances)],
  ["codes scored", (row, at) => (at.estimates ? formatFigure(at.estimates) : "")],
  ["node reads", (row, at) => shown(at.node_reads)],
  ["slow bytes", (row, at) => (at.node_bytes ? formatFigure(at.node_bytes) : "")],
  ["hops", (row, at) => shown(at.hops)],
  ["I/Os", (row, at) => (at.io_reads ? formatFigure(at.io_reads) : "")],
  ["blocks", (row, at) => (at.blocks ? formatFigure(at.blocks) : "")],
  ["cache lines", (row, at) => shown(at.lines)],
  ["of the limit", (row, at) => shown(at.of_limit, percent)],
  ["of the disk", (row, at) => shown(at.disk_share, percent)],
];

function fillRows(rows) {
  const host = byId("rows");
  host.replaceChildren();
  results.targets.forEach((target, t) => {
    text(host, "h3", `At recall ${target}`);
    const most = Math.max(1, ...rows.map((row) => row.targets[t].qps || 0));
    const columns = COLUMNS.filter(([, cell]) => rows.some((row) => cell(row, row.targets[t]) !== ""));
    const body = headRow(element("table", "", element("div", "scroll", host)), [["", "text"], ["QPS", ""], ...columns.map(([title]) => [title, ""])]);
    for (const row of rows) {
      const line = element("tr", "", body), at = row.targets[t];
      nameCell(line, row);
      speedCell(line, at, most, row.name);
      for (const [, cell] of columns) text(line, "td", cell(row, at));
    }
  });
}

function fillDisk() {
  const { disk } = results, host = byId("disk"), [first] = disk.measured;
  const limits = [...new Set((disk.memory?.systems ?? []).map((c) => c.limit_bytes))];
  byId("disk-note").textContent = (limits.length === 1 ? `Each searching program has ${formatBytes(limits[0])} of memory, page cache included, no swap. ` : "Each searching program has a limit of memory, page cache included, no swap. ")
    + `hmann reads L0 past the page cache; hnswlib's level 0, where it takes part, is a mapped file, advised to be read at random. I/Os, node reads, bytes and hops are hmann's own counts per query; blocks are the 4 KiB that the kernel `
    + `says the disk gave; "of the disk" is blocks × QPS over the ${formatFigure(disk.most_iops)} reads per second that the disk gives by itself; "of the limit" is what its hops at the drive's latency, and its reads at the depth used, allow.`;
  text(host, "h3", `4 KiB reads at random, ${first.path.split("/").pop()} through tier ${first.tier}`);
  plainTable(host, ["reads in flight", ...first.depths.map((at) => String(at.depth))], disk.measured.flatMap(({ depths, data, system }) => {
    const who = results.sizes ? `, ${formatCount(data)}, ${system}` : "";
    return [["reads per second", "iops"], ["mean µs", "mean_us"]].map(([title, key]) => [title + who, ...depths.map((at) => formatFigure(at[key]))]);
  }));
  if (!disk.memory) return;
  text(host, "h3", "Memory");
  plainTable(host, ["", "index file", "limit", "its own, index loaded", "peak"], disk.memory.systems.map((c) => [c.system + (results.sizes ? `, ${formatCount(c.data)}` : ""),
    ...["index_file_bytes", "limit_bytes", "loaded_bytes", "peak_bytes"].map((key) => formatBytes(c[key]))]));
}

/** Each claim of the paper: a row of the table, and below it what was run, what was varied, and the figures. */
function fillClaims() {
  const { claims } = results, verdicts = [...new Set(claims.map((claim) => claim.verdict))];
  byId("verdicts").textContent = `${verdicts.map((verdict) => `${claims.filter((claim) => claim.verdict === verdict).length} ${verdict}`).join(", ")}. Emulated and modelled figures say so.`;
  plainTable(byId("claims-table"), ["claim", "of the paper", "here", "verdict"], claims.map((claim) => [claim.claim, claim.paper, claim.figure, claim.verdict]), true);
  for (const claim of claims) {
    const more = element("details", "", byId("claims"));
    text(more, "summary", `${claim.claim}: ${claim.verdict}`);
    for (const [title, key] of [["The paper", "paper"], ["Run", "ran"], ["Here", "figure"], ["Varied, and what that rules out", "varied"]]) {
      const line = element("p", "", more);
      text(line, "b", `${title}: `);
      line.append(claim[key]);
    }
    for (const { title, head, rows } of claim.tables) {
      text(more, "h3", title);
      plainTable(more, head, rows);
    }
  }
}

function barCell(row, value, most, label, name) {
  const cell = element("td", "", row);
  text(cell, "span", label);
  drawBar(cell, value, most, name);
}

/** Curves of one system share its index. */
function fillBuilds() {
  const first = results.systems.filter((one, i, all) => all.findIndex((other) => other.system === one.system && other.data === one.data) === i);
  const bounded = first.some((c) => c.peak_anonymous_bytes);
  const body = headRow(byId("builds"), [["system", "text"], ["library", "text"], ["build time", ""], ["threads", ""], ["index, vectors included", ""], ...(bounded ? [["memory", ""], ["work folder", ""]] : []), ["parts", "text"]]);
  const most = (key) => Math.max(...first.map((c) => c[key]));
  for (const c of first) {
    const row = element("tr", "", body);
    nameCell(row, c, c.system);
    const own = Object.fromEntries(Object.entries(c.build).filter(([, value]) => !c.library.includes(String(value))));
    text(row, "td", [c.library + (Object.keys(own).length ? ` (${settingText(own)})` : ""), c.structure].filter(Boolean).join("; "), "text");
    if (c.build_seconds === null) text(row, "td", "stood before", "quiet");
    else barCell(row, c.build_seconds, most("build_seconds"), formatSeconds(c.build_seconds), c.name);
    text(row, "td", c.build_seconds === null ? "-" : String(c.build_threads));
    barCell(row, c.index_bytes, most("index_bytes"), formatBytes(c.index_bytes), c.name);
    if (bounded) for (const key of ["peak_anonymous_bytes", "work_bytes"]) text(row, "td", shown(c[key], formatBytes));
    text(row, "td", Object.entries(c.phases).map(([phase, seconds]) => `${phase} ${formatSeconds(seconds)}`).join(", "), "text quiet");
  }
}
