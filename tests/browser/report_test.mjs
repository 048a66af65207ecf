// SPDX-License-Identifier: Apache-2.0
//
// node report_test.mjs: the page of `cep report` in Chromium, from the disk. CEP_COMMAND names the command.
import assert from "node:assert/strict";
import { mkdtempSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { launch, withPage } from "./browser.mjs";
import { HeatMapUser } from "./heat_map.mjs";
import { durationsOf, report, simulate, write } from "./jobs.mjs";
import { makeLargeData, SLOW_RANK, withData } from "./made_data.mjs";

const SLOW = 5;
const HOSTILE = [
  "<script>alert(1)</script>",
  "</script><img src=x onerror=alert(1)>",
  '"onload="alert(1)',
  "<!--<script>",
  "‮gnp.exe\u0007",
];

const browser = await launch();
const folder = mkdtempSync(join(tmpdir(), "cep-browser-"));
const straggler = simulate(
  folder,
  "straggler",
  "--ranks",
  "16",
  "--ranks-per-host",
  "4",
  "--steps",
  "300",
  "--record-every",
  "5",
  "--seed",
  "3",
  "--fault",
  JSON.stringify({ rank: SLOW, phase: "forward", slowdown: 1.4 }),
);
const pipeline = simulate(folder, "pipeline", "--ranks", "8", "--pp", "2", "--steps", "40", "--seed", "4");

if (!/<script>[^<]/.test(readFileSync(straggler.html, "utf8"))) {
  console.log("skipped: the command was built without the page's script");
  await browser.close();
  rmSync(folder, { recursive: true });
  process.exit(77);
}

async function heatMap(file, options, body) {
  await withPage(browser, file, options, (page) => body(new HeatMapUser(page), page));
}

const tests = {
  async "opens without an error, a request or a dialog, and each section is alive or says why it is empty"() {
    await withPage(browser, straggler.html, {}, async (page) => {
      for (const id of ["heat", "bands", "breakdown", "waits", "timeline", "whatif", "comm", "memory"]) {
        const section = page.locator(`#${id}`);
        const shown = await section.locator(".cep-live, .empty").first().isVisible();
        assert.ok(shown, `${id} shows nothing`);
      }
      assert.ok(await page.locator("#heat .cep-live").isVisible());
      assert.equal(await page.locator("figure.static:visible").count(), 0);
    });
  },

  async "shows the value, rank and step of the file's rows on hover"() {
    const durations = durationsOf(straggler.folder);
    await heatMap(straggler.html, {}, async (map) => {
      await map.choose("Phase", "forward");
      await map.choose("Show", "as recorded");
      for (const [x, y] of [
        [0.2, 0.1],
        [0.5, 0.36],
        [0.9, 0.8],
        [0.33, 0.5],
      ]) {
        const { value, rank, step, lines } = await map.hover(x, y);
        const expected = durations.get(`${rank} ${step} forward`);
        assert.ok(expected > 0, `no such row: ${lines.join(" | ")}`);
        assert.ok(Math.abs(value / expected - 1) < 0.001, `${lines.join(" | ")}: the file has ${expected} ms`);
      }
    });
  },

  async "enlarges what is dragged over, and goes back"() {
    await heatMap(straggler.html, {}, async (map, page) => {
      const whole = await map.where();
      assert.match(whole, /16 ranks, steps 0–295/);
      const ends = [await map.hover(0.4, 0.3), await map.hover(0.6, 0.5)];
      await map.drag([0.4, 0.3], [0.6, 0.5]);
      const part = await map.where();
      assert.notEqual(part, whole);
      const corners = [await map.hover(0.105, 0.03), await map.hover(0.985, 0.86)];
      assert.deepEqual(
        corners.map(({ rank, step }) => [rank, step]),
        ends.map(({ rank, step }) => [rank, step]),
      );
      await map.drag([0.4, 0.3], [0.6, 0.31]);
      assert.match(await map.where(), new RegExp(`^${part.split(",")[0]}, `), "a drag along the steps keeps the ranks");
      await map.doubleClick(0.5, 0.5);
      assert.equal(await map.where(), part);
      await map.canvas.focus();
      await page.keyboard.press("Escape");
      assert.equal(await map.where(), whole);
    });
  },

  async "switches phase and measure"() {
    await heatMap(straggler.html, {}, async (map) => {
      assert.ok((await map.options("Phase")).includes("backward"));
      await map.choose("Phase", "backward");
      await map.choose("Show", "as recorded");
      const recorded = await map.hover(0.5, 0.5);
      assert.match(recorded.lines.join("\n"), /backward, as recorded/);
      await map.choose("Show", "relative to the step's median");
      const relative = await map.hover(0.5, 0.5);
      assert.match(relative.lines.join("\n"), /×/);
      assert.ok(relative.value > 0.5 && relative.value < 2, relative.lines.join(" | "));
    });
  },

  async "sorted by slowness, the slow rank comes first"() {
    await heatMap(straggler.html, {}, async (map) => {
      assert.equal((await map.hover(0.5, 0.03)).rank, 0);
      await map.choose("Sort by", "slowness");
      assert.equal((await map.hover(0.5, 0.03)).rank, SLOW);
    });
  },

  async "says where a rank has no row"() {
    const rows = {};
    for (let rank = 0; rank < 4; rank += 1) {
      const steps = Array.from({ length: 20 }, (_, step) => step).filter((step) => rank !== 2 || step < 10);
      rows[rank] = steps.flatMap((step) => [
        { name: "step", step, rank, duration_ms: 20 },
        { name: "forward", step, rank, duration_ms: 10 + rank },
        { name: "all_reduce", step, rank, duration_ms: 5 - rank },
      ]);
    }
    await heatMap(report(folder, "cut-report", write(folder, "cut", rows)), {}, async (map) => {
      await map.choose("Phase", "forward");
      assert.equal((await map.hover(0.3, 0.5)).value, 12);
      assert.match((await map.hover(0.8, 0.5)).lines.join("\n"), /^no row\nrank 2\n/);
      assert.equal((await map.hover(0.8, 0.7)).value, 13);
      await map.choose("Phase", "step");
      await map.choose("Show", "own work");
      assert.match((await map.hover(0.8, 0.5)).lines.join("\n"), /^no row\nrank 2\n/, "own work is not guessed");
    });
  },

  async "groups ranks by role"() {
    await heatMap(pipeline.html, {}, async (map) => {
      const box = map.section.getByLabel("Group by role");
      await box.check();
      assert.ok(await box.isChecked());
      assert.match((await map.hover(0.5, 0.03)).lines.join("\n"), /stage 0/);
      assert.match((await map.hover(0.5, 0.8)).lines.join("\n"), /stage 1/);
    });
  },

  async "is read and enlarged by keys alone"() {
    await heatMap(straggler.html, {}, async (map, page) => {
      for (let presses = 0; presses < 80; presses += 1) {
        await page.keyboard.press("Tab");
        if (await map.canvas.evaluate((canvas) => canvas === document.activeElement)) break;
      }
      assert.ok(
        await map.canvas.evaluate((canvas) => canvas === document.activeElement),
        "Tab does not reach the heat map",
      );
      await page.keyboard.press("ArrowDown");
      const first = await map.announced();
      assert.match(first, /rank 0.*step 0/);
      await page.keyboard.press("ArrowDown");
      const below = await map.announced(first);
      assert.match(below, /rank 1\b.*step 0/);
      await page.keyboard.press("ArrowRight");
      const after = await map.announced(below);
      assert.match(after, /rank 1\b.*step 5/);
      const whole = await map.where();
      await page.keyboard.press("+");
      assert.notEqual(await map.where(), whole);
      await page.keyboard.press("-");
      assert.equal(await map.where(), whole);
    });
  },

  async "timeline and charts answer to keys"() {
    await withPage(browser, straggler.html, {}, async (page) => {
      for (const [id, target] of [
        ["timeline", "canvas"],
        ["bands", ".cep-plot"],
      ]) {
        const section = page.locator(`#${id}`);
        await section.locator(target).first().focus();
        await page.keyboard.press("ArrowRight");
        await section
          .locator("[aria-live]")
          .filter({ hasText: /\d ms|\d µs/ })
          .first()
          .waitFor({ state: "attached" });
      }
    });
  },

  async "without JavaScript the verdict, tables and pictures are there"() {
    await withPage(browser, straggler.html, { javaScriptEnabled: false }, async (page) => {
      assert.match(await page.locator("#verdict").innerText(), new RegExp(`rank ${SLOW}`, "i"));
      assert.ok((await page.locator("table").count()) > 0);
      const pictures = page.locator("figure.static svg");
      assert.ok((await pictures.count()) >= 4);
      for (const picture of await pictures.all()) assert.ok((await picture.boundingBox()).height > 20);
      assert.equal(await page.locator(".cep-live").count(), 0);
    });
  },

  async "names from files stay text"() {
    const rows = {};
    for (let rank = 0; rank < 4; rank += 1) {
      rows[rank] = [{ type: "run", schema: 1, rank, world_size: 4, host: HOSTILE[rank % 2] }];
      for (let step = 0; step < 20; step += 1) {
        HOSTILE.forEach((name, index) =>
          rows[rank].push({
            name,
            step,
            rank,
            kind: "compute",
            duration_ms: 5 + index + rank,
            start_ns: 1e15 + step * 1e9 + index * 2e7,
          }),
        );
        rows[rank].push({ name: "step", kind: "step", step, rank, duration_ms: 150, start_ns: 1e15 + step * 1e9 });
      }
      rows[rank].push(
        { type: "mark", name: HOSTILE[1], step: 10 },
        { type: "counter", name: HOSTILE[0], step: 10, value: 1 },
      );
    }
    const html = report(folder, "hostile-report", write(folder, "hostile", rows));
    await heatMap(html, {}, async (map, page) => {
      const names = await map.options("Phase");
      for (const name of HOSTILE.slice(0, 4)) assert.ok(names.includes(name), `${name} is not among ${names}`);
      await map.choose("Phase", HOSTILE[1]);
      assert.ok((await map.hover(0.5, 0.5)).lines.join("\n").includes(HOSTILE[1]));
      assert.equal(await page.locator("img, iframe, object, embed, link").count(), 0);
      assert.equal(await page.locator("script").count(), 2);
      assert.equal(await page.locator("[onload], [onerror]").count(), 0);
    });
  },

  async "is dark or light as the system is, and as chosen"() {
    const brightness = (page) =>
      page.evaluate(() => {
        const [red, green, blue] = getComputedStyle(document.body)
          .backgroundColor.match(/[\d.]+/g)
          .map(Number);
        return (red + green + blue) / 3;
      });
    for (const colorScheme of ["light", "dark"]) {
      await withPage(browser, straggler.html, { colorScheme }, async (page) => {
        assert.equal((await brightness(page)) > 128, colorScheme === "light");
        await page.getByRole("button", { name: colorScheme === "light" ? "Dark" : "Light" }).click();
        assert.equal((await brightness(page)) > 128, colorScheme === "dark");
      });
    }
  },

  async "on a phone nothing is wider than the page"() {
    await heatMap(
      straggler.html,
      { viewport: { width: 390, height: 844 }, hasTouch: true, isMobile: true },
      async (map, page) => {
        assert.ok(
          await page.evaluate(() => document.documentElement.scrollWidth <= document.documentElement.clientWidth),
        );
        assert.ok((await map.canvas.boundingBox()).width <= 390);
        await page.touchscreen.tap(...(await map.point(0.6, 0.5)));
        assert.match(await page.locator(".cep-tooltip:visible").innerText(), /rank \d+/);
      },
    );
  },

  async "prints the static pictures"() {
    await withPage(browser, straggler.html, {}, async (page) => {
      await page.emulateMedia({ media: "print" });
      assert.equal(await page.locator(".cep-live:visible").count(), 0);
      for (const picture of await page.locator("figure.static").all()) assert.ok(await picture.isVisible());
    });
  },

  async "shows two jobs beside each other"() {
    const html = join(folder, "two.html");
    const { cep } = await import("./jobs.mjs");
    cep("report", "-o", html, ...compareArguments(straggler.folder, pipeline.folder));
    await withPage(browser, html, {}, async (page) => {
      assert.match(await page.locator("#compare .cep-live").innerText(), /step/);
    });
  },

  async "16,384 ranks and 1,000 steps open, and one slow rank among them can be seen and reached"() {
    const html = join(folder, "large.html");
    writeFileSync(html, withData(readFileSync(straggler.html, "utf8"), makeLargeData()));
    await heatMap(html, {}, async (map, page) => {
      const times = await page.evaluate(() => ({
        parsed: performance.getEntriesByType("navigation")[0].domInteractive,
        painted: performance.getEntriesByName("cep-heat")[0].startTime,
      }));
      console.log(
        `# 16,384 x 1,000: heat map painted ${Math.round(times.painted - times.parsed)} ms after the document was parsed, ` +
          `${Math.round(times.painted)} ms after it was opened`,
      );
      await map.choose("Sort by", "slowness");
      await map.canvas.focus();
      await page.keyboard.press("ArrowDown");
      const left = await map.announced();
      await page.keyboard.press("End");
      assert.match(await map.announced(left), new RegExp(`rank ${SLOW_RANK}\\b`));
      const began = await page.evaluate(() => performance.now());
      for (let presses = 0; presses < 10; presses += 1) await page.keyboard.press("+");
      console.log(`# ten times enlarged in ${Math.round((await page.evaluate(() => performance.now())) - began)} ms`);
      const top = await map.hover(0.9, 0.03);
      assert.equal(top.rank, SLOW_RANK, top.lines.join(" | "));
      assert.ok(top.value > 40, top.lines.join(" | "));
    });
  },
};

function compareArguments(before, after) {
  return ["--compare", before, after];
}

let failed = 0;
for (const [name, test] of Object.entries(tests)) {
  const began = performance.now();
  try {
    await test();
    console.log(`ok: ${name} (${Math.round(performance.now() - began)} ms)`);
  } catch (error) {
    failed += 1;
    console.log(`FAILED: ${name}\n${error.stack}`);
  }
}
await browser.close();
rmSync(folder, { recursive: true });
process.exit(failed ? 1 : 0);
