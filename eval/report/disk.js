// Search on a disk inside a memory limit: the disk by itself, the memory, and a table for each recall.

function diskCells(row, at, most) {
  speedCell(row, at, most, at.contestant);
  const shown = (value, format = formatFigure) => text(row, "td", value === null ? "" : format(value));
  shown(at.ratio, formatRatio);
  for (const key of ["mean_us", "p99_us", "cpu_us", "io_reads", "slow_reads", "slow_bytes", "rounds", "blocks"]) shown(at[key]);
  shown(at.disk_share, (share) => `${(100 * share).toFixed(0)} %`);
}

function fillDisk() {
  const { disk } = results;
  if (!disk) return;
  byId("disk-section").hidden = false;
  const host = byId("disk"), { memory } = disk, [first] = disk.measured;
  byId("disk-note").textContent = `Each searching program has ${formatBytes(memory.limit_bytes)} of memory, page cache included`
    + `${memory.limit_given ? "" : ", a quarter of hmann's index file and 64 MiB"}; no swap. hmann reads L0 past the page cache; hnswlib's level 0, where it takes part, is a mapped file, `
    + `advised to be read at random. × is the ratio to ${disk.reference} with as many threads. I/Os, records, bytes and rounds are hmann's own counts per query; blocks are the 4 KiB that the kernel says the `
    + `disk gave; "of the disk" is blocks × QPS over the ${formatFigure(disk.most_iops)} reads per second that the disk gives by itself.`;
  for (const recall of [...new Set(disk.rows.map((row) => `${row.at}/${row.target}`))]) {
    const rows = disk.rows.filter((row) => `${row.at}/${row.target}` === recall), most = Math.max(1, ...rows.map((row) => row.qps || 0));
    text(host, "h3", `At recall@${rows[0].at} ${rows[0].target}`);
    const body = headRow(element("table", "", element("div", "scroll", host)), [["", "text"], ["QPS", ""], ["×", ""], ["mean µs", ""], ["p99 µs", ""], ["CPU µs", ""], ["I/Os", ""], ["records", ""],
      ["bytes", ""], ["rounds", ""], ["blocks", ""], ["of the disk", ""]]);
    for (const at of rows) {
      const row = element("tr", "", body);
      nameCell(row, at.contestant);
      diskCells(row, at, most);
    }
  }
  text(host, "h3", `The disk by itself: 4 KiB reads at random, ${first.path.split("/").pop()} through tier ${first.tier}`);
  plainTable(host, ["reads in flight", ...first.depths.map((at) => String(at.depth))], disk.measured.flatMap(({ threads, depths }) => {
    const who = threads === 1 ? "1 thread" : `${threads} threads`;
    return [["reads per second", "iops"], ["mean µs", "mean_us"], ["p99 µs", "p99_us"]].map(([title, key]) => [`${title}, ${who}`, ...depths.map((at) => formatFigure(at[key]))]);
  }));
  text(host, "h3", "Memory");
  plainTable(host, ["", "index file", "limit", "its own, index loaded", "peak"],
    memory.contestants.map((c) => [c.contestant, ...["index_file_bytes", "limit_bytes", "loaded_bytes", "peak_bytes"].map((key) => formatBytes(c[key]))]));
}
