// The table of claims in doc/paper.md holds what `hmann eval paper` has measured: doc/notes/paper.jsonl, its results' claims and command.
import assert from "node:assert/strict";
import { readFileSync } from "node:fs";
import { test } from "node:test";

const source = process.env.HMANN_SOURCE_DIR;
const [head, ...claims] = readFileSync(`${source}/doc/notes/paper.jsonl`, "utf8").trim().split("\n").map((line) => JSON.parse(line));
const page = readFileSync(`${source}/doc/paper.md`, "utf8");

test("each row of the table is a claim of the committed results", () => {
  const section = page.slice(page.indexOf("## 10. "), page.indexOf("## 11. "));
  const rows = section.split("\n").filter((line) => line.startsWith("| ") && !line.startsWith("| claim"));
  assert.deepEqual(rows, claims.map(({ claim, paper, figure, verdict }) => `| ${claim} | ${paper} | ${figure} | **${verdict}** |`));
});

test("the results name their command, machine and date, and have thirteen verdicts", () => {
  assert.equal(claims.length, 13);
  assert.ok(claims.every(({ kind, verdict }) => kind === "claim" && ["held", "partly", "not held", "needs 10^9"].includes(verdict)));
  const { command, cpu, time } = head.environment;
  assert.match(command, /^hmann(-eval| eval) paper --scale /);
  for (const fact of [cpu, time.slice(0, 10), command.match(/--scale \S+/)[0]]) assert.ok(page.includes(fact), `doc/paper.md does not say ${fact}`);
});
