// SPDX-License-Identifier: Apache-2.0
//
// node guide_test.mjs SITE [PICTURES]: the built guide in Chromium. No page requests anything that is not a file of the guide,
// none has an error, none is wider than a phone, and the search finds words of the manual, the header and the guide.
// With PICTURES, a folder, it only takes pictures of some pages, to look at.
import { mkdirSync, readdirSync } from "node:fs";
import { join, resolve } from "node:path";
import { pathToFileURL } from "node:url";
import { launch } from "../browser/browser.mjs";

const PATIENCE_MS = 20_000;
const WIDE = { width: 1280, height: 900 };
const PHONE = { width: 390, height: 844 };
const SEARCHES = { "max_file_bytes": "cep_options", straggler: "Reading a verdict", cep_begin_with: "The C header" };
const PICTURES = ["index", "quickstart", "verdict", "method", "faq", "slurm", "reference/header", "reference/manual/cep-summarize-1", "frameworks"];

const [site, pictures] = process.argv.slice(2).map((path) => resolve(path));
const root = pathToFileURL(site).href + "/";
const browser = await launch();

/** Opens a page of the guide and calls body(page); throws for each request elsewhere and each error. */
async function withPage(name, options, body) {
  const context = await browser.newContext(options);
  try {
    const page = await context.newPage();
    page.setDefaultTimeout(PATIENCE_MS);
    const faults = [];
    page.on("request", (request) => {
      if (!request.url().startsWith(root) && !request.url().startsWith("data:")) faults.push(`requests ${request.url()}`);
    });
    page.on("requestfailed", (request) => faults.push(`cannot load ${request.url()}`));
    page.on("pageerror", (error) => faults.push(`error: ${error.message} ${error.stack}`));
    await page.goto(root + name);
    await body(page);
    if (faults.length) throw new Error(`${name}: ${faults.join("\n")}`);
  } finally {
    await context.close();
  }
}

/** All pages of the guide, by name. */
function pages() {
  return readdirSync(site, { recursive: true }).filter((name) => name.endsWith(".html") && !name.startsWith("_"));
}

async function checkWidth(page) {
  const [content, window] = await page.evaluate(() => [document.documentElement.scrollWidth, innerWidth]);
  if (content > window) throw new Error(`${page.url()}: ${content} pixels wide in a window of ${window}`);
}

async function checkSearch(words, title) {
  await withPage(`search.html?q=${words}`, { viewport: WIDE }, async (page) => {
    await page.waitForSelector(`#search-results li:has-text("${title}")`);
  });
  console.log(`search: ${words}`);
}

async function takePictures() {
  mkdirSync(pictures, { recursive: true });
  for (const name of PICTURES) {
    for (const [size, viewport] of Object.entries({ wide: WIDE, phone: PHONE })) {
      for (const colorScheme of ["light", "dark"]) {
        const path = join(pictures, `${name.replaceAll("/", "-")}-${size}-${colorScheme}.png`);
        await withPage(`${name}.html`, { viewport, colorScheme }, (page) => page.screenshot({ path }));
        console.log(path);
      }
    }
  }
}

try {
  if (pictures) {
    await takePictures();
  } else {
    for (const name of pages()) await withPage(name, { viewport: PHONE }, checkWidth);
    console.log(`${pages().length} pages`);
    for (const [words, title] of Object.entries(SEARCHES)) await checkSearch(words, title);
  }
} finally {
  await browser.close();
}
