// Compares two programs: ./dev compare REV builds both and calls this.
//   node compare.mjs --old PROGRAM --new PROGRAM --out FOLDER [OPTIONS]; --help lists them.
// The old program, the new one, and the new one again run every case, in an order that rotates from round to round. The difference between
// the two runs of the same program (A/A) is the machine's noise. A ratio within it says nothing.
import { spawn, spawnSync } from "node:child_process";
import { closeSync, existsSync, mkdirSync, openSync, readFileSync, renameSync, rmSync, statSync, writeFileSync } from "node:fs";
import { basename, extname, join, resolve } from "node:path";
import { pathToFileURL } from "node:url";
import { parseArgs } from "node:util";
import { alignment, orderOf, repeated, summarize } from "./compare_figures.mjs";

const sample = "datasets/sample";
const options = {
  old: { type: "string" }, new: { type: "string" }, out: { type: "string" },
  base: { type: "string", default: `${sample}/base.u8bin` }, queries: { type: "string" }, groundtruth: { type: "string" },
  pairs: { type: "string", default: "15" }, only: { type: "string", default: "." }, limit: { type: "string", default: "10000" },
  instructions: { type: "boolean", default: false }, json: { type: "boolean", default: false }, help: { type: "boolean", default: false },
};
const help = `./dev compare REV [OPTIONS]: compares this tree's program with that of revision REV

  --base FILE         vectors to index (default: the sample, with its --queries and --groundtruth)
  --queries FILE      queries
  --groundtruth FILE  exact neighbors: adds recall
  --pairs N           rounds of old, new and new again (default 15)
  --only REGEX        cases whose name matches
  --limit N           queries per run (default 10000; on nvme and served a tenth); a shorter .u8bin, .i8bin or .fbin file is repeated
  --instructions      instructions of a search, counted by callgrind, instead of time
  --json              figures as one JSON object on stdout instead of the table

The old program builds the indexes and keeps them under build/compare/. If the new one cannot read them, it builds its own.`;

// ---- The cases: the arguments of a program.

const replicas = (program) => program.option("build", "--replicas", "--assign");
const indexes = {
  node: (program, base, out) => ["build", "--base", base, "--out", out, replicas(program), "2", "--bits", "2"],
};
/** Search parameters under the program's own names: the current ones, or those used before the names were settled. */
const formerly = { "--beam-width": "--width", "--nprobe": "--cells", "--error-bound": "--stop" };
const formerModes = { graph: "pool", quantized: "gated", "multi-start": "beams" };
const walks = { graph: "best-first", quantized: "quantised" };  // modes of programs with --walk
function params(program, mode, values) {
  const isFormer = program.option("search", "--beam-width", "--width") === "--width";
  const named = Object.entries(values).flatMap(([name, value]) => [(isFormer && formerly[name]) || name, value]);
  const option = program.option("search", "--mode", "--walk");
  const word = isFormer ? formerModes[mode] : (option === "--walk" && walks[mode]) || mode;
  return ["--k", "10", option, word, ...named];
}
const graphSearch = (program) => params(program, "graph", { "--ef-l1": "4", "--ef-l0": "64", "--beam-width": "1" });
const quantized = (program) => params(program, "quantized", { "--ef-l1": "16", "--ef-l0": "40", "--beam-width": "8" });
const cells = (program) =>
  params(program, "quantized", { "--ef-l1": "64", "--ef-l0": "30", "--nprobe": "128", "--beam-width": "16", "--error-bound": "1.5" });
const multiStart = (program) => params(program, "multi-start", { "--ef-l1": "40", "--ef-l0": "2" });
const dram = ["--slow", "dram"], far = ["--slow", "emulated:lat=300ns"], nvme = ["--slow", "nvme"], four = ["--in-flight", "4"];

/** `share`: of the --limit queries. `serve`: arguments of a server; `args` are then those of `hmann query`. */
const cases = [
  { name: "graph, dram", index: "node", args: (program) => [...graphSearch(program), ...dram] },
  { name: "graph, dram, 4 in flight", index: "node", args: (program) => [...graphSearch(program), ...dram, ...four] },
  { name: "quantized, dram", index: "node", args: (program) => [...quantized(program), ...dram] },
  { name: "graph, +300 ns", index: "node", args: (program) => [...graphSearch(program), ...far] },
  { name: "quantized, +300 ns", index: "node", args: (program) => [...quantized(program), ...far] },
  { name: "multi-start, +300 ns", index: "node", share: 0.1, args: (program) => [...multiStart(program), ...far] },
  { name: "quantized, nvme", index: "node", share: 0.1, args: (program) => [...cells(program), ...nvme] },
  { name: "multi-start, nvme", index: "node", share: 0.1, args: (program) => [...multiStart(program), ...nvme] },
  { name: "opening, dram", index: "node", opening: true, args: () => dram },
  { name: "served, single", index: "node", share: 0.1, serve: () => [], args: (program) => [...graphSearch(program), "--batch", "1"] },
  { name: "served, batch of 256", index: "node", serve: () => [], args: (program) => [...graphSearch(program), "--batch", "256"] },
  { name: "build", build: true },
];

