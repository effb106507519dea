// Tasks of a build at once in pid namespaces of their own, some of them killed (build_tasks.mjs). Needs root.
import assert from "node:assert/strict";
import { spawnSync } from "node:child_process";
import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { test } from "node:test";
import { buildTasks, canUnshare } from "./build_tasks.mjs";

const hmann = join(process.env.HMANN_BINARY_DIR, "bin", "hmann");

test("tasks that all are process 1 do not disturb each other, and what was killed is made again", { skip: !canUnshare() }, async () => {
  const folder = mkdtempSync(join(tmpdir(), "hmann_tasks_"));
  try {
    const base = join(folder, "base.u8bin");
    assert.equal(spawnSync(hmann, ["data", "generate", "--n", "40K", "--dim", "32", "--out", base]).status, 0);
    const made = await buildTasks({ hmann, base, folder, memory: "160MiB", rounds: 2, kills: 6 });
    assert.deepEqual(made.failures, []);
    assert.equal(made.same, 2);
    assert.equal(made.repeated, 0);
    assert.ok(made.kills > 0, "none was killed in time");
  } finally {
    rmSync(folder, { recursive: true });
  }
});
