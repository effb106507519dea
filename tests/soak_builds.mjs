// Builds within bounded memory, at a size that no test run has time for: ./dev soak-builds calls it.
//   node soak_builds.mjs --hmann PROGRAM --out FOLDER [--base FILE] [--memory 1GiB,2GiB] [--kills N] [--workers 2,4] [--promote BYTES]
// Every bounded build runs in a cgroup of its memory and 256 MiB, through which base, folder and index pass, too (v1 or v2; needs root).
// Says of each: content hash as without a limit or not, CPU beside it, memory that no file backs, bytes of the folder a vector.
import { spawn, spawnSync } from "node:child_process";
import { existsSync, mkdirSync, readFileSync, rmSync, rmdirSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { parseArgs } from "node:util";

const { values } = parseArgs({
  options: {
    help: { type: "boolean" },
    hmann: { type: "string" }, out: { type: "string" }, base: { type: "string" }, n: { type: "string", default: "10M" },
    memory: { type: "string", default: "1GiB,2GiB,8GiB" }, kills: { type: "string", default: "50" }, workers: { type: "string", default: "1,2,4" },
    promote: { type: "string", default: "1GiB" }, seed: { type: "string", default: "1" },
  },
});
if (values.help) {
  console.log(readFileSync(process.argv[1], "utf8").split("\n").filter((line) => line.startsWith("//")).slice(0, 4).map((line) => line.slice(3)).join("\n"));
  process.exit(0);
}
const units = { KiB: 2 ** 10, MiB: 2 ** 20, GiB: 2 ** 30 };
const bytesOf = (text) => Math.round(parseFloat(text) * (units[text.replace(/[0-9.]/g, "")] ?? 1));
const gib = (bytes) => (bytes / 2 ** 30).toFixed(2);
const list = (text) => text.split(",").filter((word) => word !== "");
mkdirSync(values.out, { recursive: true });
const work = join(values.out, "work");

/** A cgroup of so much memory, or none where this process may not make one. */
class Cgroup {
  constructor(bytes) {
    const v1 = existsSync("/sys/fs/cgroup/memory/memory.limit_in_bytes");
    this.path = `/sys/fs/cgroup/${v1 ? "memory/" : ""}hmann_soak_${process.pid}`;
    try {
      mkdirSync(this.path);
      writeFileSync(join(this.path, v1 ? "memory.limit_in_bytes" : "memory.max"), String(bytes));
    } catch (error) {
      console.log(`# no cgroup (${error.code}): the limit is the program's own`);
      this.path = undefined;
    }
  }
  wrap(command) {
    return this.path === undefined ? command : ["sh", "-c", `echo $$ > ${this.path}/cgroup.procs; exec "$@"`, "sh", ...command];
  }
  remove() {
    if (this.path === undefined) return;
    for (let left = 100; left > 0; --left) {
      try {
        return rmdirSync(this.path);
      } catch {
        spawnSync("sleep", ["0.05"]); // what was killed is still going
      }
    }
  }
}

/** Runs a command in a cgroup; killed after `seconds`, if that is given. The report, or undefined. */
function run(command, { memory, seconds } = {}) {
  const group = memory === undefined ? undefined : new Cgroup(memory + 256 * units.MiB);
  const [program, ...rest] = group ? group.wrap(command) : command;
  return new Promise((resolve, reject) => {
    const child = spawn(program, rest, { stdio: ["ignore", "pipe", "pipe"], env: { ...process.env, HMANN_PROGRESS: "never" } });
    let out = "", err = "";
    child.stdout.on("data", (data) => (out += data));
    child.stderr.on("data", (data) => (err += data));
    const timer = seconds === undefined ? undefined : setTimeout(() => child.kill("SIGKILL"), 1000 * seconds);
    child.on("close", (code, signal) => {
      clearTimeout(timer);
      if (group) group.remove();
      if (code === 0) resolve(JSON.parse(out));
      else if (signal === "SIGKILL" && timer !== undefined) resolve(undefined);
      else reject(new Error(`${command.join(" ")}: ${code ?? signal}\n${err}`));
    });
  });
}

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

// Killed again and again, each time after a random part of what a whole build takes.
const kills = Number(values.kills);
if (kills > 0) {
  let random = Number(values.seed), cpu = 0, killed = 0, report;
  const next = () => (random = (random * 1103515245 + 12345) % 2 ** 31) / 2 ** 31;
  const whole = free.seconds.total * 1.5;
  while (report === undefined) {
    const limit = killed < kills ? { seconds: Math.max(0.2, (next() * 2 * whole) / kills) } : {};
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

if (values.promote !== "") {
  const promote = (name, ...more) => [values.hmann, "promote", out("free"), "--promote", "0.1", "--out", out(name), "--json", ...more];
  const whole = await run(promote("promoted"));
  const limited = await run(promote("bounded", "--build-memory", values.promote, "--work", work), { memory: bytesOf(values.promote) });
  const same = whole.content_hash === limited.content_hash;
  failed += same ? 0 : 1;
  console.log(`| promote, ${values.promote} | ${same ? "same" : "OTHER"} | | | | | |`);
}
process.exit(failed === 0 ? 0 : 1);
