// The page of `hmann eval scale` in a real browser.
//   node --test scale_page_test.mjs     with the environment that browser.mjs wants
import assert from "node:assert/strict";
import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { after, before, test } from "node:test";
import * as web from "./browser.mjs";

const WALKS = ["quantised", "best-first"], TARGETS = [0.9, 0.95, 0.99], SHAPES = [[1, 1], [2, 8]];

/** Made-up figures: best-first reads ten times as much, and everything grows with n^0.1. */
function makeRows(n) {
  return ["dram", "nvme"].flatMap((tier) => WALKS.flatMap((walk, w) => SHAPES.flatMap(([threads, inFlight]) => TARGETS.map((target, t) => {
    const reads = 10 ** w * (t + 1) * 5 * n ** 0.1, device = tier === "nvme", lost = walk === "best-first" && target === 0.99;
    return { tier, walk, threads, in_flight: inFlight, target, at_recall: lost ? null : target === 0.9 ? 0.93 : target, qps: lost ? null : 1e5 / reads, mean_us: lost ? null : 10 * reads,
      p99_us: lost ? null : 30 * reads, distances: 200, estimates: w === 0 ? 900 : 1e-9, slow_reads: lost ? null : reads, slow_bytes: 300 * reads, rounds: lost ? null : reads / 4,
      io_reads: device && !lost ? reads / 2 : null, lines: 1234, limit_qps: lost ? null : 4e5 / reads, of_limit: lost ? null : 0.25 };
  }))));
}

function makeResults() {
  const environment = { cpu: "Test CPU", cores: 2, simd: "avx512", governor: "performance", huge_pages: "madvise", kernel: "Linux 6.1 x86_64", system: "Debian", memory_bytes: 2 ** 34,
    compiler: "g++ 12.2.0", load: 0.1, time: "2026-01-02T03:04:05Z" };
  const depths = [1, 64].map((depth) => ({ depth, iops: 1000 * depth, mean_us: 41, p50_us: 40, p99_us: 90, reads: 1000 }));
  const sizes = [1e4, 1e5, 1e6, 1e7].map((n) => ({
    kind: "size", n, made_up: n > 1e6, queries: 1000, learned_from: 500, density: null, gathers: [{ loads: 1, ns_a_line: 91 }, { loads: 8, ns_a_line: 13 }], environment,
    indexes: [43, 86].map((bytes) => ({ fast_bytes: bytes, structure: "10 % promoted, 1 bit <b>", cache_bytes: 0, planned_a_vector: bytes, placed_bytes: (bytes + 0.5) * n,
      build: { from: bytes === 43 ? "vectors" : "promotion", phases: [{ name: "join", seconds: n / 1e4, cpu_seconds: n / 5e3, anonymous_bytes: n * 500 }, { name: "total", seconds: n / 1e4, cpu_seconds: n / 5e3 }],
        seconds: n / 1e4, cpu_seconds: n / 5e3, peak_anonymous_bytes: n * 500, work_bytes: 0, threads: 2, file_bytes: n * 330, bytes: [{ structure: "l0_links", tier: "slow", a_vector: 128 }] },
      memory: [], drives: [{ tier: "nvme", measured: [{ path: "x", tier: "nvme", blocks: 10, threads: 1, depths }] }], rows: makeRows(n) })) }));
  const fit = (start, slope) => ({ start, slope, residuals: [0.01, -0.02, 0.015, -0.005], rms: 0.014 });
  const grown = (more) => ({ points: [[1e4, 10], [1e5, 12], [1e6, 15], [1e7, 20]], made_up: 1, logarithm: fit(1, 2), power: fit(3, 0.1234),
    extrapolated: { logarithm: { value: 42, error: 3 }, power: { value: 55, error: 1.2 } }, ...more });
  return {
    title: "Growth over sizes: base.u8bin", base: "/data/base.u8bin", queries: "/data/query.u8bin", targets: TARGETS, sizes,
    head: { base: { n: 1e6, dim: 128, dtype: "u8" }, metric: "l2", k: 10, m: 16, rounds: 1, shapes: SHAPES },
    growth: [grown({ fast_bytes: 43, tier: "nvme", walk: "quantised", target: 0.95, figure: "slow_reads" }),
      grown({ fast_bytes: 43, tier: "dram", walk: "best-first", target: 0.95, figure: "slow_reads", extrapolated: { logarithm: { value: 7, error: null }, power: { value: 9, error: null } } }),
      grown({ fast_bytes: 43, tier: null, walk: null, target: null, figure: "peak_anonymous_bytes", extrapolated: { logarithm: { value: 2 ** 33, error: 2 ** 30 }, power: { value: 2 ** 35, error: 1.5 } } })],
    goal: { rows: 1e9, fast_memory_bytes: 96 * 2 ** 30, structure: "32 % promoted, 2 bits, replicas 1", levels: [{ fast_bytes: 43, fits: true }, { fast_bytes: 200, fits: false }] },
  };
}

