// One index from its vectors to its answers, at any size: ./dev soak-scale N calls it. The build is killed on the way, searches read L0 from
// the drive within a memory limit, and what was told stands beside what was found. Every step is kept in OUT/scale.json, so that the same command
// goes on where it ended.
//   node soak_scale.mjs --hmann PROGRAM --out FOLDER --n N [--from REAL] [--build-memory 8GiB] [--memory 4GiB] [--kills 5] [--exact 5000] [--queries 1000] [--anew]
// from: real vectors that the base is resampled from; queries come from the rows that are held out.
// memory: of the searches, anonymous memory and page cache together.
import { spawn, spawnSync } from "node:child_process";
import { existsSync, mkdirSync, readFileSync, rmSync, statSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { parseArgs } from "node:util";
import { bytesOf, run } from "./run_within.mjs";

const { values } = parseArgs({
  options: {
    hmann: { type: "string" }, out: { type: "string" }, n: { type: "string", default: "100000000" }, from: { type: "string", default: "datasets/sample/base.u8bin" },
    "build-memory": { type: "string", default: "8GiB" }, memory: { type: "string", default: "4GiB" }, kills: { type: "string", default: "5" },
    exact: { type: "string", default: "5000" }, queries: { type: "string", default: "1000" }, seed: { type: "string", default: "1" }, anew: { type: "boolean" },
  },
});
if (values.anew) rmSync(values.out, { recursive: true, force: true });
mkdirSync(values.out, { recursive: true });
const at = (name) => join(values.out, name), base = at("base.u8bin"), index = at("index.hmann"), work = at("work"), kept = at("scale.json");
const done = existsSync(kept) ? JSON.parse(readFileSync(kept, "utf8")) : {};
const hmann = (...words) => [values.hmann, ...words.map(String)];
let seed = Number(values.seed);
/** A number in [0, 1), the same for the same seed. */
const random = () => (seed = (seed * 1103515245 + 12345) % 2 ** 31) / 2 ** 31;

/** Makes a step unless an earlier run made it. */
async function step(name, make) {
  if (done[name] === undefined) {
    console.log(`# ${name}`);
    done[name] = (await make()) ?? true;
    writeFileSync(kept, JSON.stringify(done, undefined, 1));
  }
  return done[name];
}

/** Leaves nothing of the index in the page cache, where the system lets us. */
function coolDown() {
  spawnSync("sync");
  try {
    writeFileSync("/proc/sys/vm/drop_caches", "3");
  } catch {
    // not root: the figures are then warm
  }
}

const generate = (out, n, more) => run(hmann("data", "generate", "--kind", "resample", "--from", values.from, "--n", n, "--out", out, ...more), { silent: true });
await step("base", () => generate(base, values.n, []));
await step("learn", () => generate(at("learn.u8bin"), values.queries, ["--queries", "--seed", "11"]));
await step("query", () => generate(at("query.u8bin"), values.queries, ["--queries", "--seed", "12"]));

const building = hmann("build", "--base", base, "--out", index, "--build-memory", values["build-memory"], "--work", work, "--json");
const told = await step("plan", () => run([...building, "--plan"]));
const memory = bytesOf(values["build-memory"]);
const built = await step("build", async () => {
  const begin = Date.now(), expected = told.seconds;
  done.killed ??= { times: 0, seconds: 0 };
  for (;;) {
    const seconds = done.killed.times < Number(values.kills) ? Math.max(1, (random() * 2 * expected) / (Number(values.kills) + 1)) : undefined;
    const start = Date.now(), report = await run(building, { memory, seconds });
    if (report !== undefined) return { ...report, wall: (Date.now() - begin) / 1000 };
    ++done.killed.times;
    done.killed.seconds += (Date.now() - start) / 1000;
    writeFileSync(kept, JSON.stringify(done, undefined, 1));
  }
});
await step("verify", () => run(hmann("verify", index, "--json")));
const exact = async (queries, out, k) => {
  const begin = Date.now();
  const report = await run(hmann("data", "groundtruth", "--base", base, "--queries", queries, "--k", k, "--out", out, "--json"), { memory: bytesOf("2GiB") });
  return { ...report, wall: (Date.now() - begin) / 1000 };
};
await step("truth of queries", () => exact(at("query.u8bin"), at("query.gt"), 100));
// Other queries than those below, in numbers: what the index finds beside an exact scan.
await step("exact checks", async () => {
  await generate(at("checks.u8bin"), values.exact, ["--queries", "--seed", "13"]);
  await exact(at("checks.u8bin"), at("checks.gt"), 10);
  return run(hmann("search", index, "--queries", at("checks.u8bin"), "--groundtruth", at("checks.gt"), "--k", 10, "--recall", 0.99, "--threads", 2, "--in-flight", 8, "--slow", "nvme", "--json"));
});

const within = { memory: bytesOf(values.memory), cache: 0 };
const search = (...more) =>
  run(hmann("search", index, "--queries", at("query.u8bin"), "--groundtruth", at("query.gt"), "--json", ...more), within);
await step("profile", () => run(hmann("profile", "--slow", `nvme:${index}`, "--out", at("device.json")), { silent: true }));
const rows = [];
async function measure(what, ...more) {
  rows.push({ what, ...(await step(`search ${what}`, () => search(...more))) });
}
for (const slow of ["nvme", "mapped"]) {
  coolDown();
  await measure(`${slow}, first`, "--slow", slow, "--k", 10, "--recall", 0.95, "--rows", 1, "--cold");
}
for (const k of [1, 10, 100])
  for (const recall of [0.9, 0.95, 0.99]) await measure(`nvme, k ${k}, ${recall}`, "--slow", "nvme", "--k", k, "--recall", recall);
for (const recall of [0.9, 0.95, 0.99]) await measure(`mapped, k 10, ${recall}`, "--slow", "mapped", "--k", 10, "--recall", recall);
for (const threads of [1, 2])
  for (const flying of [1, 4, 16, 32])
    await measure(`nvme, k 10, 0.95, ${threads} x ${flying}`, "--slow", "nvme", "--k", 10, "--recall", 0.95, "--threads", threads, "--in-flight", flying);

await step("served", async () => {
  const server = spawn(values.hmann, ["serve", "--index", `scale=${index}`, "--slow", "nvme", "--listen", "127.0.0.1:0"], { stdio: ["ignore", "pipe", "pipe"] });
  let said = "";
  const port = await new Promise((resolve, reject) => {
    for (const stream of [server.stdout, server.stderr])
      stream.on("data", (data) => {
        said += data;
        const found = said.match(/127\.0\.0\.1:(\d+)[^]* ready after /);
        if (found) resolve(found[1]);
      });
    server.on("close", () => reject(new Error(said)));
  });
  try {
    return await run(hmann("eval", "load", "--server", `127.0.0.1:${port}`, "--server-index", "scale", "--queries", at("query.u8bin"), "--rate", "100,400", "--time", "10s", "--json"));
  } finally {
    server.kill("SIGTERM");
  }
});
await step("tune", async () => {
  const begin = Date.now();
  await run(hmann("tune", index, "--queries", at("learn.u8bin"), "--slow", "nvme", "--accept-noise", "--json"), within);
  return { wall: (Date.now() - begin) / 1000 };
});
for (const recall of [0.9, 0.95, 0.99]) await measure(`tuned, nvme, k 10, ${recall}`, "--slow", "nvme", "--k", 10, "--recall", recall);

const minutes = (seconds) => (seconds < 100 ? `${seconds.toFixed(1)} s` : `${(seconds / 60).toFixed(1)} min`);
const size = (bytes) => (bytes < 2 ** 30 ? `${(bytes / 2 ** 20).toFixed(1)} MiB` : `${(bytes / 2 ** 30).toFixed(2)} GiB`);
const seconds = built.seconds.total;
console.log(`\n${built.n} x ${built.dim} vectors, hash ${built.content_hash}, killed ${done.killed.times} times\n`);
console.log("| of the build | told | found |\n|---|---|---|");
console.log(`| wall without calibration | ${minutes(told.seconds)} | ${minutes(built.wall)} with it, kills in; ${minutes(seconds)} in the last run |`);
console.log(`| memory | ${values["build-memory"]} | ${size(built.peak_anonymous_bytes)} |`);
console.log(`| index | ${size(told.file_bytes)} | ${size(statSync(index).size)} |`);
console.log(`| folder | ${size(told.bounded.work_bytes)} | ${size(built.work_bytes)} |`);
console.log(`| passes over the base | ${told.bounded.base_passes} | |\n`);
console.log("| search | recall (told) | reads | hops | mean us | p50 | p99 | QPS | KiB read |\n|---|---|---|---|---|---|---|---|---|");
for (const r of rows)
  console.log(`| ${r.what} | ${Number(r.recall).toFixed(4)} (${r.predicted_recall}) | ${r.io_reads ?? r.node_reads} | ${r.hops ?? ""} | ${r.mean_us} | ${r.p50_us} | ${r.p99_us} | ${r.qps} | ${((r.io_bytes ?? 0) / 1024).toFixed(0)} |`);
for (const r of done.served.load)
  console.log(`| served, k 10, ${r.rate} requests a second | | | | | ${r.p50_us} | ${r.p99_us} | ${r.queries_per_second} | |`);
const checks = done["exact checks"];
console.log(`\n${checks.queries} exact checks: recall ${checks.recall} for 0.99; truth of ${values.queries} queries in ${minutes(done["truth of queries"].wall)}; tune ${minutes(done.tune.wall)}`);
if (existsSync(work)) rmSync(work, { recursive: true });
const wrong = built.peak_anonymous_bytes > memory * 1.05 || checks.recall < 0.97 || rows.some((r) => r.queries >= 500 && r.recall < r.target_recall - 0.03);
process.exit(wrong ? 1 : 0);
