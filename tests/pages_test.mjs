// The commands of the pages: the README's tour runs as it stands, and every option that a page gives a command exists.
//   HMANN_BINARY_DIR=build/release node --test tests/pages_test.mjs
import { strict as assert } from "node:assert";
import { execFileSync, spawnSync } from "node:child_process";
import { existsSync, mkdtempSync, readdirSync, readFileSync, rmSync, symlinkSync } from "node:fs";
import { tmpdir } from "node:os";
import path from "node:path";
import { test } from "node:test";

const root = path.dirname(import.meta.dirname ?? path.dirname(new URL(import.meta.url).pathname));
const build = path.resolve(process.env.HMANN_BINARY_DIR);
const hmann = path.join(build, "bin", "hmann");
const pages = ["README.md", ...readdirSync(path.join(root, "doc")).filter((name) => name.endsWith(".md")).map((name) => `doc/${name}`)];

/** The blocks of a page that are marked as `language`. */
function blocks(page, language) {
  return [...readFileSync(path.join(root, page), "utf8").matchAll(/^```(\w+)\n([\s\S]*?)^```/gm)].filter((found) => found[1] === language).map((found) => found[2]);
}

/** The `hmann` commands of a text of sh, continued lines joined, comments and substitutions left out. */
function commands(text) {
  const joined = text.replaceAll("\\\n", " ").replaceAll(/'[^']*'/g, "X").replaceAll(/"[^"]*"/g, "X").replaceAll(/\$\([^)]*\)/g, "X");
  return joined.split("\n").map((line) => line.replace(/ #.*/, "")).flatMap((line) => line.split(/[;|&]/)).map((line) => line.trim())
    .filter((line) => line.startsWith("hmann ")).map((line) => line.split(/\s+/).slice(1));
}

const helps = new Map();
/** The help of the longest command that the words begin with. */
function helpOf(words) {
  const name = words.slice(0, ["eval", "data"].includes(words[0]) ? 2 : 1).join(" ");
  if (!helps.has(name)) helps.set(name, spawnSync(hmann, [...name.split(" "), "--help"], { encoding: "utf8" }));
  return [name, helps.get(name)];
}

test("every option that a page gives a command exists", () => {
  let seen = 0;
  for (const page of pages) {
    for (const words of blocks(page, "sh").flatMap(commands)) {
      const [name, help] = helpOf(words);
      assert.equal(help.status, 0, `${page}: hmann ${name} is no command`);
      for (const word of words.filter((word) => word.startsWith("--"))) {
        const option = word.replace(/=.*/, "");
        assert.match(help.stdout, new RegExp(`(^|[\\s,])${option}(?![\\w-])`, "m"), `${page}: hmann ${name} has no ${option}`);
        ++seen;
      }
    }
  }
  assert.ok(seen > 80, `${seen} options: the pages are not read`);
});

test("the links of the pages lead somewhere", () => {
  for (const page of [...pages, "ARCHITECTURE.md", "CHANGELOG.md"]) {
    for (const [, link] of readFileSync(path.join(root, page), "utf8").matchAll(/\]\(([^)#:]+)(?:#[^)]*)?\)/g)) {
      assert.ok(existsSync(path.join(root, path.dirname(page), link)), `${page}: ${link}`);
    }
  }
});

test("the tour of the README runs as it stands", { timeout: 280_000 }, () => {
  const tour = blocks("README.md", "sh").find((text) => text.includes("hmann serve"));
  const folder = mkdtempSync(path.join(tmpdir(), "hmann_tour_"));
  try {
    symlinkSync(path.join(root, "datasets"), path.join(folder, "datasets"));
    // Port 0 cannot be told to the client of the next line: an unused one of this process's range.
    const port = 20000 + (process.pid % 20000);
    const script = tour.replace("PATH=$PWD/build/release/bin:$PATH", `PATH=${path.dirname(hmann)}:$PATH`).replaceAll("50051", String(port))
      .replace(/^hmann tune .*/m, (line) => line.replace(/ #.*/, " --accept-noise"));
    assert.notEqual(script, tour);
    execFileSync("bash", ["-euc", script], { cwd: folder, encoding: "utf8", stdio: ["ignore", "pipe", "pipe"] });
  } finally {
    rmSync(folder, { recursive: true });
  }
});
