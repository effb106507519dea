// The commands of the pages run as they stand, with the sample under the names of the pages' data. Commands that download, take a
// data set of a million vectors, or measure for more than a minute do not run: of them, every option must exist.
//   HMANN_BINARY_DIR=build/release node --test tests/pages_test.mjs
import { strict as assert } from "node:assert";
import { execFileSync, spawnSync } from "node:child_process";
import { existsSync, mkdirSync, mkdtempSync, readdirSync, readFileSync, rmSync, symlinkSync, writeFileSync } from "node:fs";
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

/** The sources and scripts below some folders, without what is built or fetched. */
function sources(...folders) {
  return folders.flatMap((folder) => readdirSync(path.join(root, folder), { recursive: true, withFileTypes: true }).filter((entry) => entry.isFile())
    .map((entry) => path.relative(root, path.join(entry.parentPath ?? entry.path, entry.name))))
    .filter((name) => /\.(cc|h|py|mjs|proto)$/.test(name) && !name.includes("node_modules"));
}
const optionsIn = (text) => [...text.matchAll(/(?<![\w-])--[a-z][a-z0-9]+(?:-[a-z0-9]+)*/g)].map(([option]) => option);
const commandsIn = (help) => [...help.slice(help.search(/^(Sub)?[Cc]ommands:/m)).matchAll(/^  ([a-z][a-z-]+)(?=  |$)/gm)].map(([, name]) => name);
const everyOption = () => {
  const help = (...words) => spawnSync(hmann, [...words, "--help-all"], { encoding: "utf8" }).stdout;
  const helps = [help(), ...commandsIn(help()).flatMap((command) => [help(command),
    ...(["admin", "eval", "data"].includes(command) ? commandsIn(help(command)).map((name) => help(command, name)) : [])])];
  // Programs of this repository that no user runs declare theirs in their sources.
  const declared = sources("client", "eval", "index", "server", "tests", "tools").flatMap((name) =>
    [...readFileSync(path.join(root, name), "utf8").matchAll(/(?:add_option\w*|add_flag\w*|add_argument|AddParsed|Add\w*)(?:<[^>]*>)?\(\s*(?:\*?\w+,\s*)?"(?:-\w,)?(--[a-z0-9-]+)/g)].map(([, option]) => option));
  return new Set([...helps.flatMap(optionsIn), ...declared, ...["dev", "tests/soak_builds.mjs"].flatMap((name) => optionsIn(readFileSync(path.join(root, name), "utf8")))]);
};
// Of the programs of others that the pages run.
const foreign = new Set(["--array", "--cpus-per-task", "--mem", "--no-build-isolation", "--no-index", "--system-site-packages", "--test-dir", "--algorithm", "--dataset",
  "--definitions", "--local", "--neurips23track", "--nodocker", "--install", "--component"]);
const literalsOf = (text) => [...text.matchAll(/"((?:[^"\\\n]|\\.)*)"/g)].map(([, literal]) => literal);

test("every option and key that a page or a message names exists", () => {
  const known = everyOption();
  const missing = [];
  const seek = (where, text) => missing.push(...optionsIn(text).filter((option) => !known.has(option) && !foreign.has(option)).map((option) => `${where}: ${option}`));
  for (const page of pages) seek(page, readFileSync(path.join(root, page), "utf8"));
  const shipped = sources("client", "index", "server", "tools").filter((name) => !/_test|_bench|_fuzz|testing|tests\/|setup\.py/.test(name));
  for (const name of shipped) seek(name, literalsOf(readFileSync(path.join(root, name), "utf8")).join("\n"));
  assert.ok(known.size > 150 && shipped.length > 300, `${known.size} options, ${shipped.length} files: they are not read`);

  // Keys of the configuration, which the program lists where it finds one that it does not know.
  const folder = mkdtempSync(path.join(tmpdir(), "hmann_keys_"));
  const keys = ["zzzzzz = 1\n[index.a]\nfile = \"a\"", "[index.a]\nfile = \"a\"\nzzzzzz = 1"].flatMap((text) => {
    writeFileSync(path.join(folder, "serve.toml"), text);
    const { stderr } = spawnSync(hmann, ["serve", "--config", path.join(folder, "serve.toml")], { encoding: "utf8" });
    return stderr.match(/no key 'zzzzzz'; expected ([^\n]*)/)[1].split(", ");
  });
  rmSync(folder, { recursive: true });
  const key = (text) => keys.includes(text.replaceAll("_", "-"));
  let named = 0;
  const check = (where, name) => { ++named; if (!key(name)) missing.push(`${where}: key ${name}`); };
  for (const page of ["doc/serving.md", "doc/collections.md", "doc/scale-out.md", "CHANGELOG.md"]) {
    const text = readFileSync(path.join(root, page), "utf8").replaceAll(/^```(?!toml)[\s\S]*?^```/gm, "");
    for (const [, name] of text.matchAll(/`([a-z][\w-]*) = [^`]*`/g)) check(page, name);
    for (const [, name] of text.matchAll(/section of a collection in `--config` `([\w-]+)`/g)) check(page, name);
  }
  for (const page of pages) for (const block of blocks(page, "toml")) for (const [, name] of block.matchAll(/^([\w-]+) = /gm)) if (!/^sift$/.test(name)) check(page, name);
  for (const [, name] of readFileSync(path.join(root, "server/serve.toml"), "utf8").matchAll(/^#?\s*([a-z][\w-]*) =/gm)) check("server/serve.toml", name);
  for (const name of shipped) {
    for (const literal of literalsOf(readFileSync(path.join(root, name), "utf8"))) {
      for (const [, word] of literal.matchAll(/\(?a server: ([\w-]+)/g)) check(name, word);
    }
  }
  assert.ok(named >= 10, `${named} keys: the pages are not read`);
  assert.deepEqual(missing, []);
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
  const script = tour.replace(/^PATH=.*/, "").replaceAll("50051", String(port));
  inFolder((shell) => shell(script));
});

for (const [page, index] of [["doc/planning.md", 0], ["doc/planning.md", 1], ["doc/tuning.md", 0], ["doc/benchmarks.md", 0], ["doc/collections.md", 0]]) {
  test(`block ${index} of ${page} runs as it stands`, { timeout: 280_000 }, () => {
    const script = blocks(page, "sh")[index];
    inFolder((shell) => shell(`hmann build --base base.u8bin --out sample.hmann\n${script}`));
  });
}

test("the Python of the pages runs as it stands", { timeout: 280_000 }, () => {
  const readme = blocks("README.md", "python")[0].replace("50051", String(port)).split("\nclient = ");
  const [local, remote] = blocks("doc/python.md", "python").map((text) => text.replace("50051", String(port)));
  inFolder((shell, python) => {
    python(readme[0]);
    python(blocks("doc/collections.md", "python")[0]);
    python(`import numpy\nvectors = numpy.random.rand(3000, 32).astype("float32"); queries = vectors[:300]\n${local}`);
    shell("hmann build --base base.u8bin --out sample.hmann && hmann tune sample.hmann --queries datasets/sample/query.u8bin --k 10");
    const script = `import hmann, numpy\nqueries = hmann.read_vectors("datasets/sample/query.u8bin")[:20]\n${remote}
queries = numpy.random.rand(5, 32).astype("float32")\nclient = ${readme[1]}`;
    shell(`${serve} PYTHONPATH=${path.join(build, "python")} /usr/bin/python3 -c '${script}'`);
  });
});
