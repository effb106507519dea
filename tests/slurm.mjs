// Shards built as an array of tasks by Slurm (tools/build_shards.sbatch): munge, a controller and two nodes on loopback, as root. ./dev
// test-ops calls it.
//   node slurm.mjs --build build/release
import { spawn, spawnSync } from "node:child_process";
import { chmodSync, existsSync, mkdirSync, mkdtempSync, readFileSync, readdirSync, rmSync, writeFileSync } from "node:fs";
import { createServer } from "node:net";
import { hostname, tmpdir } from "node:os";
import { delimiter, join, resolve } from "node:path";
import { setTimeout as sleep } from "node:timers/promises";
import { parseArgs } from "node:util";

const { values } = parseArgs({ options: { build: { type: "string" } } });
const bin = resolve(values.build, "bin"), hmann = join(bin, "hmann");
const folder = mkdtempSync(join(tmpdir(), "hmann_slurm_")), shards = join(folder, "shards"), config = join(folder, "slurm.conf"), socket = join(folder, "munge.socket");
const environment = { ...process.env, SLURM_CONF: config, PATH: `${bin}${delimiter}${process.env.PATH}`, HMANN_PROGRESS: "never" };
const running = [];
let failed = 0;

function check(ok, text) {
  console.log(`${ok ? "ok  " : "FAIL"} ${text}`);
  failed += ok ? 0 : 1;
}

/** Runs a command to its end, and returns what it prints. */
function run(...command) {
  const ran = spawnSync(command[0], command.slice(1), { env: environment, cwd: folder, encoding: "utf8" });
  if (ran.status !== 0) throw new Error(`${command.join(" ")}: ${ran.status ?? ran.error}: ${ran.stderr}`);
  return ran.stdout;
}

function start(...command) {
  running.unshift(spawn(command[0], command.slice(1), { env: environment, stdio: "ignore", detached: true }));
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
  for (let left = 2400; left > 0; --left) {
    try {
      const found = what();
      if (found) return found;
    } catch {
      // not there yet
    }
    await sleep(50);
  }
  throw new Error(`${text}: not within 2 min`);
}

async function startCluster() {
  const ports = await Promise.all([freePort(), freePort(), freePort()]);
  const nodes = ["n1", "n2"].map((node, i) => `NodeName=${node} NodeHostname=${hostname()} NodeAddr=127.0.0.1 Port=${ports[i + 1]} CPUs=1 RealMemory=1000`);
  for (const name of ["state", "n1", "n2"]) mkdirSync(join(folder, name));
  writeFileSync(config, `ClusterName=hmann
SlurmctldHost=${hostname()}(127.0.0.1)
SlurmctldPort=${ports[0]}
CommunicationParameters=NoCtldInAddrAny,NoInAddrAny
AuthType=auth/munge
AuthInfo=socket=${socket}
CredType=cred/munge
SlurmUser=root
SlurmdUser=root
StateSaveLocation=${folder}/state
SlurmdSpoolDir=${folder}/%n
SlurmctldPidFile=${folder}/controller.pid
SlurmdPidFile=${folder}/%n.pid
SlurmctldLogFile=${folder}/controller.log
SlurmdLogFile=${folder}/%n.log
ProctrackType=proctrack/linuxproc
TaskPlugin=task/none
JobAcctGatherType=jobacct_gather/none
AccountingStorageType=accounting_storage/none
SelectType=select/cons_tres
SelectTypeParameters=CR_CPU_Memory
SchedulerParameters=requeue_delay=1,sched_interval=1
MpiDefault=none
ReturnToService=2
SlurmdParameters=config_overrides
${nodes.join("\n")}
PartitionName=all Nodes=n1,n2 Default=YES MaxTime=INFINITE State=UP
`);
  const key = join(folder, "munge.key");
  writeFileSync(key, "a key of 32 bytes or more for tests alone", { mode: 0o600 });
  chmodSync(folder, 0o755);
  start("munged", "--foreground", "--force", `--key-file=${key}`, `--socket=${socket}`, ...["pid", "log", "seed"].map((file) => `--${file}-file=${join(folder, `munge.${file}`)}`));
  await until(() => existsSync(socket), "munged");
  start("slurmctld", "-D", "-f", config);
  for (const node of ["n1", "n2"]) start("slurmd", "-D", "-N", node, "-f", config);
  await until(() => run("sinfo", "-h", "-t", "idle", "-o", "%D").trim() === "2", "two idle nodes");
}

/** Numbers of the processes that build a shard. */
function buildersOf(shard) {
  return readdirSync("/proc").filter((pid) => /^\d+$/.test(pid) && isBuilder(pid, shard));
}

function isBuilder(pid, shard) {
  try {
    const words = readFileSync(`/proc/${pid}/cmdline`, "utf8").split("\0");
    return words[0].endsWith("hmann") && words.includes(join(shards, `shard-${shard}.hmann`));
  } catch {
    return false;
  }
}

const hashOf = (index) => JSON.parse(run(hmann, "info", index, "--json")).content_hash;

try {
  await startCluster();
  check(true, "munge, a controller and two nodes run");
  const base = join(folder, "base.u8bin");
  run(hmann, "data", "generate", "--n", "120K", "--dim", "64", "--out", base);
  run(hmann, "data", "split", base, "--shards", "4", "--out", shards);
  const job = run("sbatch", "--parsable", "--array=0-3", "--cpus-per-task=1", "--mem=400M", resolve("tools/build_shards.sbatch"), shards, "--no-calibrate").trim();
  const [victim] = await until(() => (buildersOf(0).length > 0 && readdirSync(join(shards, "shard-0.work")).length > 4 ? buildersOf(0) : undefined), "the build of shard 0");
  process.kill(Number(victim), "SIGKILL");
  await until(() => run("squeue", "-h", "-j", job).trim() === "" && existsSync(join(shards, "shard-0.hmann")), "the array's end");
  const restarts = readFileSync(join(folder, "controller.log"), "utf8").match(/[Rr]equeu/g) ?? [];
  check(restarts.length > 0, "the task of shard 0 was killed and queued again");
  for (let shard = 0; shard < 4; ++shard) {
    const byHand = join(folder, `hand-${shard}.hmann`);
    run(hmann, "build", "--base", join(shards, `shard-${shard}.u8bin`), "--labels", join(shards, `shard-${shard}.labels`), "--out", byHand, "--no-calibrate");
    const index = join(shards, `shard-${shard}.hmann`);
    check(existsSync(index) && hashOf(index) === hashOf(byHand), `shard ${shard} has the content of the same build by hand`);
  }
} catch (error) {
  check(false, error.message);
  for (const log of readdirSync(folder).filter((name) => name.endsWith(".log"))) console.log(`--- ${log}\n${readFileSync(join(folder, log), "utf8").split("\n").slice(-15).join("\n")}`);
} finally {
  for (const child of running) child.kill("SIGTERM");
  await sleep(1000);
  for (const child of running) child.kill("SIGKILL");
  rmSync(folder, { recursive: true, force: true });
}
process.exit(failed === 0 ? 0 : 1);
