// Shared by the page tests: a real browser that opens the pages from file:// without network.
// Environment: REPORT_PAGES (folder of the built pages), NODE_MODULES (with playwright-core) and CHROMIUM.
import { readFileSync, writeFileSync } from "node:fs";
import { createRequire } from "node:module";
import { join } from "node:path";
import { pathToFileURL } from "node:url";

const { chromium } = createRequire(join(process.env.NODE_MODULES, "x.js"))("playwright-core");

export function launch() {
  return chromium.launch({ executablePath: process.env.CHROMIUM || "/usr/bin/chromium", chromiumSandbox: false,
    args: ["--disable-gpu", "--disable-quic", "--no-first-run", "--disable-background-networking", "--disable-component-update", "--disable-sync"] });
}

/** Writes the built page `template` with `data` in it and returns its address. */
export function fill(template, data, file) {
  const html = readFileSync(join(process.env.REPORT_PAGES, template), "utf8");
  writeFileSync(file, html.replace("@@HMANN_RESULTS@@", () => JSON.stringify(data).replaceAll("<", "\\u003c")));
  return pathToFileURL(file).href;
}

/** Opens a tab in its own context. Its complaints and requests go to `problems` and `requests`. */
export async function openTab(browser, { problems, requests }, colorScheme = "light") {
  const context = await browser.newContext({ viewport: { width: 1100, height: 900 }, colorScheme, offline: true });
  const page = await context.newPage();
  page.on("console", (message) => {
    const ours = message.text().includes("getImageData");  // because the tests read back the canvas
    if (["error", "warning"].includes(message.type()) && !ours) problems.push(message.text());
  });
  page.on("pageerror", (error) => problems.push(String(error)));
  page.on("request", (request) => requests.push(request.url()));
  return page;
}

/** The number of pixels of a chart whose color is close to "#rrggbb". */
export function pixelsOf(page, chart, color) {
  return page.evaluate(({ chart, color }) => {
    const canvas = document.querySelector(`${chart} canvas`);
    const { data } = canvas.getContext("2d").getImageData(0, 0, canvas.width, canvas.height);
    const wanted = [1, 3, 5].map((i) => parseInt(color.slice(i, i + 2), 16));
    let count = 0;
    for (let i = 0; i < data.length; i += 4) count += data[i + 3] > 200 && wanted.every((value, c) => Math.abs(data[i + c] - value) < 6);
    return count;
  }, { chart, color });
}

export function colorOf(page, name) {
  return page.evaluate((name) => getComputedStyle(document.documentElement).getPropertyValue(name).trim(), name);
}

/** Moves the mouse over the chart until its box contains the wanted text. Returns the box's text, or null. */
export async function hoverUntil(page, chart, want) {
  const over = await page.$(`${chart} .u-over`);
  await over.scrollIntoViewIfNeeded();
  const box = await over.boundingBox();
  for (let y = 4; y < box.height; y += 12) {
    for (let x = 4; x < box.width; x += 12) {
      await page.mouse.move(box.x + x, box.y + y);
      const text = await page.evaluate((chart) => { const tip = document.querySelector(`${chart} .tip`); return tip.hidden ? "" : tip.innerText; }, chart);
      if (text.includes(want)) return text;
    }
  }
  return null;
}