// ---- Programs and servers.

function fail(message) {
  throw new Error(message);
}

class Program {
  #help = new Map();
  constructor(name, path) {
    this.name = name;
    this.path = resolve(path);
  }

  run(args) {
    const { status, stdout, stderr, error } = spawnSync(this.path, args, { encoding: "utf8", maxBuffer: 1 << 28 });
    if (error || status !== 0) fail(`${this.name} program: ${args.join(" ")}: ${error ?? stderr}`);
    return stdout;
  }
  json(args) {
    return JSON.parse(this.run([...args, "--json"]));
  }
  reads(index) {
    return spawnSync(this.path, ["info", index, "--json"]).status === 0;
  }
  has(command, name) {
    if (!this.#help.has(command)) {
      // Before there was --help-all, --help had all options.
      const all = spawnSync(this.path, [command, "--help-all"], { encoding: "utf8" });
      this.#help.set(command, all.status === 0 ? all.stdout : this.run([command, "--help"]));
    }
    return this.#help.get(command).split(/[\s,]+/).includes(name);
  }
  /** The first of the names that this program's command has. */
  option(command, ...names) {
    return names.find((name) => this.has(command, name)) ?? fail(`${this.name} program: ${command} has none of ${names.join(", ")}`);
  }
}

const servers = new Set();
process.on("exit", () => servers.forEach((child) => child.kill("SIGKILL")));
for (const signal of ["SIGINT", "SIGTERM"]) process.on(signal, () => process.exit(130));

async function startServer(program, index, args, log) {
  const file = openSync(log, "w");
  const child = spawn(program.path, ["serve", "--index", `compared=${index}`, "--listen", "127.0.0.1:0", "--drain", "0s", "--json", ...args],
    { stdio: ["ignore", "pipe", file] });
  closeSync(file);
  servers.add(child);
  child.ended = new Promise((done) => child.on("close", () => { servers.delete(child); done(); }));
  const address = await new Promise((found, lost) => {
    let said = "";
    child.stdout.on("data", (data) => {
      said += data;
      const port = /"port": *(\d+)/.exec(said);
      if (port) found(`127.0.0.1:${port[1]}`);
    });
    child.on("error", lost);
    child.on("close", () => lost(new Error(`${program.name} server ended, see ${log}`)));
  });
  return { address, cpuSeconds: () => cpuSeconds(child.pid), stop: () => { child.kill("SIGTERM"); return child.ended; } };
}

/** CPU time of all its threads since its start. Linux counts in hundredths of a second, whatever its own tick is. */
function cpuSeconds(pid) {
  const ticksASecond = 100, after = readFileSync(`/proc/${pid}/stat`, "utf8").split(") ")[1].split(" ");
  return (Number(after[11]) + Number(after[12])) / ticksASecond;
}

// ---- The pairs that are compared.

const say = (text) => process.stderr.write(`    ${text}\n`);

/** The old program's index, kept for later runs. The new program builds its own only if it cannot read that one. */
function indexesFor(kind, { old, fresh, base, folder }) {
  const built = join(folder, `${kind}.hmann`);
  if (!existsSync(built)) {
    say(`${kind}: the old program builds its index`);
    old.run(indexes[kind](old, base, `${built}.part.hmann`));
    renameSync(`${built}.part.hmann`, built);
  }
  if (fresh.reads(built)) return { old: built, new: built };
  say(`${kind}: the new program cannot read that index and builds its own`);
  const own = join(folder, `${kind}.new.hmann`);
  // A program without methods builds its graph by insertion.
  const method = fresh.has("build", "--method") && !old.has("build", "--method") ? ["--method", "insertion"] : [];
  fresh.run([...indexes[kind](fresh, base, own), ...method]);
  return { old: built, new: own };
}

