// Builds within bounded memory, at a size too large for a test run: ./dev soak-builds calls it.
//   node soak_builds.mjs --hmann PROGRAM --out FOLDER [--base FILE] [--memory 1GiB,2GiB] [--threads 1,7] [--workers 2,4] [--kills N]
//     [--reversed 1] [--harms N] [--promote BYTES] [--rounds N]      (0, or '' for a list: skip it)
// reversed: each job of L0 runs in its own process with one thread, two at once, the last first; both run the last job of each stage; the
// rest runs with seven threads. harms: that many builds, with one worker, each harmed in turn: an artifact cut short, one bit of one
// flipped, an unreadable base, a full disk.
// rounds: as many builds whose stages of L0 four tasks make at once, each in a pid namespace of its own, with 50 kills in all.
// Every bounded build runs in a cgroup of its memory and 256 MiB, which also counts base, folder and index (v1 or v2; needs root).
// Prints for each: whether the content hash equals the unlimited build's, CPU time, memory that no file backs, folder bytes a vector.
import { spawnSync } from "node:child_process";
import { closeSync, copyFileSync, existsSync, mkdirSync, openSync, readFileSync, readdirSync, rmSync, readSync, statSync, truncateSync, utimesSync, writeFileSync, writeSync } from "node:fs";
import { join } from "node:path";
import { parseArgs } from "node:util";
import { buildTasks } from "./build_tasks.mjs";
import { bytesOf, run, units } from "./run_within.mjs";

const { values } = parseArgs({
  options: {
    help: { type: "boolean" },
    hmann: { type: "string" }, out: { type: "string" }, base: { type: "string" }, n: { type: "string", default: "10M" },
    memory: { type: "string", default: "1GiB,2GiB,8GiB" }, kills: { type: "string", default: "50" }, workers: { type: "string", default: "1,2,4" },
    threads: { type: "string", default: "1,7" }, reversed: { type: "string", default: "1" }, harms: { type: "string", default: "8" },
    promote: { type: "string", default: "1GiB" }, rounds: { type: "string", default: "12" }, seed: { type: "string", default: "1" },
  },
});
if (values.help) {
  console.log(readFileSync(process.argv[1], "utf8").split("\n").filter((line) => line.startsWith("//")).slice(0, 9).map((line) => line.slice(3)).join("\n"));
  process.exit(0);
}
const gib = (bytes) => (bytes / 2 ** 30).toFixed(2);
const list = (text) => text.split(",").filter((word) => word !== "");
const sleep = (seconds) => new Promise((done) => setTimeout(done, 1000 * seconds));
let seed = Number(values.seed);
/** A number in [0, 1), the same for the same seed. */
const random = () => (seed = (seed * 1103515245 + 12345) % 2 ** 31) / 2 ** 31;
mkdirSync(values.out, { recursive: true });
const work = join(values.out, "work");

let failed = 0;
function row(name, report, free, { memory, cpu = report.cpu_seconds.total, note = "" }) {
  const same = report.content_hash === free.content_hash, within = memory === undefined || report.peak_anonymous_bytes <= memory;
  failed += same && within ? 0 : 1;
  const ratio = cpu / free.cpu_seconds.total, largest = Object.entries(report.anonymous_bytes ?? {}).sort((a, b) => b[1] - a[1])[0]?.[0];
  console.log(`| ${name} | ${same ? "same" : "OTHER"} | ${gib(report.peak_anonymous_bytes)} GiB${largest ? ` (${largest})` : ""}${within ? "" : " TOO MUCH"} | ${cpu.toFixed(0)} s, ` +
    `${ratio.toFixed(2)} times | ${report.seconds.total.toFixed(0)} s | ${(report.work_bytes / report.n).toFixed(0)} | ${note} |`);
}

let base = values.base;
if (base === undefined) {
  base = join(values.out, "base.u8bin");
  const made = spawnSync(values.hmann, ["data", "generate", "--kind", "resample", "--from", "datasets/sample/base.u8bin", "--n", values.n, "--out", base]);
  if (made.status !== 0) throw new Error(String(made.stderr));
}
const out = (name) => join(values.out, `${name}.hmann`);
const build = (name, memory, ...more) =>
  [values.hmann, "build", "--base", base, "--out", out(name), "--json", ...(memory ? ["--build-memory", memory, "--work", work] : []), ...more];
rmSync(work, { recursive: true, force: true });