const results = makeResults();
let folder, browser, page;
const problems = [], requests = [];
const pixelsOf = async (name) => web.pixelsOf(page, "#growth", await web.colourOf(page, name));
const cells = (host, line) => page.locator(`${host} tbody tr`).nth(line).locator("th, td").allTextContents();

before(async () => {
  folder = mkdtempSync(join(tmpdir(), "hmann-scale-page-test-"));
  browser = await web.launch();
  page = await web.openTab(browser, { problems, requests });
  await page.goto(web.fill("scale_report.html", results, join(folder, "scale.html")));
  await page.waitForSelector("#growth canvas");
});

after(async () => {
  if (browser) await browser.close();
  rmSync(folder, { recursive: true, force: true });
});

test("the page loads without an error, a warning or a request, and says what is made up", async () => {
  assert.deepEqual(problems, []);
  assert.equal(requests.filter((url) => !url.startsWith("data:")).length, 1);
  assert.equal(await page.textContent("h1"), results.title);
  assert.match(await page.textContent("#subtitle"), /128 × u8, l2; recall@10; M 16; 1,000 queries, dials chosen on 500 others; median of 1 round$/);
  assert.match(await page.textContent("#made-up"), /^Made-up vectors and queries, resampled from the real ones: 10,000,000\.$/);
});

test("a curve for each bytes, tier and walk, in its colour; a click hides it everywhere", async () => {
  assert.equal(await page.locator("#legend button").count(), 8);
  for (const name of ["--c-hmann", "--c-hnswlib", "--c-faiss", "--c-1", "--c-3"]) assert.ok(await pixelsOf(name) > 60, name);
  const chip = page.locator("#legend button", { hasText: "43 B, dram, quantised" });
  await chip.click();
  assert.equal(await chip.getAttribute("aria-pressed"), "false");
  assert.equal(await pixelsOf("--c-hmann"), 0);
  assert.equal(await page.locator("#rows tbody tr", { hasText: "43 B, dram, quantised" }).count(), 0);
  await chip.click();
  assert.ok(await pixelsOf("--c-hmann") > 60);
});

test("the mouse over a point says size and figure, made up or not", async () => {
  const tip = await web.hoverUntil(page, "#growth", "10,000,000, made up");
  assert.ok(tip, "no position of the mouse shows the largest size");
  assert.match(tip, /slow reads.*at recall 0\.95/s);
  await page.mouse.move(2, 2);
});

test("rows are those of the data, with the limit beside them", async () => {
  assert.equal(await page.locator("#rows tbody tr").count(), 4 * 2 * 2 * 2 * 2);
  const row = results.sizes[0].indexes[0].rows.find((one) => one.target === 0.95 && one.tier === "dram" && one.walk === "quantised" && one.threads === 1);
  const shown = await cells("#rows", 0);
  assert.deepEqual(shown.slice(0, 3), ["43 B, dram, quantised", "10,000", "1 thread, one at a time"]);
  assert.ok(Math.abs(Number(shown[3].replace(/,/g, "")) / row.qps - 1) < 0.01, shown[3]);
  assert.equal(shown[5], "25 %");
  assert.equal(shown[13], "", "no I/Os in DRAM");
  assert.match(await page.textContent("#rows-note"), /computed from its counters/);
});