/** Returns a function (queries file, limit, more arguments) => JSON report of a search for each stream, and a function that stops the servers. */
async function open(one, index, { old, fresh, folder }) {
  const streams = { old: [old, index.old], new: [fresh, index.new], again: [fresh, index.new] };
  const searches = {}, stops = [], cpu = {};
  for (const [name, [program, file]] of Object.entries(streams)) {
    let start = ["search", file];
    if (one.serve) {
      const { address, cpuSeconds: used, stop } = await startServer(program, file, one.serve(program), join(folder, `serve_${name}.log`));
      stops.push(stop);
      cpu[name] = used;
      start = ["query", "--server", address, "--index", "compared"];
    }
    searches[name] = (queries, count, more = []) => program.json([...start, "--queries", queries, "--rows", `${count}`, ...one.args(program), ...more]);
  }
  return { searches, cpu, stop: () => Promise.all(stops.map((stop) => stop())) };
}

/** Runs once, untimed. Reports whether the answers are the same, their recall, and the work for them. */
function checkAnswers(searches, count, { queries, groundtruth, folder }) {
  const found = {};
  for (const name of ["old", "new"]) {
    const answers = join(folder, `answers_${name}.gt`);
    const report = searches[name](queries, count, ["--out", answers, ...(groundtruth ? ["--groundtruth", groundtruth] : [])]);
    found[name] = { answers: readFileSync(answers), recall: report.recall, hops: report.hops ?? report.rounds, io_reads: report.io_reads, distances_slow: report.distances_slow };
    rmSync(answers);
  }
  const same = found.old.answers.equals(found.new.answers);
  delete found.old.answers;
  delete found.new.answers;
  return { same_answers: same, ...found };
}

/** Compares builds by CPU time of all threads, without calibration, which runs searches. */
function timeBuild({ name }, { old, fresh, base, pairs, folder }) {
  const programs = { old, new: fresh, again: fresh }, out = (stream) => join(folder, `build_${stream}.hmann`), rounds = [];
  for (let round = 0; round < pairs; ++round) {
    const speed = {};
    for (const stream of orderOf(round)) {
      const program = programs[stream], more = program.has("build", "--no-calibrate") ? ["--no-calibrate"] : [];
      const report = program.json(["build", "--base", base, "--out", out(stream), ...more]);
      speed[stream] = 1 / (report.cpu_seconds?.total ?? fail(`${program.name} program: build --json tells no CPU time`));
    }
    rounds.push(speed);
  }
  const same = readFileSync(out("old")).equals(readFileSync(out("new")));
  for (const stream of Object.keys(programs)) rmSync(out(stream));
  return { name, same_answers: same, old: {}, new: {}, ...summarize(rounds) };
}

async function timeCase(one, context) {
  if (one.build) return timeBuild(one, context);
  const index = indexesFor(one.index, context);
  const { searches, cpu, stop } = await open(one, index, context);
  try {
    const { pairs, limit, queries } = context;
    const count = one.opening ? 1 : Math.max(1, Math.round(limit * (one.share ?? 1)));
    const rows = context.old.json(["data", "info", queries]).n;
    const checked = checkAnswers(searches, Math.min(count, rows, 1000), context);
    const file = rows < count ? repeatedFile(queries, count, context.folder) : queries;
    const rounds = [], used = (name) => cpu[name]?.() ?? 0, before = Object.fromEntries(Object.keys(cpu).map((name) => [name, used(name)]));
    for (let round = 0; round < pairs; ++round) {
      const qps = {};
      for (const name of orderOf(round)) {
        const report = searches[name](file, count);
        qps[name] = one.opening ? 1 / report.open_seconds : report.qps;
      }
      rounds.push(qps);
    }
    const served = one.serve && { server_cpu_us: Object.fromEntries(Object.keys(cpu).map((name) => [name, (1e6 * (used(name) - before[name])) / (count * pairs)])) };
    return { name: one.name, ...checked, ...summarize(rounds), ...served };
  } finally {
    await stop();
  }
}

/** Repeats the queries so that a run takes long enough. */
function repeatedFile(queries, count, folder) {
  const bytes = { ".u8bin": 1, ".i8bin": 1, ".fbin": 4 }[extname(queries)];
  if (!bytes) fail(`--limit: ${queries} holds fewer than ${count} queries`);
  const file = join(folder, `${basename(queries, extname(queries))}_${count}${extname(queries)}`);
  if (!existsSync(file)) writeFileSync(file, repeated(readFileSync(queries), bytes, count));
  return file;
}

/** Counts instructions of the searches alone: subtracts a run of one query, which includes opening. */
function countInstructions(program, args, count) {
  const [few, one] = [count, 1].map((queries) => {
    const { stderr } = spawnSync("valgrind", ["--tool=callgrind", "--callgrind-out-file=/dev/null", program.path, ...args, "--rows", `${queries}`], { encoding: "utf8", maxBuffer: 1 << 28 });
    const collected = /Collected : (\d+)/.exec(stderr);
    return collected ? Number(collected[1]) : fail(`callgrind counted nothing: ${stderr}`);
  });
  return (few - one) / (count - 1);
}

