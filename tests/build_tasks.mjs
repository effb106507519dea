// Tasks of a build, several at once, each in a pid namespace of its own, as in containers: every process is number 1. Some are killed.
// build_tasks_test.mjs runs a few rounds, ./dev soak-builds twelve with fifty kills.
import { spawn, spawnSync } from "node:child_process";
import { existsSync, mkdirSync, readdirSync, rmSync, statSync } from "node:fs";
import { join } from "node:path";

const tasksAtOnce = 4;
const environment = { ...process.env, HMANN_PROGRESS: "never" };

/** Whether this process may make pid namespaces. */
export const canUnshare = () => spawnSync("unshare", ["--pid", "--fork", "--mount-proc", "true"]).status === 0;

/** Runs a command; kills it after `milliseconds`, if given. Returns its exit code (undefined: killed) and what it said. */
function run(command, milliseconds) {
  return new Promise((done) => {
    const child = spawn(command[0], command.slice(1), { stdio: ["ignore", "pipe", "pipe"], env: environment });
    let out = "", err = "";
    child.stdout.on("data", (data) => (out += data));
    child.stderr.on("data", (data) => (err += data));
    const timer = milliseconds === undefined ? undefined : setTimeout(() => child.kill("SIGKILL"), milliseconds);
    child.on("close", (code, signal) => {
      clearTimeout(timer);
      done({ code: signal === "SIGKILL" ? undefined : code, out, err });
    });
  });
}

/** The finished jobs in a work folder: file and inode. */
function finished(work) {
  return readdirSync(work).filter((name) => /^l0-.*-\d+[.]part$/.test(name)).map((name) => [name, statSync(join(work, name)).ino]);
}

/**
 * Makes L0 of an index in `rounds` work folders, each stage by four tasks at once, of which `kills` in all are killed and run again.
 * Returns the tasks that ran to their end, failures (exit code and message), kills, finished jobs that were made again, and whether
 * each index has the content of one that a single process builds.
 */
export async function buildTasks({ hmann, base, folder, memory, rounds, kills, seed = 1 }) {
  const random = () => (seed = (seed * 1103515245 + 12345) % 2 ** 31) / 2 ** 31;
  mkdirSync(folder, { recursive: true });
  const work = join(folder, "work"), out = join(folder, "out.hmann");
  const build = [hmann, "build", "--base", base, "--out", out, "--no-calibrate", "--json"];
  const bounded = [...build, "--build-memory", memory, "--work", work];
  const hashOf = (ran) => (ran.code === 0 ? JSON.parse(ran.out).content_hash : `${ran.code}: ${ran.err}`);
  const expected = hashOf(await run(build));
  const result = { tasks: 0, failures: [], kills: 0, repeated: 0, same: 0, expected };
  const task = (stage, jobs) =>
    ["unshare", "--pid", "--fork", "--kill-child", "--mount-proc", hmann, "build-job", "--work", work, "--stage", stage, "--jobs", jobs, "--threads", "1", "--build-memory", memory];
  /** Runs one task to its end. */
  const finish = async (stage, jobs) => {
    const ran = await run(task(stage, jobs));
    result.tasks += 1;
    if (ran.code !== 0) result.failures.push(`${stage} ${jobs}: ${ran.code}: ${ran.err.trim()}`);
  };
  const killed = []; // jobs that were made when a task was killed: they must stay
  const perStage = Math.ceil(kills / rounds / 2); // there are more stages of several jobs, and some tasks end before they are killed
  for (let round = 0; round < rounds; ++round) {
    rmSync(work, { recursive: true, force: true });
    const begun = spawn(bounded[0], bounded.slice(1), { stdio: "ignore", env: environment });
    const ended = new Promise((done) => begun.on("close", done));
    while (!existsSync(join(work, "manifest.json"))) await new Promise((done) => setTimeout(done, 1));
    begun.kill("SIGKILL");
    await ended;
    const stages = () => JSON.parse(spawnSync(hmann, ["build", "--status", "--work", work, "--json"]).stdout).stages.filter((stage) => stage.stage.startsWith("l0-"));
    for (const { stage } of stages()) {
      const { jobs } = stages().find((other) => other.stage === stage);
      const apart = jobs >= tasksAtOnce;
      const part = (t) => (apart ? `${Math.floor((t * jobs) / tasksAtOnce)}-${Math.floor(((t + 1) * jobs) / tasksAtOnce) - 1}` : `0-${jobs - 1}`);
      await Promise.all(
        Array.from({ length: tasksAtOnce }, async (_, t) => {
          for (let left = apart && t < perStage ? 1 : 0; left > 0 && result.kills < kills; --left) {
            const ran = await run(task(stage, part(t)), 20 + 200 * random());
            if (ran.code !== undefined) continue;
            result.kills += 1;
            killed.push(...finished(work));
          }
          await finish(stage, part(t));
        }),
      );
      for (const [name, inode] of killed.splice(0)) result.repeated += statSync(join(work, name)).ino === inode ? 0 : 1;
    }
    const hash = hashOf(await run(bounded));
    if (hash === expected) result.same += 1;
    else result.failures.push(`index: ${hash}, expected ${expected}`);
  }
  return result;
}
