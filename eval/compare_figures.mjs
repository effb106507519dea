// The figures of compare.mjs: the part that does not run a program.

export function median(values) {
  const sorted = [...values].sort((a, b) => a - b), half = sorted.length >> 1;
  return sorted.length % 2 ? sorted[half] : (sorted[half - 1] + sorted[half]) / 2;
}

/** Median, smallest, largest, and the median absolute deviation from the median. */
export function spread(values) {
  const middle = median(values);
  return { median: middle, min: Math.min(...values), max: Math.max(...values), mad: median(values.map((value) => Math.abs(value - middle))) };
}

/** The order of a round: none is always first, and none always follows the same one. */
export function orderOf(round) {
  const streams = ["old", "new", "again"];
  const turned = streams.map((_, i) => streams[(i + round) % 3]);
  return round % 2 ? turned.reverse() : turned;
}

/** Summarizes rounds with the QPS of old, new and again. Ratios are taken within a round, then their spread. */
export function summarize(rounds) {
  const us = (name) => median(rounds.map((round) => 1e6 / round[name]));
  return { us: { old: us("old"), new: us("new"), again: us("again") },
    ratio: spread(rounds.map((round) => round.new / round.old)), same: spread(rounds.map((round) => round.again / round.new)) };
}

/** A .u8bin, .i8bin or .fbin file (u32 n, u32 dim, rows) of `count` rows, which repeat those of `content`. */
export function repeated(content, componentBytes, count) {
  const rows = content.readUInt32LE(0), rowBytes = content.readUInt32LE(4) * componentBytes;
  const out = Buffer.alloc(8 + count * rowBytes);
  content.copy(out, 0, 0, 8);
  out.writeUInt32LE(count, 0);
  for (let row = 0; row < count; row += rows) content.copy(out, 8 + row * rowBytes, 8, 8 + Math.min(rows, count - row) * rowBytes);
  return out;
}

/** Rows of cells as lines: the first and the last column left-aligned, numbers right-aligned. */
export function alignment(rows) {
  const last = rows[0].length - 1, isText = last > 3;
  const widths = rows[0].map((_, column) => Math.max(...rows.map((row) => row[column].length)));
  return rows.map((row) => row.map((cell, column) =>
    column === 0 || (isText && column === last) ? cell.padEnd(widths[column]) : cell.padStart(widths[column])).join("  ").trimEnd()).join("\n");
}