test("another recall and another figure", async () => {
  await page.locator("#targets label", { hasText: "0.99" }).click();
  assert.equal(await page.locator("#rows tbody tr", { hasText: "not reached" }).count(), 4 * 2 * 2 * 2);
  assert.equal(await pixelsOf("--c-hnswlib"), 0, "best-first does not reach 0.99");
  await page.locator("#targets label", { hasText: "0.9", hasNotText: "0.9" }).count();
  await page.locator("#targets label").first().click();
  assert.ok((await cells("#rows", 0))[3].endsWith("*"), "the lowest recall measured lies above");
  await page.locator("#targets label", { hasText: "0.95" }).click();
  await page.locator("#figures label", { hasText: "I/Os" }).click();
  assert.equal(await pixelsOf("--c-hmann"), 0, "no I/Os in DRAM");
  assert.ok(await pixelsOf("--c-faiss") > 60);
  assert.equal(await page.locator("#fits table").count(), 0, "nothing was fitted to I/Os");
  await page.locator("#figures label", { hasText: "slow reads" }).click();
});

test("fits have residuals, and what is extrapolated says so with its error", async () => {
  assert.deepEqual(await cells("#fits", 0), ["43 B, nvme, quantised", "4 (1)", "4.61", "1.0 %, -2.0 %, 1.5 %, -0.5 %", "0.123", "1.0 %, -2.0 %, 1.5 %, -0.5 %",
    "extrapolated: 42 ± 3", "extrapolated: 55 × or ÷ 1.2"]);
  assert.match((await cells("#fits", 1))[6], /^extrapolated: 7 \(error unknown: two sizes\)$/);
  assert.match(await page.textContent("#goal-heading"), /^1,000,000,000 vectors, extrapolated$/);
  assert.match(await page.textContent("#goal-note"), /Nobody has measured.*43 bytes a vector fit \(40\.0 GiB\), 200 bytes a vector do not fit.*the planner takes: 32 % promoted/);
  assert.deepEqual((await cells("#goal", 2)).slice(2), ["memory", "extrapolated: 8 ± 1 (GiB)", "extrapolated: 32 × or ÷ 1.5 (GiB)"]);
  for (const cell of await page.locator("#goal tbody td:nth-child(n + 4)").allTextContents()) assert.match(cell, /^extrapolated: /);
});

test("builds, bytes, machine", async () => {
  const build = await cells("#builds", 7);
  assert.deepEqual(build.slice(0, 5), ["10,000,000, made up", "86", "86.5", "10 % promoted, 1 bit <b>", "promotion"]);
  assert.match(build.at(-1), /^join 33 min 20 s$/);
  assert.deepEqual(await cells("#bytes", 0), ["10,000, 43 B", "128"]);
  assert.match(await page.textContent("#environment"), /Test CPU.*\/data\/base\.u8bin/s);
  assert.deepEqual(await cells("#machine", 0), ["when 10,000 ran", "91", "13"]);
  assert.match((await cells("#machine", 4)).join(), /10,000, 43 B, 1 threads,1,000 \(41\),64,000 \(41\)/);
});

test("arrow keys walk along a curve and speak", async () => {
  await page.focus("#growth");
  await page.keyboard.press("ArrowRight");
  assert.match(await page.textContent("#spoken"), /43 B, dram, quantised, 10,000, .* slow reads, at recall 0\.95/);
  await page.keyboard.press("Escape");
});

test("a narrow window scrolls tables, not the page", async () => {
  await page.setViewportSize({ width: 400, height: 800 });
  await page.waitForTimeout(200);
  assert.ok(await page.evaluate(() => document.documentElement.scrollWidth <= window.innerWidth));
  assert.deepEqual(problems, []);
});
