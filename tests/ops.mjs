// hmann in operation: replicas behind haproxy that restart one by one, and Prometheus with the alert rules of server/alerts.yml. ./dev
// test-ops calls it.
//   NODE_MODULES=... node ops.mjs --build build/release --programs FOLDER
// FOLDER: Debian's packages of haproxy and Prometheus, unpacked; NODE_MODULES: where Vald's client is. All listen only on loopback, on free ports.
import { spawn, spawnSync } from "node:child_process";
import { mkdtempSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { createServer } from "node:net";
import { tmpdir } from "node:os";
import { join, resolve } from "node:path";
import { setTimeout as sleep } from "node:timers/promises";
import { parseArgs } from "node:util";

const { values } = parseArgs({ options: { build: { type: "string" }, programs: { type: "string" } } });
const hmann = join(values.build, "bin/hmann"), programs = resolve(values.programs);
const folder = mkdtempSync(join(tmpdir(), "hmann_ops_"));
const running = new Set();
let failed = 0;

function check(ok, text) {
  console.log(`${ok ? "ok  " : "FAIL"} ${text}`);
  failed += ok ? 0 : 1;
}

function start(program, args) {
  const child = spawn(program, args, { stdio: ["ignore", "pipe", "pipe"], env: { ...process.env, LD_LIBRARY_PATH: join(programs, "usr/lib/x86_64-linux-gnu") } });
  child.text = { out: "", err: "" };
  child.stdout.on("data", (data) => (child.text.out += data));
  child.stderr.on("data", (data) => (child.text.err += data));
  child.ended = new Promise((done) => child.on("close", (code, signal) => (running.delete(child), done(code ?? signal))));
  running.add(child);
  return child;
}

const freePort = () =>
  new Promise((done) => {
    const server = createServer().listen(0, "127.0.0.1", () => {
      const { port } = server.address();
      server.close(() => done(port));
    });
  });

/** Waits until `what` returns a value. */
async function until(what, text) {
  for (let left = 600; left > 0; --left) {
    const found = await what().catch(() => undefined);
    if (found) return found;
    await sleep(50);
  }
  throw new Error(`${text}: not within 30 s`);
}

const index = join(folder, "sample.hmann");
const built = spawnSync(hmann, ["build", "--base", "datasets/sample/base.u8bin", "--out", index]);
if (built.status !== 0) throw new Error(String(built.stderr));

/** Starts a server of the sample and waits until it is ready. */
async function serve(port, http, more = []) {
  const child = start(hmann, ["serve", "--index", `sample=${index}`, "--listen", `127.0.0.1:${port}`, "--http", `127.0.0.1:${http}`, "--json", ...more]);
  await until(async () => (await fetch(`http://127.0.0.1:${http}/readyz`)).ok, `server on port ${port}`);
  return child;
}

// What haproxy sends to a replica: HTTP/2's preface and settings, and grpc.health.v1.Health/Check with an empty message. It is given as
// bytes, because haproxy's own HTTP check cannot send a body of zeros. The answer of a serving replica holds the message {status: SERVING}.
const literal = (name, value) => Buffer.concat([Buffer.from([0, name.length]), Buffer.from(name), Buffer.from([value.length]), Buffer.from(value)]);
const frame = (type, flags, stream, payload) => {
  const head = Buffer.alloc(9);
  head.writeUIntBE(payload.length, 0, 3);
  head[3] = type;
  head[4] = flags;
  head.writeUInt32BE(stream, 5);
  return Buffer.concat([head, payload]);
};
const headers = Buffer.concat([Buffer.from([0x83, 0x86]), literal(":path", "/grpc.health.v1.Health/Check"), literal(":authority", "h"),
  literal("content-type", "application/grpc"), literal("te", "trailers")]);
const healthCheck = Buffer.concat([Buffer.from("PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"), frame(4, 0, 0, Buffer.alloc(0)), frame(1, 4, 1, headers),
  frame(0, 1, 1, Buffer.alloc(5))]).toString("hex");

const modes = {
  "requests, HTTP/2": { mode: "http", proto: "proto h2", retry: "retry-on conn-failure empty-response", options: ["--drain", "1s"] },
  // Clients keep their connection until the server makes them reconnect, which must happen before the drain ends.
  "connections, TCP": { mode: "tcp", proto: "", retry: "", options: ["--drain", "3s", "--connection-age", "2s"] },
};

/** Replicas behind haproxy under load, restarted by SIGTERM one after the other. */
async function rollingRestart(name, { mode, proto, retry, options }) {
  const ports = [await freePort(), await freePort()], httpPorts = [await freePort(), await freePort()], front = await freePort();
  const replicas = [await serve(ports[0], httpPorts[0], options), await serve(ports[1], httpPorts[1], options)];
  const config = join(folder, "haproxy.cfg");
  writeFileSync(config, `global
  maxconn 2000
defaults
  mode ${mode}
  timeout connect 1s
  timeout client 30s
  timeout server 30s
  retries 3
  option redispatch 1
  ${retry}
frontend grpc
  bind 127.0.0.1:${front} ${proto}
  default_backend hmann
backend hmann
  balance leastconn
  option tcp-check
  tcp-check connect
  tcp-check send-binary ${healthCheck}
  tcp-check expect binary 00000000020801
  default-server check inter 300ms fall 1 rise 1 ${proto}
  server a 127.0.0.1:${ports[0]}
  server b 127.0.0.1:${ports[1]}
`);
  const haproxy = start(join(programs, "usr/sbin/haproxy"), ["-db", "-f", config]);
  const query = () => spawnSync(hmann, ["query", "--server", `127.0.0.1:${front}`, "--index", "sample", "--queries", "datasets/sample/query.u8bin", "--rows", "1"]);
  await until(async () => query().status === 0, "a query through haproxy");
  const load = start(join(values.build, "libexec/hmann/hmann-eval"), ["load", "--server", `127.0.0.1:${front}`, "--server-index", "sample", "--queries",
    "datasets/sample/query.u8bin", "--rate", "300", "--time", "20s", "--deadline", "5s", "--connections", "8", "--json"]);
  for (const i of [0, 1]) {
    await sleep(3000);
    replicas[i].kill("SIGTERM");
    const code = await replicas[i].ended;
    check(code === 0, `${name}: replica ${i} ended with ${code}`);
    replicas[i] = await serve(ports[i], httpPorts[i], options);
  }
  await load.ended;
  const [figures] = JSON.parse(load.text.out).load;
  const lost = Object.values(figures.failed).reduce((a, b) => a + b, 0);
  check(figures.offered > 3000 && lost === 0, `${name}: rolling restart, ${figures.offered} calls without retries, ${lost} lost ${JSON.stringify(figures.failed)}`);
  haproxy.kill("SIGKILL");
  for (const replica of replicas) replica.kill("SIGKILL");
  await Promise.all([haproxy, ...replicas].map((child) => child.ended));
}

/**
 * Two shards of the sample, each with two replicas behind haproxy as doc/scale-out.md sets it up, and two gateways that find agents as Vald's
 * does. One has haproxy as its discoverer and all agents as `agent_dns`: no answer may lack a shard. The other has one replica and one agent:
 * it loses a shard for good, and the probe tells.
 */
async function shardsBehindVald() {
  const { Caller, Gateway, results, run, searching, serve: serveShard } = await import("./vald/vald.mjs");
  const base = readFileSync("datasets/sample/base.u8bin"), dim = base.readUInt32LE(4), each = base.readUInt32LE(0) / 2;
  const ips = ["127.0.0.1", "127.0.0.2"], options = ["--drain", "1s", "--vald-agents", ips.join(",")];
  const ports = [], replicas = [], front = await freePort(), fronts = ips.map((ip) => `${ip}:${front}`), shards = [];
  for (const s of [0, 1]) {
    const rows = join(folder, `shard${s}.u8bin`), labels = join(folder, `labels${s}`), shard = join(folder, `shard${s}.hmann`);
    const head = Buffer.from(base.subarray(0, 8));
    head.writeUInt32LE(each, 0);
    writeFileSync(rows, Buffer.concat([head, base.subarray(8 + s * each * dim, 8 + (s + 1) * each * dim)]));
    writeFileSync(labels, BigUint64Array.from({ length: each }, (_, i) => BigInt(s * each + i)));
    if (spawnSync(hmann, ["build", "--base", rows, "--labels", labels, "--out", shard]).status !== 0) throw new Error("a shard was not built");
    for (const replica of [0, 1]) {
      ports.push(await freePort());
      shards.push(shard);
      replicas.push(await serveShard(hmann, shard, `127.0.0.1:${ports.at(-1)}`, options));
    }
  }
  let [, config] = readFileSync("doc/scale-out.md", "utf8").match(/```haproxy\n([\s\S]*?)```/);
  for (const [i, port] of ports.entries()) config = config.replaceAll(`10.0.0.${i + 1}:8081`, `127.0.0.1:${port}`);
  config = config.replaceAll(":8081", `:${front}`).replace("HEALTH", healthCheck);
  writeFileSync(join(folder, "shards.cfg"), config);
  const startHaproxy = () => start(join(programs, "usr/sbin/haproxy"), ["-db", "-f", join(folder, "shards.cfg")]);
  let haproxy = startHaproxy();
  const gateway = new Gateway([]), caller = await gateway.start(), old = new Gateway([]);
  await old.start();
  const discovering = [gateway.discover(`127.0.0.3:${front}`, ips, front), old.discover(`127.0.0.1:${ports[0]}`, ips.slice(0, 1), front)];
  const probe = (through) => run(hmann, "admin", "shards", fronts.join(","), "--expect", String(2 * each), "--gateway", through.address);
  const queries = Array.from({ length: 200 }, (_, i) => searching([...base.subarray(8 + i * 47 * dim, 8 + (i * 47 + 1) * dim)], { num: 10 }));
  await until(async () => results(await caller.call("Search", "search", queries[0])).length === 10, "an answer through haproxy");
  await until(async () => old.agents.length === 2, "agents of the old gateway");
  check((await probe(gateway)).status === 0 && (await probe(old)).status === 0, "shards: both gateways ask all agents");
  const right = [];
  for (const query of queries) {
    const found = await Promise.all([0, 2].map(async (i) => results(await replicas[i].agent.call("Search", "search", query))));
    right.push(JSON.stringify(found.flat().map(([, far]) => far).sort((a, b) => a - b).slice(0, 10)));
  }
  let asked = 0, lost = 0, wrong = 0, over = false;
  const clients = Array.from({ length: 8 }, async (_, c) => {
    for (let i = c; !over; i = (i + 8) % queries.length, ++asked) {
      const found = await caller.call("Search", "search", queries[i]).then(results, () => void ++lost);
      if (found !== undefined && JSON.stringify(found.map(([, far]) => far)) !== right[i]) ++wrong;
      await sleep(10);
    }
  });
  for (const i of replicas.keys()) {
    await sleep(1500);
    replicas[i].kill("SIGTERM");
    const code = await replicas[i].ended;
    check(code === 0, `shards: replica ${i} ended with ${code}`);
    replicas[i] = await serveShard(hmann, shards[i], `127.0.0.1:${ports[i]}`, options);
  }
  await sleep(1500);
  over = true;
  await Promise.all(clients);
  check(asked > 300 && lost === 0 && wrong === 0, `shards: rolling restart, ${asked} searches through a gateway, ${lost} lost, ${wrong} without all shards`);
  check((await probe(gateway)).status === 0, "shards: the probe finds all agents through the gateway");
  const lostOne = await probe(old);
  check(lostOne.status === 1 && lostOne.stderr.includes(`the gateway does not ask ${fronts[1]}`), `shards: a gateway that lost one: ${lostOne.stderr.trim()}`);

  const missing = async () => {
    const found = await Promise.all(queries.slice(0, 20).map((query) => caller.call("Search", "search", query).then(results)));
    return found.filter((one, i) => JSON.stringify(one.map(([, far]) => far)) !== right[i]).length;
  };
  const whole = (text) => until(async () => (await missing()) === 0, text).then(() => check(true, `shards: all there ${text}`));
  replicas[1].kill("SIGSTOP");
  await whole("while a replica hangs");
  replicas[1].kill("SIGCONT");
  haproxy.kill("SIGKILL");
  await haproxy.ended;
  await until(async () => gateway.agents.length === 2 && (await missing()) === queries.slice(0, 20).length, "a gateway without haproxy");
  haproxy = startHaproxy();
  await whole("after haproxy was away");
  for (const replica of replicas) replica.kill("SIGTERM");
  await Promise.all(replicas.map((replica) => replica.ended));
  for (const i of replicas.keys()) replicas[i] = await serveShard(hmann, shards[i], `127.0.0.1:${ports[i]}`, options);
  await whole("after all replicas were away");
  check((await probe(gateway)).status === 0, "shards: the probe finds all agents again");
  gateway.stop();
  old.stop();
  await Promise.all(discovering);
  for (const child of [haproxy, ...replicas]) child.kill("SIGKILL");
  await Promise.all([haproxy, ...replicas].map((child) => child.ended));
}

/** The metrics that Prometheus scrapes from a server, and its alert rules. */
async function prometheus() {
  const port = await freePort(), http = await freePort(), own = await freePort();
  const server = await serve(port, http);
  const query = spawnSync(hmann, ["query", "--server", `127.0.0.1:${port}`, "--index", "sample", "--queries", "datasets/sample/query.u8bin", "--rows", "7"]);
  check(query.status === 0, "seven queries");
  const rules = resolve("server/alerts.yml"), config = join(folder, "prometheus.yml");
  const checked = spawnSync(join(programs, "usr/bin/promtool"), ["check", "rules", rules]);
  check(checked.status === 0, `promtool check rules: ${String(checked.stdout).trim().split("\n").at(-1).trim()}`);
  const page = await (await fetch(`http://127.0.0.1:${http}/metrics`)).text();
  const linted = spawnSync(join(programs, "usr/bin/promtool"), ["check", "metrics"], { input: page });
  check(linted.status === 0, `promtool check metrics: ${String(linted.stderr).trim() || "nothing to say"}`);
  writeFileSync(config, `global:\n  scrape_interval: 1s\n  evaluation_interval: 1s\nrule_files: ['${rules}']\nscrape_configs:\n  - job_name: hmann\n    static_configs: [{targets: ['127.0.0.1:${http}']}]\n`);
  const program = start(join(programs, "usr/bin/prometheus"), [`--config.file=${config}`, `--storage.tsdb.path=${join(folder, "tsdb")}`, `--web.listen-address=127.0.0.1:${own}`]);
  const ask = async (path) => (await (await fetch(`http://127.0.0.1:${own}/api/v1/${path}`)).json()).data;
  const value = async (expression) => (await ask(`query?query=${encodeURIComponent(expression)}`)).result[0]?.value[1];
  check((await until(() => value('hmann_queries_total{index="sample"}'), "a scrape")) === "7", "Prometheus has seven queries");
  const names = (await ask("rules")).groups.flatMap((group) => group.rules.map((rule) => rule.name));
  check(names.length === 7, `alert rules loaded: ${names.join(", ")}`);
  // The server withdraws the index when its file changes, and the alert fires.
  const bytes = readFileSync(index);
  writeFileSync(index, bytes.subarray(0, 4096));
  const firing = async () => (await ask("alerts")).alerts.find((alert) => alert.state === "firing" && alert.labels.alertname === "HmannIndexNotServing");
  check(Boolean(await until(firing, "an alert")), "a changed file fires HmannIndexNotServing");
  for (const child of [program, server]) child.kill("SIGTERM");
  await Promise.all([program.ended, server.ended]);
}

try {
  for (const [name, mode] of Object.entries(modes)) await rollingRestart(name, mode);
  await shardsBehindVald();
  await prometheus();
} catch (error) {
  check(false, error.stack);
  for (const child of running) console.log(child.spawnargs.join(" "), "\n", child.text.err.slice(-2000));
} finally {
  for (const child of running) child.kill("SIGKILL");
  rmSync(folder, { recursive: true, force: true });
}
process.exit(failed === 0 ? 0 : 1);
