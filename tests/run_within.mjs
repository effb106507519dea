// Runs programs of this project within a memory limit, and kills them.
import { spawn, spawnSync } from "node:child_process";
import { existsSync, mkdirSync, rmdirSync, writeFileSync } from "node:fs";
import { join } from "node:path";

export const units = { KiB: 2 ** 10, MiB: 2 ** 20, GiB: 2 ** 30 };
export const bytesOf = (text) => Math.round(parseFloat(text) * (units[text.replace(/[0-9.]/g, "")] ?? 1));

/** A cgroup with this much memory, or none if this process may not create one. */
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
        spawnSync("sleep", ["0.05"]); // the killed process is still exiting
      }
    }
  }
}

/**
 * Runs a command in a cgroup of `memory` bytes and `cache` more for mapped files; kills it after `seconds`, or once `until` is true, if one is
 * given. Returns the report, or undefined if the command was killed or is `silent`.
 */
export function run(command, { memory, cache = 256 * units.MiB, seconds, until, silent } = {}) {
  const group = memory === undefined ? undefined : new Cgroup(memory + cache);
  const [program, ...rest] = group ? group.wrap(command) : command;
  return new Promise((resolve, reject) => {
    const child = spawn(program, rest, { stdio: ["ignore", "pipe", "pipe"], env: { ...process.env, HMANN_PROGRESS: "never" } });
    let out = "", err = "";
    child.stdout.on("data", (data) => (out += data));
    child.stderr.on("data", (data) => (err += data));
    const timer = seconds === undefined ? undefined : setTimeout(() => child.kill("SIGKILL"), 1000 * seconds);
    const look = until === undefined ? undefined : setInterval(() => until() && child.kill("SIGKILL"), 50);
    child.on("close", (code, signal) => {
      clearTimeout(timer);
      clearInterval(look);
      if (group) group.remove();
      if (code === 0) resolve(silent ? undefined : JSON.parse(out));
      else if (signal === "SIGKILL" && (timer ?? look) !== undefined) resolve(undefined);
      else reject(new Error(`${command.join(" ")}: ${code ?? signal}\n${err}`));
    });
  });
}