function instructionsOf(one, context) {
  const index = indexesFor(one.index, context);
  const count = Math.max(2, Math.min(200, Math.round(context.limit * (one.share ?? 1)), 200 * (one.share ?? 1)));
  const [old, fresh] = [[context.old, index.old], [context.fresh, index.new]].map(
    ([program, file]) => countInstructions(program, ["search", file, "--queries", context.queries, ...one.args(program)], count));
  return { name: one.name, instructions: { old, new: fresh, ratio: fresh / old } };
}

// ---- The output.

const percent = (value) => `${(100 * value).toFixed(1)} %`;
const range = ({ min, max }) => `${min.toFixed(3)}..${max.toFixed(3)}`;
function rowOf({ name, us, ratio, same, same_answers, old, new: fresh, instructions, server_cpu_us: cpu }) {
  if (instructions) return [name, ...[instructions.old, instructions.new].map((count) => count.toFixed(0)), instructions.ratio.toFixed(4)];
  const work = ["hops", "io_reads", "distances_slow"].filter((key) => old[key] !== fresh[key] || (old[key] && key !== "distances_slow")).map((key) => (old[key] === fresh[key] ? `${old[key]} ${key}` : `${old[key]} -> ${fresh[key]} ${key}`));
  const recall = old.recall === undefined ? [] : [old.recall === fresh.recall ? `recall ${old.recall.toFixed(4)}` : `recall ${old.recall.toFixed(4)} -> ${fresh.recall.toFixed(4)}`];
  return [name, us.old.toFixed(1), us.new.toFixed(1), ratio.median.toFixed(3), range(ratio), percent(ratio.mad), same.median.toFixed(3), range(same), percent(same.mad),
    [same_answers ? "same answers" : "OTHER ANSWERS", ...recall, ...work, ...(cpu ? [`server CPU ${cpu.old.toFixed(1)} -> ${cpu.new.toFixed(1)} us`] : [])].join(", ")];
}

function print(results, { instructions, pairs }) {
  const head = instructions ? ["case", "old", "new", "new/old"] : ["case", "old us", "new us", "speed", "range", "MAD", "A/A", "range", "MAD", "answers, and work of a query"];
  console.log(alignment([head, ...results.map(rowOf)]));
  console.log(instructions ? "\nInstructions of a query, by callgrind; opening is taken off."
    : `\nspeed: queries per second, new over old, median of ${pairs} pairs; A/A: the new program over itself; us: time over queries, medians (opening: of one; build: CPU, and whether the files are the same). Server CPU: of a query, all threads.`);
}

async function main() {
  const { values } = parseArgs({ options });
  if (values.help) return console.log(help);
  for (const needed of ["old", "new", "out"]) if (!values[needed]) fail(`--${needed} is missing; ./dev compare gives it`);
  const ofSample = values.base === options.base.default;
  const queries = values.queries ?? (ofSample ? `${sample}/query.u8bin` : fail("--queries is missing"));
  const groundtruth = values.groundtruth ?? (ofSample && !values.queries ? `${sample}/query.gt100` : undefined);
  const [pairs, limit] = ["pairs", "limit"].map((name) => (/^[1-9]\d*$/.test(values[name]) ? Number(values[name]) : fail(`--${name}: expected a number above 0, found ${values[name]}`)));
  const stamp = `${basename(values.base, extname(values.base))}_${statSync(values.base).size}`;
  const folder = join(resolve(values.out), stamp);
  mkdirSync(folder, { recursive: true });
  const context = { old: new Program("old", values.old), fresh: new Program("new", values.new), base: values.base, queries, groundtruth, pairs, limit, folder };
  let chosen = cases.filter(({ name }) => new RegExp(values.only).test(name));
  if (values.instructions) {
    if (spawnSync("valgrind", ["--version"]).status !== 0) fail("--instructions needs valgrind, which is not installed");
    chosen = chosen.filter(({ serve, build }) => !serve && !build);
  }
  if (chosen.length === 0) fail(`--only ${values.only}: no case`);
  const results = [];
  for (const one of chosen) {
    say(one.name);
    results.push(values.instructions ? instructionsOf(one, context) : await timeCase(one, context));
  }
  if (values.json) console.log(JSON.stringify({ pairs, limit, base: values.base, cases: results }, null, 2));
  else print(results, { instructions: values.instructions, pairs });
}

if (import.meta.url === pathToFileURL(process.argv[1]).href) {
  main().catch((error) => {
    console.error(`compare: ${error.message}`);
    process.exit(1);
  });
}
