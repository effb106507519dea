// Makes the report page: inlines uPlot, our script and style into page.html.
//   node build.mjs MODULES OUT.html OUT.cc
// MODULES: the node_modules that npm ci has filled. OUT.html keeps the mark for the results; OUT.cc holds the same bytes for the program.
import { createHash } from "node:crypto";
import { readFileSync, writeFileSync } from "node:fs";
import { dirname, join } from "node:path";
import { fileURLToPath } from "node:url";

const here = dirname(fileURLToPath(import.meta.url));
const [modules, htmlPath, ccPath] = process.argv.slice(2);
if (!ccPath) {
  console.error("usage: node build.mjs MODULES OUT.html OUT.cc");
  process.exit(2);
}
const own = (name) => readFileSync(join(here, name), "utf8");
const library = (name) => readFileSync(join(modules, "uplot", "dist", name), "utf8");

const licence = readFileSync(join(modules, "uplot", "LICENSE"), "utf8").replace(/\*\//g, "");
const parts = {
  STYLE: `${library("uPlot.min.css")}\n${own("page.css")}`,
  CHARTS: `/* uPlot\n${licence}*/\n${library("uPlot.iife.min.js")}`,
  SCRIPT: `(() => {\n"use strict";\n${own("curves.js")}\n${own("charts.js")}\n${own("tiers.js")}\n${own("disk.js")}\n${own("page.js")}\n})();`,
};
for (const [name, text] of Object.entries(parts)) {
  if (/<\/(script|style)|<!--/i.test(text)) throw new Error(`${name} would end its own element`);
}
const hash = (text) => `'sha256-${createHash("sha256").update(text).digest("base64")}'`;
// Nothing is loaded and nothing but these very scripts runs.
parts.CSP = `default-src 'none'; script-src ${hash(parts.CHARTS)} ${hash(parts.SCRIPT)}; style-src ${hash(parts.STYLE)}; base-uri 'none'; form-action 'none'`;

const page = own("page.html").replace(/@@(CSP|STYLE|CHARTS|SCRIPT)@@/g, (_, name) => parts[name]);
if (!page.includes("@@HMANN_RESULTS@@")) throw new Error("page.html has no place for the results");
writeFileSync(htmlPath, page);

const delimiter = "hmann_page";
if (page.includes(`)${delimiter}"`)) throw new Error("the page holds the delimiter of the C++ literal");
// The compiler sets no limit to the whole, but pieces keep its diagnostics and editors alive.
const pieces = page.match(/[\s\S]{1,8000}/g).map((piece) => `R"${delimiter}(${piece})${delimiter}"`);
writeFileSync(ccPath, `#include "eval/report_template.h"

namespace hmann {

std::string_view ReportTemplate() {
  static constexpr char kPage[] =
${pieces.join("\n")};
  return {kPage, sizeof kPage - 1};
}

}  // namespace hmann
`);