const free = await run(build("free"));
console.log(`${base}: ${free.n} vectors, ${process.platform}, ${free.threads} threads\n`);
console.log("| build | content | memory no file backs | CPU | wall | folder, bytes a vector | |\n|---|---|---|---|---|---|---|");
row("no limit", free, free, {});
for (const memory of list(values.memory)) {
  row(memory, await run(build("bounded", memory), { memory: bytesOf(memory) }), free, { memory: bytesOf(memory) });
}
const [memory] = list(values.memory).slice(-2);
for (const workers of list(values.workers)) {
  try {
    const report = await run(build("bounded", memory, "--workers", workers, "--threads", String(free.threads)), { memory: bytesOf(memory) });
    row(`${memory}, ${workers} workers`, report, free, { memory: bytesOf(memory) });
  } catch (error) {
    if (!/are too little for/.test(error.message)) throw error;
    console.log(`| ${memory}, ${workers} workers | refused: ${error.message.match(/the smallest that works is about [^(]*/)[0]}| | | | | |`);
  }
}

for (const threads of list(values.threads)) {
  row(`${memory}, ${threads} threads`, await run(build("bounded", memory, "--threads", threads), { memory: bytesOf(memory) }), free, { memory: bytesOf(memory) });
}

// Each job of L0 in its own process, the last of a stage first, and that one twice at once.
if (Number(values.reversed) > 0) {
  await run(build("bounded", memory), { memory: bytesOf(memory), until: () => existsSync(join(work, "manifest.json")) });
  const start = cpuOfChildren();
  let made = 0;
  for (const name of stagesOf().filter((stage) => stage.stage.startsWith("l0-")).map((stage) => stage.stage)) {
    let { jobs: left } = stagesOf().find((stage) => stage.stage === name);
    const last = left - 1;
    made += left;
    const make = (job) => run([values.hmann, "build-job", "--work", work, "--stage", name, "--jobs", String(job), "--threads", "1", "--build-memory", memory], { silent: true });
    const lane = async () => {
      await make(last);
      for (left = Math.min(left, last); left > 0; ) await make(--left);
    };
    await Promise.all([lane(), lane()]);
  }
  const report = await run(build("bounded", memory, "--threads", "7"), { memory: bytesOf(memory) });
  row(`${memory}, jobs last first on one thread, one of each stage twice at once, the rest on 7`, report, free, { cpu: cpuOfChildren() - start, note: `${made} jobs` });
}

function stagesOf() {
  return JSON.parse(spawnSync(values.hmann, ["build", "--status", "--work", work, "--json"]).stdout).stages;
}

// Each harm in turn, to another file each time.
if (Number(values.harms) > 0) {
  const disk = mountDisk(join(values.out, "disk"), statSync(base).size * 1.1 + 240 * free.n + 256 * units.MiB);
  const copy = join(disk, "base.u8bin"), folder = join(disk, "work"), ballast = join(disk, "ballast");
  // The base keeps the same time whenever it is created, since a build recognizes its base by it.
  const copyBase = () => (copyFileSync(base, copy), utimesSync(copy, 1e9, 1e9));
  copyBase();
  const told = [];
  const harmed = [values.hmann, "build", "--base", copy, "--out", out("bounded"), "--json", "--build-memory", memory, "--work", folder,
    "--workers", "1", "--threads", String(free.threads)];
  let report;
  const start = cpuOfChildren();
  const names = ["cut short", "a bit turned", "a read that fails", "a full disk"];
  for (let harm = 0; harm < Number(values.harms) && report === undefined; ++harm) {
    const kind = harm % names.length, seconds = 2 + random() * 2 * free.seconds.total / Number(values.harms);
    if (kind < 2) {
      report = await run(harmed, { memory: bytesOf(memory), seconds });
      if (report === undefined) told.push(`${names[kind]}: ${harmArtifact(folder, kind === 0)}`);
    } else {
      const ended = run(harmed, { memory: bytesOf(memory) }).then((value) => ({ value }), (error) => ({ error }));
      if (await Promise.race([ended, sleep(seconds)]) === undefined) {
        if (kind === 2) truncateSync(copy, 4096);
        else spawnSync("fallocate", ["-l", String(freeBytes(disk) - 2 * units.MiB), ballast]);
      }
      const end = await Promise.race([ended, sleep(60)]);
      if (kind === 2) copyBase();
      rmSync(ballast, { force: true });
      report = (end ?? (await ended)).value;
      if (report === undefined) told.push(`${names[kind]}: ${(await ended).error.message.trim().split("\n").pop()}`);
    }
  }
  report ??= await run(harmed, { memory: bytesOf(memory) });
  row(`${memory}, 1 worker, harmed ${told.length} times`, report, free, { memory: bytesOf(memory), cpu: cpuOfChildren() - start });
  spawnSync("umount", [disk]);
  console.log(told.map((line) => `  ${line}`).join("\n"));
}

