// The page of `hmann tune` in a real browser.
//   node --test tuning_page_test.mjs     with the environment that browser.mjs wants
import assert from "node:assert/strict";
import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { after, before, test } from "node:test";
import * as web from "./browser.mjs";

const FATES = ["dropped", "seed", "kept", "finalist"];

/** A table of 40 made-up settings; `tuned` as `hmann tune --json --settings` has it. */
function makeTable(slow, withCheck) {
  const settings = Array.from({ length: 40 }, (_, i) => {
    const fate = FATES[i % 4], us = 20 * 1.12 ** i, recall = 1 - 0.4 * 0.9 ** i;
    const measured = fate === "dropped" ? {} : { mean_us: us, recall, ...(fate === "finalist" ? { recall_low: recall - 0.002 } : {}) };
    const checked = withCheck ? { test_mean_us: 1.02 * us, test_recall: recall } : {};
    return { walk: "quantised", ef_l1: 16, ef_l0: 10 + i, nprobe: 0, beam_width: 8, epsilon: 0.2, prefetch: "ahead", fate, predicted_us: us * (i % 2 ? 1.1 : 0.95), predicted_recall: recall, ...measured,
      paper_us: us * 1.6, ...checked, front: fate === "finalist" && i > 10, chosen: i === 23 ? [{ recall: 0.95 }] : i === 15 ? [{ latency_us: 120 }] : [] };
  });
  const choices = [23, 15].map((i) => ({ target: settings[i].chosen[0], met: true, ...settings[i] }));
  const error = (median) => ({ median, p95: 2 * median, worst: 4 * median });
  const check = { held_out: 10, model_error: error(0.061), drift: 0.01, model_error_less_drift: error(0.05), paper_model_error: error(0.31), same_again: error(0.04), pruned: 0.25,
    choices: [{ target: { recall: 0.95 }, chosen: settings[23], test_recall: 0.961, test_mean_us: 271, best: settings[22], best_recall: 0.951, best_mean_us: 260, regret: 0.0423 },
      { target: { latency_us: 120 }, chosen: settings[15], test_recall: 0.91, test_mean_us: 111 }] };
  return { k: 10, fast: "dram", slow, cache: "none", seconds: 12.5, learning_queries: 1500, origin: "query <b>.u8bin", grid: 40, run: 30, choices, front: [], settings, ...(withCheck ? { check } : {}) };
}

const results = { title: "Tuned: a.hmann", table: "a.hmann.tuned", dials: ["walk", "ef_l1", "ef_l0", "nprobe", "beam_width", "error_bound", "epsilon", "prefetch", "query_threads"],
  tuned: [makeTable("nvme", true), makeTable("dram", false)],
  index: { path: "/data/a.hmann", n: 1234567, dim: 128, dtype: "u8", metric: "l2", file_bytes: 2 ** 29 },
  environment: { cpu: "Test CPU", cores: 2, simd: "avx512", governor: "performance", huge_pages: "madvise", kernel: "Linux 6.1 x86_64", system: "Debian", memory_bytes: 2 ** 34,
    compiler: "g++ 12.2.0", load: 0.1, time: "2026-01-02T03:04:05Z" } };

let folder, browser, page;
const problems = [], requests = [];
const pixelsOf = async (chart, name) => web.pixelsOf(page, chart, await web.colourOf(page, name));

before(async () => {
  folder = mkdtempSync(join(tmpdir(), "hmann-tuning-page-test-"));
  browser = await web.launch();
  page = await web.openTab(browser, { problems, requests });
  await page.goto(web.fill("tuning_report.html", results, join(folder, "tuned.html")));
  await page.waitForSelector("#settings canvas");
});

after(async () => {
  if (browser) await browser.close();
  rmSync(folder, { recursive: true, force: true });
});

test("the page loads without an error, a warning or a request, and says what was tuned", async () => {
  assert.deepEqual(problems, []);
  assert.equal(requests.filter((url) => !url.startsWith("data:")).length, 1);
  assert.equal(await page.textContent("h1"), "Tuned: a.hmann");
  assert.match(await page.textContent("#subtitle"), /1,234,567 vectors of 128 × u8, l2; k = 10.*L0 on nvme.*1,500 queries \(query <b>\.u8bin\)/);
  assert.match(await page.textContent("#headline"), /30 of 40 settings were run \(25\.0 % were not\); times of the others, predicted, are off by 5\.0 % \(median\)/);
  assert.match(await page.textContent("#environment"), /Test CPU.*avx512.*\/data\/a\.hmann/s);
});

