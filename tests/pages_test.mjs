// The commands of the pages run as they stand, with the sample under the names of the pages' data. Commands that download, take a
// data set of a million vectors, or measure for more than a minute do not run: of them, every option must exist.
//   HMANN_BINARY_DIR=build/release node --test tests/pages_test.mjs
import { strict as assert } from "node:assert";
import { execFileSync, spawnSync } from "node:child_process";
import { existsSync, mkdirSync, mkdtempSync, readdirSync, readFileSync, rmSync, symlinkSync } from "node:fs";
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
  const name = words.slice(0, ["admin", "eval", "data"].includes(words[0]) ? 2 : 1).join(" ");
  if (!helps.has(name)) helps.set(name, spawnSync(hmann, [...name.split(" "), "--help-all"], { encoding: "utf8" }));
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

/** Runs a script in a new folder in which the sample has the names that the pages give their data. */
function inFolder(run) {
  const folder = mkdtempSync(path.join(tmpdir(), "hmann_pages_"));
  const sample = path.join(root, "datasets/sample");
  try {
    symlinkSync(path.join(root, "datasets"), path.join(folder, "datasets"));
    mkdirSync(path.join(folder, "data"));
    for (const [name, source] of [["base.u8bin", "base.u8bin"], ["data/base.u8bin", "base.u8bin"], ["data/query.u8bin", "query.u8bin"],
      ["data/query.gt100", "query.gt100"], ["data/query5k.u8bin", "query.u8bin"], ["data/query5k.gt100", "query.gt100"]]) {
      symlinkSync(path.join(sample, source), path.join(folder, name));
    }
    const shell = (script) => execFileSync("bash", ["-euc", `PATH=${path.dirname(hmann)}:$PATH\n${script}`],
      { cwd: folder, encoding: "utf8", stdio: ["ignore", "pipe", "pipe"] });
    const python = (script) => execFileSync("/usr/bin/python3", ["-c", script],
      { cwd: folder, encoding: "utf8", env: { ...process.env, PYTHONPATH: path.join(build, "python") } });
    return run(shell, python);
  } finally {
    rmSync(folder, { recursive: true });
  }
}

// Port 0 cannot be told to the client of the next line: an unused one of this process's range.
const port = 20000 + (process.pid % 20000);
const serve = `hmann serve --index sample=sample.hmann --index shop=my.hmann --listen 127.0.0.1:${port} & trap "kill $!" EXIT; `;

test("the tour of the README runs as it stands", { timeout: 280_000 }, () => {
  const tour = blocks("README.md", "sh").find((text) => text.includes("hmann serve"));
  const script = tour.replace(/^PATH=.*/, "").replaceAll("50051", String(port)).replace(/^hmann tune .*/m, (line) => line.replace(/ #.*/, " --accept-noise"));
  inFolder((shell) => shell(script));
});

for (const [page, index] of [["doc/planning.md", 0], ["doc/planning.md", 1], ["doc/tuning.md", 0], ["doc/benchmarks.md", 0], ["doc/collections.md", 0]]) {
  test(`block ${index} of ${page} runs as it stands`, { timeout: 280_000 }, () => {
    const script = blocks(page, "sh")[index].replace(/^hmann tune .*/m, (line) => `${line} --accept-noise`);
    inFolder((shell) => shell(`hmann build --base base.u8bin --out sample.hmann\n${script}`));
  });
}

test("the Python of the pages runs as it stands", { timeout: 280_000 }, () => {
  const readme = blocks("README.md", "python")[0].replace("50051", String(port)).split("\nclient = ");
  const [local, remote] = blocks("doc/python.md", "python").map((text) => text.replace("50051", String(port)).replace("index.tune(", "index.tune(accept_noise=True, "));
  inFolder((shell, python) => {
    python(readme[0]);
    python(blocks("doc/collections.md", "python")[0]);
    python(`import numpy\nvectors = numpy.random.rand(3000, 32).astype("float32"); queries = vectors[:300]\n${local}`);
    shell("hmann build --base base.u8bin --out sample.hmann && hmann tune sample.hmann --queries datasets/sample/query.u8bin --k 10 --accept-noise");
    const script = `import hmann, numpy\nqueries = hmann.read_vectors("datasets/sample/query.u8bin")[:20]\n${remote}
queries = numpy.random.rand(5, 32).astype("float32")\nclient = ${readme[1]}`;
    shell(`${serve} PYTHONPATH=${path.join(build, "python")} /usr/bin/python3 -c '${script}'`);
  });
});
