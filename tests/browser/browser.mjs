// SPDX-License-Identifier: Apache-2.0
//
// Chromium with a page of `cep report` in it. Everything that the page must never do is noted: errors, requests, dialogs.
import { existsSync } from "node:fs";
import { pathToFileURL } from "node:url";

const SKIPPED = 77;
const PATIENCE_MS = 10_000;
const PROGRAMS = ["/usr/bin/chromium", "/usr/bin/chromium-browser", "/usr/bin/google-chrome"];

function skip(reason) {
  console.log(`skipped: ${reason}`);
  process.exit(SKIPPED);
}

/** The browser; ends the program with 77 where there is none. */
export async function launch() {
  const executablePath = process.env.CEP_CHROMIUM || PROGRAMS.find((path) => existsSync(path));
  if (!executablePath || !existsSync(executablePath)) skip("Chromium is missing");
  let playwright;
  try {
    playwright = await import("playwright-core");
  } catch (error) {
    skip(error.message);
  }
  return playwright.chromium.launch({ executablePath, args: ["--no-sandbox", "--disable-gpu"] });
}

/** What a page did that it must not do. */
function watch(page, address) {
  const faults = [];
  page.on("console", (message) => {
    if (["error", "warning"].includes(message.type())) faults.push(`console: ${message.text()}`);
  });
  page.on("pageerror", (error) => faults.push(`error: ${error.stack}`));
  page.on("request", (request) => {
    if (request.url() !== address) faults.push(`request: ${request.url()}`);
  });
  page.on("dialog", (dialog) => {
    faults.push(`dialog: ${dialog.message()}`);
    dialog.dismiss();
  });
  return faults;
}

/**
 * Opens a file in a context of its own, waits until its script has ended, and calls body(page); throws for each fault.
 * `options` are the context's.
 */
export async function withPage(browser, file, options, body) {
  const context = await browser.newContext({ viewport: { width: 1280, height: 900 }, ...options });
  try {
    const page = await context.newPage();
    page.setDefaultTimeout(PATIENCE_MS);
    const address = pathToFileURL(file).href;
    const faults = watch(page, address);
    await page.goto(address);
    if (options.javaScriptEnabled !== false) await page.waitForSelector("html[data-cep=ready]", { state: "attached" });
    await body(page);
    if (faults.length) throw new Error(faults.join("\n"));
  } finally {
    await context.close();
  }
}