test("all settings, those kept and those chosen are drawn, each kind in its colour", async () => {
  for (const colour of ["--c-4", "--c-hnswlib", "--c-hmann", "--c-faiss", "--c-1"]) {
    assert.ok(await pixelsOf("#settings", colour) > 40, `${colour} among all settings`);
    assert.ok(await pixelsOf("#model", colour) > 10, `${colour} in predicted against measured`);
  }
});

test("the mouse over a chosen setting says for what, and how it was predicted", async () => {
  const tip = await web.hoverUntil(page, "#settings", "for recall 0.95");
  assert.ok(tip, "no position of the mouse shows the choice for recall 0.95");
  assert.match(tip, /^chosen/);
  assert.match(tip, /quantised, ef_l1 16, ef_l0 33, nprobe 0, beam_width 8, epsilon 0\.2, prefetch ahead/);
  assert.match(tip, /predicted 298 µs.*by Equation 3\.1 434 µs/s);
  await page.mouse.move(2, 2);
});

test("a click on its name hides a kind of settings in both charts", async () => {
  const chip = page.locator("#legend button", { hasText: "kept by the model" });
  await chip.click();
  assert.equal(await chip.getAttribute("aria-pressed"), "false");
  assert.equal(await pixelsOf("#settings", "--c-hmann"), 0);
  assert.equal(await pixelsOf("#model", "--c-hmann"), 0);
  await chip.click();
  assert.ok(await pixelsOf("#model", "--c-hmann") > 10);
});

test("Equation 3.1 can be drawn instead of the model", async () => {
  const picture = () => page.evaluate(() => document.querySelector("#model canvas").toDataURL());
  const before = await picture();
  await page.locator("#models label", { hasText: "Equation 3.1" }).click();
  assert.notEqual(await picture(), before);
  await page.locator("#models label", { hasText: "the model" }).click();
  assert.equal(await picture(), before);
});

test("tables: choices with their regret, errors of the models beside the noise", async () => {
  const cells = (host, line) => page.locator(`${host} tbody tr`).nth(line).locator("th, td").allTextContents();
  assert.deepEqual(await cells("#choices", 0), ["recall 0.95", "quantised, ef_l1 16, ef_l0 33, nprobe 0, beam_width 8, epsilon 0.2, prefetch ahead", "0.9645", "271", "298", "0.9610", "271", "quantised, ef_l1 16, ef_l0 32, nprobe 0, beam_width 8, epsilon 0.2, prefetch ahead", "4.2 %"]);
  assert.deepEqual((await cells("#choices", 1)).slice(-2), ["none meets it", ""]);
  assert.deepEqual(await cells("#errors", 2), ["Equation 3.1", "31.0 %", "62.0 %", "124.0 %"]);
  assert.match((await cells("#errors", 3)).join(), /against itself.*4\.0 %,8\.0 %,16\.0 %/);
  assert.equal(await page.locator("#all tbody tr").count(), 40);
});

test("arrow keys walk along a curve and speak", async () => {
  await page.focus("#settings");
  await page.keyboard.press("ArrowRight");
  assert.match(await page.textContent("#spoken"), /recall 0\.\d+, \d.* µs/);
  await page.keyboard.press("Escape");
});

test("another table, without a check, draws predictions where nothing was measured", async () => {
  await page.locator("#tables label", { hasText: "dram, k = 10" }).click();
  assert.match(await page.textContent("#settings-note"), /the others as predicted/);
  assert.match(await page.textContent("#headline"), /\(25\.0 % were not\)\.$/);
  assert.equal(await page.locator("#errors table").count(), 0);
  assert.equal(await web.hoverUntil(page, "#model", "dropped by the model"), null, "what was never run has no measured time");
  assert.ok(await pixelsOf("#settings", "--c-4") > 40);
  assert.deepEqual(problems, []);
});

test("a narrow window scrolls tables, not the page", async () => {
  await page.setViewportSize({ width: 400, height: 800 });
  await page.waitForTimeout(200);
  assert.ok(await page.evaluate(() => document.documentElement.scrollWidth <= window.innerWidth));
  assert.deepEqual(problems, []);
});
