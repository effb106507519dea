// Builds the report pages: inlines uPlot, our scripts and our style into page.html.
//   node build.mjs MODULES FOLDER
// MODULES: the node_modules filled by npm ci. FOLDER receives a page of each kind, which keeps the mark for the results, and
// a .cc with a function that returns the same bytes.
import { createHash } from "node:crypto";
import { readFileSync, writeFileSync } from "node:fs";
import { dirname, join } from "node:path";
import { fileURLToPath } from "node:url";

const pages = {
  BenchmarkPage: { file: "report.html", source: "benchmark_page.cc", main: "benchmark.html", scripts: ["dom.js", "curves.js", "charts.js", "tables.js", "series.js", "page.js"] },
};

const here = dirname(fileURLToPath(import.meta.url));
const [modules, folder] = process.argv.slice(2);
if (!folder) {
  console.error("usage: node build.mjs MODULES FOLDER");
  process.exit(2);
}
const own = (name) => readFileSync(join(here, name), "utf8");
const library = (name) => readFileSync(join(modules, "uplot", "dist", name), "utf8");
const license = readFileSync(join(modules, "uplot", "LICENSE"), "utf8").replace(/\*\//g, "");
const hash = (text) => `'sha256-${createHash("sha256").update(text).digest("base64")}'`;

function makePage({ main, scripts }) {
  const parts = {
    STYLE: `${library("uPlot.min.css")}\n${own("page.css")}`,
    CHARTS: `/* uPlot\n${license}*/\n${library("uPlot.iife.min.js")}`,
    SCRIPT: `(() => {\n"use strict";\n${scripts.map(own).join("\n")}\n})();`,
  };
  for (const [name, text] of Object.entries(parts)) {
    if (/<\/(script|style)|<!--/i.test(text)) throw new Error(`${name} would end its own element`);
  }
  // The page loads nothing, and runs only these very scripts.
  parts.CSP = `default-src 'none'; script-src ${hash(parts.CHARTS)} ${hash(parts.SCRIPT)}; style-src ${hash(parts.STYLE)}; base-uri 'none'; form-action 'none'`;
  parts.MAIN = own(main).trimEnd();
  const page = own("page.html").replace(/@@(CSP|STYLE|CHARTS|SCRIPT|MAIN)@@/g, (_, name) => parts[name]);
  if (!page.includes("@@HMANN_RESULTS@@")) throw new Error("page.html has no place for the results");
  return page;
}

const delimiter = "hmann_page";
function asFunction(name, page) {
  if (page.includes(`)${delimiter}"`)) throw new Error("the page holds the delimiter of the C++ literal");
  // The compiler does not limit the whole, but pieces spare its diagnostics and editors.
  const pieces = page.match(/[\s\S]{1,8000}/g).map((piece) => `R"${delimiter}(${piece})${delimiter}"`);
  return `std::string_view ${name}() {
  static constexpr char kPage[] =
${pieces.join("\n")};
  return {kPage, sizeof kPage - 1};
}
`;
}

for (const [name, kind] of Object.entries(pages)) {
  const page = makePage(kind);
  writeFileSync(join(folder, kind.file), page);
  writeFileSync(join(folder, kind.source), `#include "eval/report/pages.h"

namespace hmann::eval {

${asFunction(name, page)}
}  // namespace hmann::eval
`);
}
