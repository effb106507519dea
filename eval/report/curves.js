// Arithmetic and wording, without the page: the same front and interpolation as eval/statistics.h.

/** The points that no other beats in both recall and QPS, recall ascending. */
function paretoFront(points) {
  const order = [...points].sort((a, b) => b.recall - a.recall || b.qps - a.qps);
  const front = [];
  for (const point of order) {
    if (front.length === 0 || point.qps > front[front.length - 1].qps) front.push(point);
  }
  return front.reverse();
}

/** The position of a recall on the chart: equal steps to the right divide the misses by equal factors. */
function missScale(recall, resolution) {
  return -Math.log10(Math.max(1 - recall, resolution / 2));
}

/** QPS of a front at a position of missScale; null outside the front. */
function qpsAt(front, x, resolution) {
  for (let i = 1; i < front.length; ++i) {
    const low = missScale(front[i - 1].recall, resolution), high = missScale(front[i].recall, resolution);
    if (x < low || x > high) continue;
    const share = high > low ? (x - low) / (high - low) : 1;
    return Math.exp(Math.log(front[i - 1].qps) * (1 - share) + Math.log(front[i].qps) * share);
  }
  return null;
}

const whole = new Intl.NumberFormat("en", { maximumFractionDigits: 0 });
const formatCount = (n) => whole.format(n);

/** Three significant digits: 27,100 and 8.53. */
function formatFigure(x) {
  return new Intl.NumberFormat("en", { maximumSignificantDigits: Math.max(3, Math.floor(Math.log10(Math.max(x, 1))) + 1) }).format(x);
}

function formatRatio(x) { return x.toFixed(x < 1 ? 3 : 2) + "×"; }

function formatRecall(x) { return x === 1 ? "1" : x.toFixed(1 - x < 0.001 ? 5 : 4); }

function formatBytes(bytes) {
  const units = ["B", "KiB", "MiB", "GiB", "TiB"];
  let unit = 0;
  for (; bytes >= 1024 && unit + 1 < units.length; ++unit) bytes /= 1024;
  return (unit === 0 ? bytes : bytes.toPrecision(bytes < 100 ? 3 : 4)) + " " + units[unit];
}

function formatSeconds(seconds) {
  if (seconds < 1) return (seconds * 1000).toPrecision(3) + " ms";
  if (seconds < 120) return seconds.toPrecision(3) + " s";
  return Math.floor(seconds / 60) + " min " + Math.round(seconds % 60) + " s";
}

/** {"mode": "graph", "ef_l0": 40} in words: "graph, ef_l0 40". */
function settingText(setting) {
  return Object.entries(setting).map(([key, value]) => (key === "mode" ? value : `${key} ${value}`)).join(", ");
}

/** Labeled positions of recalls on the chart between two of them, at most about twelve. */
function recallTicks(low, high) {
  const all = [0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8, 0.85, 0.9, 0.95, 0.98, 0.99, 0.995, 0.998, 0.999, 0.9995, 0.9999, 0.99995, 0.99999];
  return all.map((recall) => ({ recall, x: -Math.log10(1 - recall) })).filter((tick) => tick.x >= low && tick.x <= high);
}

/** 1, 2, 5, 10, ... between two values. */
function logTicks(low, high) {
  const ticks = [];
  for (let decade = 10 ** Math.floor(Math.log10(low)); decade <= high; decade *= 10) {
    for (const step of [1, 2, 5]) {
      if (step * decade >= low && step * decade <= high) ticks.push(step * decade);
    }
  }
  return ticks;
}