/** A file system of this many bytes in a file (root), mounted at a new folder. */
function mountDisk(path, bytes) {
  const image = `${path}.img`;
  spawnSync("umount", [path]);
  rmSync(image, { force: true });
  mkdirSync(path, { recursive: true });
  writeFileSync(image, "");
  truncateSync(image, Math.ceil(bytes));
  for (const command of [["mkfs.ext4", "-q", "-m", "0", image], ["mount", "-o", "loop", image, path]]) {
    const ran = spawnSync(command[0], command.slice(1));
    if (ran.status !== 0) throw new Error(`${command.join(" ")}: ${ran.stderr}`);
  }
  return path;
}

function freeBytes(path) {
  return Number(spawnSync("df", ["--output=avail", "-B1", path]).stdout.toString().split("\n")[1]);
}

/** Cuts one artifact of a folder short, or flips one bit of it; says which. */
function harmArtifact(folder, cut) {
  const names = readdirSync(folder).filter((name) => /^l[0-9].*[.]part$/.test(name)), path = join(folder, names[Math.floor(random() * names.length)]);
  const bytes = statSync(path).size, at = Math.floor(random() * bytes);
  if (cut) truncateSync(path, at);
  else {
    const file = openSync(path, "r+"), one = Buffer.alloc(1);
    readSync(file, one, 0, 1, at);
    one[0] ^= 1 << Math.floor(random() * 8);
    writeSync(file, one, 0, 1, at);
    closeSync(file);
  }
  return `${path.split("/").pop()} at ${at} of ${bytes}`;
}

// Killed again and again, each time after a random part of a whole build's time.
const kills = Number(values.kills);
if (kills > 0) {
  let cpu = 0, killed = 0, report;
  const whole = free.seconds.total * 1.5;
  while (report === undefined) {
    const limit = killed < kills ? { seconds: Math.max(0.2, (random() * 2 * whole) / kills) } : {};
    const start = cpuOfChildren();
    report = await run(build("bounded", memory), { memory: bytesOf(memory), ...limit });
    cpu += cpuOfChildren() - start;
    killed += report === undefined ? 1 : 0;
  }
  row(`${memory}, killed ${killed} times`, report, free, { memory: bytesOf(memory), cpu });
}

/** CPU seconds of all children that have ended. */
function cpuOfChildren() {
  const fields = readFileSync("/proc/self/stat", "utf8").replace(/^.*\) /, "").split(" ");
  return (Number(fields[13]) + Number(fields[14])) / 100;
}

if (Number(values.rounds) > 0) {
  const few = join(values.out, "few.u8bin"), from = ["--kind", "resample", "--from", "datasets/sample/base.u8bin"];
  spawnSync(values.hmann, ["data", "generate", ...from, "--n", "60K", "--out", few]);
  const made = await buildTasks({ hmann: values.hmann, base: few, folder: join(values.out, "tasks"), memory: "160MiB", rounds: Number(values.rounds), kills: 50 });
  failed += made.failures.length + made.repeated;
  console.log(`| 4 tasks at once, ${values.rounds} builds | ${made.same} same | | | | | ${made.tasks} tasks, ${made.failures.length} failed; ${made.kills} kills, ${made.repeated} finished jobs made again |`);
  console.log(made.failures.join("\n"));
}

if (values.promote !== "") {
  const promote = (name, ...more) => [values.hmann, "promote", out("free"), "--promote", "0.1", "--out", out(name), "--json", ...more];
  const whole = await run(promote("promoted"));
  const limited = await run(promote("bounded", "--build-memory", values.promote, "--work", work), { memory: bytesOf(values.promote) });
  const same = whole.content_hash === limited.content_hash;
  failed += same ? 0 : 1;
  console.log(`| promote, ${values.promote} | ${same ? "same" : "OTHER"} | | | | | |`);
}
process.exit(failed === 0 ? 0 : 1);
