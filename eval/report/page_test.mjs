// Tests the page of a benchmark in a real browser.
//   node --test page_test.mjs     with the environment that browser.mjs needs
import assert from "node:assert/strict";
import { mkdtempSync, readFileSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { after, before, test } from "node:test";
import * as web from "./browser.mjs";

/** Synthetic figures whose curves are easy to tell apart; `results` is the output of `hmann eval --json`. */
function makeResults() {
  const targets = [0.9, 0.95, 0.99];
  const curve = (speed, settings) => settings.map(({ setting, recall, slow = 1 }, i) => ({
    setting, recall, qps: (speed * 1000 * slow) / (i + 1) ** 1.5, qps_mad: 12.5, front: slow === 1,
    counters: setting.mode ? { distances_fast: 100, distances_slow: 200, node_reads: 150 + i } : null,
  }));
  const recalls = [0.85, 0.92, 0.96, 0.985, 0.995];
  const efs = recalls.map((recall, i) => ({ setting: { ef: 10 * (i + 1) }, recall }));
  const pools = recalls.map((recall, i) => ({ setting: { mode: "graph", ef_l1: 8, ef_l0: 10 * (i + 1) }, recall: recall + 0.001 }));
  const beams = recalls.map((recall, i) => ({ setting: { mode: "multi-start", ef_l1: 20 * (i + 1), ef_l0: 1 }, recall, slow: 0.5 }));
  const system = (name, library, speed, points, extra = {}) => ({
    name, curve: name, system: name, place: {}, data: 1234567, synthetic: false, kind: "measured", aside: false, threads: 1, in_flight: 1, fast_bytes: null, waits: false, noisy: 0,
    library, build: {}, build_seconds: 100 / speed, build_cpu_seconds: 190 / speed, build_threads: 2, phases: {}, index_bytes: 5e8 / speed,
    wall_over_cpu: 1.004, points,
    targets: targets.map((recall, i) => ({ recall, qps: (speed * 1234.5) / (i + 1), qps_mad: 3.25, at_recall: recall, ratio: speed, ratio_mad: 0.011 })), ...extra,
  });
  const slow = system("slowpoke", "Slowpoke <b>1</b>", 0.25, curve(0.25, efs.slice(0, 3)));
  Object.assign(slow.targets[2], { qps: null, qps_mad: null, at_recall: null, ratio: null, ratio_mad: null });
  Object.assign(slow.targets[0], { at_recall: 0.93 });
  const own = system("hmann", "hmann 0.1.0", 2, [...curve(2, pools), ...curve(2, beams)], { phases: { insert: 40, promote: 5 }, build: { promote: 0.16 } });
  Object.assign(own.targets[1], { lines: 1840.4, of_limit: 0.803 });
  own.noisy = 2;
  return {
    version: 2, options: {}, shapes: [], quiet: { runs: 54, noisy: 2, busy: 0.31, steal: 0.04 }, title: "Recall against speed: synthetic", data: { base: "base.u8bin", queries: "query.u8bin", n: 1234567, dim: 128, dtype: "u8", metric: "l2", k: 10, query_count: 1000 },
    build: { m: 16, ef_construction: 100, threads: 2 }, rounds: 3, clock: "wall", reference: "hnswlib", targets,
    environment: { cpu: "Test CPU", cores: 2, simd: "avx512", governor: "performance", huge_pages: "madvise", kernel: "Linux 6.1 x86_64",
      system: "Debian", memory_bytes: 2 ** 34, compiler: "g++ 12.2.0", load: 0.1, time: "2026-01-02T03:04:05Z", command: "hmann eval sweep --base 'my base.u8bin'" },
    systems: [
      own, system("hnswlib", "hnswlib 0.6.2, float", 1, curve(1, efs)), slow],
    memory: [{ loads: 1, ns_a_line: 88 }, { loads: 16, ns_a_line: 6.52 }],
    noise: [{ system: "hmann-aa", recall: 0.9, ratio: 1.013, ratio_mad: 0.002 }, { system: "hmann-aa", recall: 0.99, ratio: 0.991, ratio_mad: 0.002 }],
  };
}

const results = makeResults();
let folder, browser, page, address;
const problems = [], requests = [];

async function show(url) {
  await page.goto(url);
  await page.waitForSelector("#curves canvas");
}

async function open(colorScheme) {
  page = await web.openTab(browser, { problems, requests }, colorScheme);
  await show(address);
}

before(async () => {
  folder = mkdtempSync(join(tmpdir(), "hmann-page-test-"));
  address = web.fill("report.html", results, join(folder, "report.html"));
  browser = await web.launch();
  await open("light");
});

after(async () => {
  if (browser) await browser.close();
  rmSync(folder, { recursive: true, force: true });
});

const pixelsOf = (chart, color) => web.pixelsOf(page, chart, color);
const colorOf = (name) => web.colorOf(page, name);

test("the page loads without an error, a warning or a request", () => {
  assert.deepEqual(problems, []);
  assert.deepEqual(requests.filter((url) => !url.startsWith("file:") && !url.startsWith("data:")), []);
  assert.equal(requests.filter((url) => url.startsWith("file:")).length, 1);
});

test("heading and sentence say what was measured", async () => {
  assert.equal(await page.textContent("h1"), results.title);
  assert.match(await page.textContent("#subtitle"), /1,234,567 vectors of 128 × u8, l2; 1,000 queries, recall@10/);
  assert.match(await page.textContent("#headline"), /^hmann is 2\.00× \(±.0\.01\) as fast as hnswlib \(hnswlib 0\.6\.2, float\) at recall 0\.95, and 2\.00× \(±.0\.01\) at recall 0\.99\.$/);
  assert.match(await page.textContent("#noise"), /at most 1\.3 %/);
});

test("beside a speed in memory stands what memory allows", async () => {
  const row = await page.locator("#rows table").nth(1).locator("tbody tr").first().allTextContents();
  assert.match(row[0], /1,84080 %/);
  assert.match(await page.textContent("#rows-note"), /every 6\.5 ns, with many loads in flight/);
  const titles = await page.locator("#rows table").first().locator("thead th").allTextContents();
  assert.deepEqual(titles, ["", "QPS", "×"], "columns in which nobody says anything are left out");
});

test("what others had of the machine is told", async () => {
  assert.match(await page.textContent("#noise"), /hmann-aa, a second run of the same/);
  assert.match(await page.textContent("#quiet"), /2 of 54 runs were disturbed.*others took 31 % of the CPU, other virtual machines 4\.0 %/i);
  assert.match((await page.locator("#targets tbody tr").first().allTextContents())[0], /2 runs disturbed/);
  for (const hidden of ["#growth-section", "#load-section", "#disk-section"]) assert.equal(await page.isVisible(hidden), false, hidden);
});

test("both charts are drawn, every system in its color", async () => {
  for (const name of ["--c-hmann", "--c-hnswlib", "--c-0"]) {
    assert.ok(await pixelsOf("#curves", await colorOf(name)) > 150, `${name} in the curves`);
    assert.ok(await pixelsOf("#ratio", await colorOf(name)) > 100, `${name} in the ratios`);
  }
});

test("a click on its name hides a system and brings it back", async () => {
  const color = await colorOf("--c-hnswlib");
  const chip = page.locator("#legend button", { hasText: /^hnswlib$/ });
  assert.equal(await chip.getAttribute("aria-pressed"), "true");
  await chip.click();
  assert.equal(await chip.getAttribute("aria-pressed"), "false");
  assert.equal(await pixelsOf("#curves", color), 0);
  assert.equal(await page.locator("#points tbody tr", { hasText: "hnswlib" }).count(), 0);
  await chip.click();
  assert.ok(await pixelsOf("#curves", color) > 150);
});

test("the mouse over a point shows its setting and figures", async () => {
  const text = await web.hoverUntil(page, "#curves", "graph, ef_l1 8, ef_l0 30");
  assert.ok(text, "no position of the mouse shows the third pool setting");
  const point = results.systems[0].points[2];
  assert.match(text, /^hmann/);
  assert.match(text, /recall 0\.9610/);
  assert.ok(text.includes(`${new Intl.NumberFormat("en", { maximumSignificantDigits: 3 }).format(point.qps)} ± 12.5 queries/s`), text);
  assert.match(text, /300 distances, 152 node reads/);
  await page.mouse.move(2, 2);
  assert.equal(await page.isVisible("#curves .tip"), false);
});

test("the filter by mode leaves one mode, and baselines alone", async () => {
  const rows = (text) => page.locator("#points tbody tr", { hasText: text }).count();
  assert.equal(await rows("multi-start"), 5);
  await page.locator("#modes label", { hasText: "graph" }).click();
  assert.equal(await rows("multi-start"), 0);
  assert.equal(await rows("graph"), 5);
  assert.equal(await rows("hnswlib"), 5);
  await page.locator("#modes label", { hasText: "multi-start" }).click();
  assert.equal(await rows("graph"), 0);
  assert.equal(await page.locator("#points tbody tr", { hasText: "multi-start" }).locator("td", { hasText: /^yes$/ }).count(), 5, "the front is drawn anew");
  await page.locator("#modes label", { hasText: "all" }).click();
  assert.equal(await rows("multi-start"), 5);
});

test("the Pareto switch hides what another setting beats", async () => {
  const rows = () => page.locator("#points tbody tr").count();
  assert.equal(await rows(), 18);
  await page.check("#front-only");
  assert.equal(await rows(), 13);
  await page.uncheck("#front-only");
});

test("the axis can show time instead of speed", async () => {
  await page.locator("#units label", { hasText: "µs" }).click();
  assert.ok(await pixelsOf("#curves", await colorOf("--c-hmann")) > 150);
  await page.locator("#units label", { hasText: "queries" }).click();
});

test("arrow keys mode along the curves and speak", async () => {
  await page.focus("#curves");
  await page.keyboard.press("ArrowRight");
  assert.match(await page.textContent("#spoken"), /hmann, graph, ef_l1 8, ef_l0 10/);
  await page.keyboard.press("ArrowRight");
  assert.match(await page.textContent("#spoken"), /ef_l0 20/);
  await page.keyboard.press("ArrowDown");
  assert.match(await page.textContent("#spoken"), /hnswlib, ef 20/);
  await page.keyboard.press("Escape");
  assert.equal(await page.isVisible("#curves .tip"), false);
});

test("the numbers in the table are those of the data", async () => {
  const cells = await page.$$eval("#targets tbody tr", (rows) => rows.map((row) => [...row.querySelectorAll("td")].map((cell) => ({
    qps: cell.querySelector("[data-qps]")?.dataset.qps, shown: cell.querySelector("[data-qps]")?.textContent,
    ratio: cell.querySelector("[data-ratio]")?.textContent, text: cell.textContent }))));
  results.systems.forEach((system, c) => system.targets.forEach((at, t) => {
    const cell = cells[c][t];
    if (at.qps === null) return assert.equal(cell.text, "not reached");
    assert.equal(Number(cell.qps), at.qps);
    const shown = Number(cell.shown.replace(/[,*]/g, ""));
    assert.ok(Math.abs(shown - at.qps) <= 0.005 * at.qps + 0.5, `${cell.shown} for ${at.qps}`);
    assert.equal(cell.shown.endsWith("*"), at.at_recall > at.recall);
    if (system.name === "hnswlib") assert.equal(cell.ratio, undefined);
    else assert.equal(parseFloat(cell.ratio), Number(at.ratio.toFixed(at.ratio < 1 ? 3 : 2)));
  }));
  assert.equal(cells.length, results.systems.length);
});

test("builds and environment are told", async () => {
  const builds = await page.textContent("#builds");
  assert.match(builds, /50\.0 s/);
  assert.match(builds, /insert 40\.0 s, promote 5\.00 s/);
  assert.ok(builds.includes("Slowpoke <b>1</b>"), "names are text, not markup");
  assert.match(await page.textContent("#environment"), /Test CPU.*avx512.*performance.*madvise/s);
});

test("dark readers get a dark page with the same curves", async () => {
  await page.context().close();
  await open("dark");
  const background = await page.evaluate(() => getComputedStyle(document.body).backgroundColor);
  assert.ok(Math.max(...background.match(/\d+/g).map(Number)) < 60, background);
  assert.ok(await pixelsOf("#curves", await colorOf("--c-hmann")) > 150);
});

test("two memories: bars, shares and kinds; what stands aside is not drawn", async () => {
  const [hmann, hnsw, slow] = structuredClone(results.systems);
  Object.assign(hmann, { name: "hmann graph, 75 B, emulated +300 ns", curve: "hmann graph, 75 B, emulated +300 ns", system: "hmann, 75 B", kind: "emulated", fast_bytes: 75.5 * 1234567, noisy: 0 });
  Object.assign(hnsw, { name: "HNSW all slow, emulated +300 ns", curve: "HNSW all slow, emulated +300 ns", system: "HNSW", kind: "emulated" });
  Object.assign(slow, { name: "HNSW all slow, emulated +0 ns", system: "HNSW", kind: "emulated", aside: true });
  for (const at of hmann.targets) Object.assign(at, { qps: 4000, qps_mad: 3, ratio: 4, node_reads: 77, of_all_dram: 0.8125, of_without_latency: 0.8 });
  for (const at of hnsw.targets) Object.assign(at, { qps: 1500, ratio: 1 });
  const shown = { ...results, systems: [hmann, hnsw, slow], reference: hnsw.name, options: { emulated: "lat=300ns,lines=12" } };
  await show(web.fill("report.html", shown, join(folder, "tiers.html")));
  assert.match(await page.textContent("#rows-note"), /emulated \(lat=300ns,lines=12\).*are models/);
  assert.equal(await page.locator("#rows table").count(), results.targets.length);
  const cells = await page.locator("#rows table").first().locator("tbody tr").allTextContents();
  assert.equal(cells.length, 2);
  assert.match(cells[0], /hmann graph, 75 B, emulated \+300 ns4,000± 375\.54\.00×81 %80 %77/);
  const bars = await page.locator("#rows table").first().locator(".bar").evaluateAll((found) => found.map((bar) => parseFloat(bar.style.width)));
  assert.deepEqual(bars.map(Math.round), [100, 38]);
  assert.equal(await page.locator("#legend button", { hasText: "+0 ns" }).getAttribute("aria-pressed"), "false");
  assert.equal(await page.locator("#points tbody tr", { hasText: "+0 ns" }).count(), 0);
  assert.equal(await page.locator("#builds tbody tr").count(), 2, "curves of one system share its index");
  assert.match(await page.textContent("#headline"), /hmann graph, 75 B, emulated \+300 ns is 4\.00× \(±.0\.01\) as fast as HNSW all slow, emulated \+300 ns \(hnswlib 0\.6\.2, float\) at recall 0\.95/);
  assert.deepEqual(problems, []);
});

test("on a disk: counts of each recall, the disk by itself and the memory", async () => {
  const [hmann, hnsw] = structuredClone(results.systems);
  Object.assign(hmann, { name: "hmann, 1 thread", waits: true });
  Object.assign(hmann.targets[0], { mean_us: 1250, p99_us: 2500, cpu_us: 310, node_reads: 40, node_bytes: 12800, hops: 9, io_reads: 38, blocks: 37.5, disk_share: 0.5, of_limit: 0.81 });
  Object.assign(hmann.targets[1], { qps: null, ratio: null });
  const depths = [1, 64].map((depth) => ({ depth, iops: 1000 * depth, mean_us: 41 }));
  const disk = { measured: [{ path: "/sweep/x.index", tier: "nvme", depths, data: 1234567, system: "hmann" }], most_iops: 60000,
    memory: { systems: [{ system: "hmann", index_file: "/sweep/x.index", index_file_bytes: 2 ** 28, limit_bytes: 2 ** 27, loaded_bytes: 2 ** 25, peak_bytes: 2 ** 26 }] } };
  await show(web.fill("report.html", { ...results, systems: [hmann, hnsw], disk, shapes: [[1, 1]] }, join(folder, "disk.html")));
  assert.match(await page.textContent("#subtitle"), /closed loop/);
  assert.match(await page.textContent("#disk-note"), /128.0 MiB of memory.*60,000 reads per second/);
  assert.deepEqual(await page.locator("#disk h3").allTextContents(), ["4 KiB reads at random, x.index through tier nvme", "Memory"]);
  const cells = (host, table, line) => page.locator(`${host} table`).nth(table).locator("tbody tr").nth(line).locator("th, td").allTextContents();
  assert.deepEqual((await cells("#rows", 0, 0)).slice(3), ["1,250", "2,500", "310", "40", "12,800", "9", "38", "37.5", "81 %", "50 %"]);
  assert.match((await cells("#rows", 1, 0))[1], /not reached/);
  assert.deepEqual(await cells("#disk", 0, 0), ["reads per second", "1,000", "64,000"]);
  assert.deepEqual(await cells("#disk", 1, 0), ["hmann", "256.0 MiB", "128.0 MiB", "32.0 MiB", "64.0 MiB"]);
  assert.deepEqual(problems, []);
});

/** Four sizes, the last one synthetic, on two tiers. */
function makeGrowth() {
  const sizes = [10000, 100000, 1000000, 10000000];
  const systems = sizes.flatMap((n) => ["dram", "nvme"].map((tier) => {
    const one = structuredClone(results.systems[0]), name = `43 B, ${tier}, quantized`;
    Object.assign(one, { name: `${name}, 1 thread`, curve: name, system: `43 B, ${tier}`, data: n, synthetic: n > 1e6, noisy: 0, structure: "2.8 % promoted, 2 bits <b>", peak_anonymous_bytes: n * 300, work_bytes: 0 });
    for (const at of one.targets) Object.assign(at, { node_reads: 10 + 2 * Math.log10(n), io_reads: tier === "nvme" ? 8 : 0, hops: 2, distances: 1000 });
    if (n < 1e6) Object.assign(one.targets[0], { at_recall: 0.93 });
    return one;
  }));
  return { ...results, title: "Growth over sizes: base.u8bin", reference: null, systems, shapes: [[1, 1]], noise: [], sizes: sizes.map((n) => ({ data: n, synthetic: n > 1e6, queries: 600 })) };
}

test("several sizes: growth with its fits, and each size by itself", async () => {
  await show(web.fill("report.html", makeGrowth(), join(folder, "growth.html")));
  await page.waitForSelector("#growth canvas");
  assert.match(await page.textContent("#made-up"), /^Made-up vectors and queries, resampled from the real ones: 10,000,000\.$/);
  const tip = await web.hoverUntil(page, "#growth", "10,000,000, synthetic");
  assert.ok(tip, "no position of the mouse shows the largest size");
  assert.match(tip, /node reads.*at recall 0\.95/s);
  const cells = (line) => page.locator("#fits tbody tr").nth(line).locator("th, td").allTextContents();
  const [name, sizes, slope, power, residual, , extrapolated] = await cells(0);
  assert.deepEqual([name, sizes, slope, residual, extrapolated], ["43 B, dram, quantized", "4 (1)", "2.00", "0.0 %", "28 ± 0"], "a logarithm is read as one");
  assert.ok(Number(power) > 0.03 && Number(power) < 0.05, power);
  assert.match((await cells(3)).join(), /43 B, dram, build: peak anonymous bytes,4 \(1\).*,1\.000,.*,300,000,000,000 × or ÷ 1$/, "a power of n, too");
  assert.match((await page.locator("#rows tbody tr").first().allTextContents())[0], /43 B, dram, quantized, 1 thread, 10,000,000, synthetic/);
  await page.locator("#sizes label", { hasText: /^10,000$/ }).click();
  assert.match((await page.locator("#targets tbody tr").first().allTextContents())[0], /, 10,0002,469\*/, "the lowest recall measured lies above");
  await page.locator("#figures label", { hasText: "I/Os" }).click();
  assert.equal(await pixelsOf("#growth", await colorOf("--c-0")), 0, "no I/Os in DRAM");
  assert.equal(await page.locator("#fits tbody tr", { hasText: "dram, quantized" }).count(), 0, "nothing was fitted to I/Os in DRAM");
  await page.focus("#growth");
  await page.keyboard.press("ArrowRight");
  assert.match(await page.textContent("#growth-spoken"), /43 B, nvme, quantized, 10,000, 8 I\/Os/);
  await page.keyboard.press("Escape");
  assert.match(await page.textContent("#builds"), /2\.8 % promoted, 2 bits <b>/);
  assert.deepEqual(problems, []);
});

test("two sizes grow, but nothing is extrapolated from them", async () => {
  const growth = makeGrowth(), two = growth.sizes.slice(0, 2);
  const systems = growth.systems.filter((row) => two.some((size) => size.data === row.data));
  for (const row of systems) Object.assign(row, { build_cpu_seconds: row.data === 10000 ? 9 : 1 });
  await show(web.fill("report.html", { ...growth, sizes: two, systems }, join(folder, "two.html")));
  assert.deepEqual(await page.locator("#fits thead th").allTextContents(), ["node reads at recall 0.95", "sizes (synthetic)", "a decade adds", "grows as n to the"]);
  assert.doesNotMatch(await page.textContent("#fits"), /extrapolated|billion/);
  assert.match(await page.textContent("#fits-note"), /nothing is extrapolated/);
  assert.deepEqual(problems, []);
});

test("one round has no deviation", async () => {
  await show(web.fill("report.html", { ...results, rounds: 1 }, join(folder, "one.html")));
  for (const part of ["#headline", "#targets tbody", "#rows", "#points"]) assert.doesNotMatch(await page.textContent(part), /±/, part);
});

/** Results that fill every column of every table, with names as long as those of `hmann eval tiers`. */
function makeWide() {
  const wide = makeGrowth(), long = "HNSW fast upper layers, neighbors fetched at once, emulated +300 ns";
  for (const row of wide.systems) {
    Object.assign(row, { name: `${long}, 2 threads, 8 in flight`, curve: long, fast_bytes: 75.5 * row.data, noisy: 12, phases: { lead: 0.034, "leaders by node": 0.0066, join: 1, "merge backbone": 2, "self-recall": 3 } });
    for (const at of row.targets) {
      Object.assign(at, { ratio: 12.3, of_all_dram: 0.21, of_without_latency: 1.04, mean_us: 10369, p99_us: 115000, cpu_us: 1234, distances: 12345, estimates: 12345, node_reads: 12345, node_bytes: 1234567,
        hops: 379, io_reads: 1234, blocks: 1234, lines: 116311, of_limit: 0.5, disk_share: 0.5 });
    }
  }
  const depths = [1, 2, 4, 8, 16, 32, 64].map((depth) => ({ depth, iops: 120460 * depth, mean_us: 531 }));
  const load = [1000, 100000].map((rate) => ({ system: "sample at 127.0.0.1:50051", setting: { mode: "quantized", ef_l1: 16 }, round: 0, rate, batch: 16, offered: 10 * rate, answered: 10 * rate - 7, queries_per_second: rate, p50_us: 123456,
    p90_us: 123456, p99_us: 123456, p999_us: 123456, max_us: 123456, client_cpu_us: 123456, server_cpu_us: 123456, failed: { DEADLINE_EXCEEDED: 7, RESOURCE_EXHAUSTED: 3 }, noisy: true }));
  return { ...wide, load, disk: { measured: [{ path: "/x.index", tier: "nvme", depths, data: 10000, system: "hmann" }], most_iops: 1e6,
    memory: { systems: [{ system: long, data: 10000, index_file_bytes: 2 ** 40, limit_bytes: 2 ** 30, loaded_bytes: 2 ** 30, peak_bytes: 2 ** 30 }] } } };
}

/** Tables and charts of which something lies outside the page, or is scrolled out of sight. */
const cut = () => page.evaluate(() => [...document.querySelectorAll(".scroll, .scroll table, #rows table, .chart canvas")].filter((part) =>
  (part.className === "scroll" && part.scrollWidth > part.clientWidth) || part.getBoundingClientRect().right > innerWidth).map((part) => `${part.tagName} ${part.id} ${part.textContent.slice(0, 40)} ${part.scrollWidth} in ${part.clientWidth}`));

test("nothing is cut in a window of 1,280 pixels", async () => {
  await page.setViewportSize({ width: 1280, height: 900 });
  await show(web.fill("report.html", makeWide(), join(folder, "wide.html")));
  await page.locator("summary").click();
  assert.deepEqual(await cut(), []);
  assert.equal(await page.locator("#rows table").first().locator("thead th").count(), 19, "every column is there");
  assert.equal(await page.evaluate(() => document.documentElement.scrollWidth), 1280);
});

test("on paper nothing is cut, folded away or dark", async () => {
  await page.evaluate(() => {
    document.getElementById("all").open = false;
    addEventListener("beforeprint", () => { window.onPaper = { open: document.getElementById("all").open, paper: getComputedStyle(document.documentElement).getPropertyValue("--paper").trim() }; });
  });
  const pdf = await page.pdf({ format: "Letter", preferCSSPageSize: true });
  const [, width, height] = /MediaBox \[0 0 ([\d.]+) ([\d.]+)\]/.exec(pdf.toString("latin1")).map(Number);
  assert.ok(width > height, `a page of ${width} x ${height} lies on its side`);
  assert.deepEqual(await page.evaluate(() => window.onPaper), { open: true, paper: "#fff" }, "the reader's scheme is dark");
  assert.equal(await page.evaluate(() => document.getElementById("all").open), false, "the screen is as it was");
  await page.emulateMedia({ media: "print" });
  await page.setViewportSize({ width: Math.floor((11 - 20 / 25.4) * 96), height: 740 });  // letter, less the margins
  assert.deepEqual(await cut(), []);
  for (const hidden of [".controls", ".save"]) assert.equal(await page.locator(hidden).first().isVisible(), false, hidden);
  await page.emulateMedia({ media: "screen" });
  await page.setViewportSize({ width: 1100, height: 900 });
  assert.deepEqual(problems, []);
});

/** What the reader's browser saves after a click. */
async function saved(button) {
  const [download] = await Promise.all([page.waitForEvent("download"), page.click(button)]);
  return { name: download.suggestedFilename(), text: readFileSync(await download.path(), "utf8") };
}

test("buttons save the settings shown, and all figures", async () => {
  await show(address);
  const lines = async () => (await saved("#csv")).text.trimEnd().split("\n").map((line) => line.split(","));
  const [keys, ...rows] = await lines();
  assert.deepEqual(keys, ["system", "vectors", "mode", "ef_l1", "ef_l0", "recall", "qps", "qps_mad", "front", "distances_fast", "distances_slow", "node_reads", "ef"]);
  assert.equal(rows.length, await page.locator("#points tbody tr").count());
  const row = Object.fromEntries(keys.map((key, i) => [key, rows.find((one) => one[0] === "hmann" && one[4] === "30")[i]]));
  const point = results.systems[0].points[2];
  assert.deepEqual([Number(row.qps), Number(row.recall), row.mode, row.node_reads, row.front, row.ef], [point.qps, point.recall, "graph", "152", "true", ""], "unrounded");
  await page.locator("#legend button", { hasText: /^hnswlib$/ }).click();
  assert.equal((await lines()).filter(([system]) => system === "hnswlib").length, 0, "as shown");
  await page.locator("#legend button", { hasText: /^hnswlib$/ }).click();
  const { name, text } = await saved("#json");
  assert.equal(name, "report.json");
  assert.deepEqual(JSON.parse(text), results);
  await show(web.fill("report.html", makeWide(), join(folder, "wide.html")));
  assert.match((await saved("#csv")).text, /,"\{""DEADLINE_EXCEEDED"":7,""RESOURCE_EXHAUSTED"":3\}"$/m, "of a load, its requests");
  assert.deepEqual(problems, []);
});

test("the command that measured it is shown, of several files each", async () => {
  await show(address);
  assert.equal(await page.textContent("#environment code"), results.environment.command);
  const merged = ["a", "b"].map((file) => ({ file: `${file}/results.jsonl`, environment: { ...results.environment, command: `hmann eval sweep --out ${file}` } }));
  await show(web.fill("report.html", { ...results, merged }, join(folder, "merged.html")));
  assert.deepEqual(await page.locator("#environment code").allTextContents(), ["hmann eval sweep --out a", "hmann eval sweep --out b"]);
  assert.equal(await page.isVisible("#ratio-section"), false, "rounds of two files have no ratio");
  assert.match(await page.textContent("#environment"), /command, b\/results\.jsonl, 2026-01-02T03:04:05Z/);
});

test("load: latency over the rate, and what failed", async () => {
  const load = [100, 1000].map((rate) => ({ system: "sift at 127.0.0.1:1", place: { server: "127.0.0.1:1" }, setting: {}, round: 0, rate, batch: 1, offered: 10 * rate, answered: 10 * rate - 7, queries_per_second: rate, p50_us: 100 + rate,
    p90_us: 300 + rate, p99_us: 900 + rate, p999_us: 2000 + rate, max_us: 9000, client_cpu_us: 50, failed: { DEADLINE_EXCEEDED: 7 }, noisy: rate === 1000 }));
  const { n, metric, base, ...data } = results.data;
  await page.goto(web.fill("report.html", { ...results, title: "Load: query.u8bin", data, systems: [], targets: [], reference: null, noise: [], quiet: { runs: 2, noisy: 1, busy: null, steal: null }, load }, join(folder, "load.html")));
  await page.waitForSelector("#load canvas");
  assert.equal(await page.isVisible("#curves-section"), false);
  for (const name of ["--c-hmann", "--c-hnswlib", "--c-faiss"]) assert.ok(await pixelsOf("#load", await colorOf(name)) > 60, name);
  assert.match((await page.locator("#load-table tbody tr").nth(1).allTextContents())[0], /sift at 127\.0\.0\.1:111,00019,993 of 10,000.*7 DEADLINE_EXCEEDEDdisturbed/);
  assert.match(await page.textContent("#quiet"), /1 of 2 runs were disturbed/);
  assert.deepEqual(problems, []);
  await show(address);
});

test("the paper's claims: a verdict each, and what it rests on", async () => {
  const claims = ["held", "not held"].map((verdict, i) => ({ claim: `3.${i + 2}`, paper: "as fast as HNSW", ran: "one thread", figure: `${i + 1}.5x`, verdict, varied: "k and M",
    tables: [{ title: "Distances", head: ["system", "at 0.95"], rows: [["HNSW", "900"], ["HM-ANN", String(850 + i)]] }] }));
  await page.goto(web.fill("report.html", { ...results, title: "Claims", systems: [], targets: [], reference: null, noise: [], claims }, join(folder, "claims.html")));
  assert.match(await page.locator("#verdicts").textContent(), /^1 held, 1 not held[.]/);
  assert.deepEqual(await page.locator("#claims-table tbody tr").allTextContents(), ["3.2as fast as HNSW1.5xheld", "3.3as fast as HNSW2.5xnot held"]);
  const second = page.locator("#claims details").nth(1);
  assert.equal(await second.locator("table").isVisible(), false);
  await second.locator("summary").click();
  assert.match(await second.locator("tbody tr").nth(1).textContent(), /HM-ANN851/);
  assert.match(await second.textContent(), /rules out: k and M/);
});

test("runbooks: time per query over the steps, and recall of each", async () => {
  const steps = ["delete", "window"].flatMap((system) => [9, 18].map((step) => ({ system, step, vectors: 1000 * step, target: 0.95, recall: 0.99 - step / 1000, qps: 20000 - 100 * step, others_busy: 0, others_steal: 0 })));
  const runbooks = ["delete", "window"].map((system) => ({ system, target: 0.95, recall: 0.9765, least_recall: 0.972, update_seconds: 3, search_seconds: 1.5, merges: 2, peak_anonymous_bytes: 2 ** 28 }));
  await page.goto(web.fill("report.html", { ...results, title: "Vectors that come and go", systems: [], targets: [], reference: null, noise: [], steps, runbooks }, join(folder, "runbook.html")));
  await page.waitForSelector("#steps canvas");
  assert.equal(await page.isVisible("#curves-section"), false);
  for (const name of ["--c-hmann", "--c-hnswlib"]) assert.ok(await pixelsOf("#steps", await colorOf(name)) > 60, name);
  assert.match((await page.locator("#runbooks-table tbody tr").nth(0).allTextContents())[0], /delete0\.950\.97650\.97203 s1\.5 s2256/);
  assert.match((await page.locator("#steps-table tbody tr").nth(3).allTextContents())[0], /window1818,0000\.9720/);
  assert.deepEqual(problems, []);
  await show(address);
});

test("a narrow window scrolls tables, not the page", async () => {
  await page.setViewportSize({ width: 400, height: 800 });
  await page.waitForTimeout(200);
  assert.ok(await page.evaluate(() => document.documentElement.scrollWidth <= window.innerWidth));
  assert.deepEqual(problems, []);
});
