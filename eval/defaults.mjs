// Compares the answers of an untuned index with those of the same index tuned: ./dev defaults calls it.
//   node defaults.mjs --hmann PROGRAM --index FILE --queries FILE --groundtruth FILE [--slow dram,nvme] [--recall 0.95] [--learn N]
//     [--tune-queries FILE] [--rows N] [--rounds N] [--json]
// The tuning learns from --tune-queries, else from vectors of the index, each left out in turn; --queries are others. Runs alternate:
// default, default again (A/A), tuned. The ratio of mean times is the median over rounds. The default may be slower by at most 1.3.
import { spawnSync } from "node:child_process";
import { copyFileSync, existsSync, linkSync, mkdtempSync, readFileSync, rmSync } from "node:fs";
import { dirname, join } from "node:path";
import { parseArgs } from "node:util";
import { alignment, median } from "./compare_figures.mjs";

const { values } = parseArgs({
  options: {
    hmann: { type: "string" }, index: { type: "string" }, queries: { type: "string" }, groundtruth: { type: "string" }, help: { type: "boolean" },
    slow: { type: "string", default: "dram,nvme" }, recall: { type: "string", default: "0.95" }, learn: { type: "string", default: "500" },
    "tune-queries": { type: "string" }, rows: { type: "string", default: "0" }, rounds: { type: "string", default: "7" }, json: { type: "boolean" },
  },
});
if (values.help) {
  console.log(readFileSync(process.argv[1], "utf8").split("\n").filter((line) => line.startsWith("//")).map((line) => line.slice(3)).join("\n"));
  process.exit(0);
}
for (const needed of ["hmann", "index", "queries", "groundtruth"]) if (!values[needed]) throw new Error(`--${needed} is missing (--help)`);

function hmann(...args) {
  const { status, stdout, stderr } = spawnSync(values.hmann, [...args, "--json"], { encoding: "utf8", maxBuffer: 1 << 28, env: { ...process.env, HMANN_PROGRESS: "never" } });
  if (status !== 0) throw new Error(`${args.join(" ")}: ${stderr}`);
  return JSON.parse(stdout);
}

// The same file under two names: calibration at the build and later tuning lie next to it.
const folder = mkdtempSync(join(dirname(values.index), "defaults-"));
process.on("exit", () => rmSync(folder, { recursive: true, force: true }));
process.on("SIGINT", () => process.exit(130));
const names = { plain: join(folder, "plain.hmann"), tuned: join(folder, "tuned.hmann") };
for (const name of Object.values(names)) {
  linkSync(values.index, name);
  if (existsSync(`${values.index}.tuned`)) copyFileSync(`${values.index}.tuned`, `${name}.tuned`);
}

const results = values.slow.split(",").map((slow) => {
  const learned = values["tune-queries"] ? ["--queries", values["tune-queries"]] : [];
  const tuning = hmann("tune", names.tuned, "--slow", slow, "--recall", values.recall, "--k", "10", "--learn", values.learn, "--query-threads", "1", ...learned);
  const search = (name, ...more) =>
    hmann("search", names[name], "--queries", values.queries, "--groundtruth", values.groundtruth, "--slow", slow, "--rows", values.rows, ...more);
  const runs = { plain: () => search("plain"), again: () => search("plain"), tuned: () => search("tuned", "--recall", values.recall) };
  const rounds = [];
  for (let round = 0; round < Number(values.rounds); ++round) {
    const order = Object.keys(runs).map((_, i, all) => all[(i + round) % all.length]), reports = {};
    for (const name of order) reports[name] = runs[name]();
    rounds.push(reports);
  }
  const us = (report) => 1e6 / report.qps, last = rounds.at(-1);
  return { slow, default_recall: last.plain.recall, tuned_recall: last.tuned.recall, default_us: median(rounds.map((round) => us(round.plain))),
    tuned_us: median(rounds.map((round) => us(round.tuned))), ratio: median(rounds.map((round) => us(round.plain) / us(round.tuned))),
    same: median(rounds.map((round) => us(round.again) / us(round.plain))), tune_seconds: tuning.seconds };
});
const number = (value, digits) => value.toFixed(digits);
if (values.json) console.log(JSON.stringify({ index: values.index, queries: values.queries, results }));
else {
  console.log(alignment([["L0 on", "default recall", "tuned recall", "default us", "tuned us", "default/tuned", "A/A"], ...results.map((row) => [row.slow,
    number(row.default_recall, 4), number(row.tuned_recall, 4), number(row.default_us, 1), number(row.tuned_us, 1), number(row.ratio, 2), number(row.same, 2)])]));
}
