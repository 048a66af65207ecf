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

async function heatMap(file, options, body) {
  await withPage(browser, file, options, (page) => body(new HeatMapUser(page), page));
}

const tests = {
  async "opens without an error, a request or a dialog, and each section shows something or says why it is empty"() {
    await withPage(browser, straggler.html, {}, async (page) => {
      for (const id of ["breakdown", "heat", "bands", "waits", "whatif", "timeline", "comm", "memory"]) {
        const section = page.locator(`#${id}`);
        assert.ok(await section.locator("figure, .empty").first().isVisible(), `${id} shows nothing`);
      }
      assert.equal(await page.locator("section").nth(1).getAttribute("id"), "breakdown", "the ledger comes first");
    });
  },

  async "begins with the slow rank on top, and nothing else has a colour"() {
    await heatMap(straggler.html, {}, async (map, page) => {
      const top = await map.hover(0.5, 0.03);
      assert.equal(top.rank, SLOW);
      assert.match(top.text, /beyond the median/);
      assert.ok(top.value > 5, top.text);
      const colours = await page.evaluate(async () => {
        const image = document.createElement("img");
        image.src = document.querySelector("#heat-plot image").getAttribute("href");
        await image.decode();
        const canvas = Object.assign(document.createElement("canvas"), { width: image.width, height: image.height });
        const context = canvas.getContext("2d", { willReadFrequently: true });
        context.drawImage(image, 0, 0);
        const at = (y) => String(context.getImageData(image.width / 2, y * image.height, 1, 1).data);
        return [0.03, 0.2, 0.5, 0.9].map(at);
      });
      assert.equal(new Set(colours.slice(1)).size, 1, "a neutral ground");
      assert.notEqual(colours[0], colours[1]);
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
        [0.33, 0.03],
      ]) {
        const { value, rank, step, text } = await map.hover(x, y);
        const expected = durations.get(`${rank} ${step} forward`);
        assert.ok(expected > 0, `no such row: ${text}`);
        assert.ok(Math.abs(value / expected - 1) < 0.005, `${text}: the file has ${expected} ms`);
      }
    });
  },

  async "enlarges what is dragged over, and goes back"() {
    await heatMap(straggler.html, {}, async (map, page) => {
      const whole = await map.where();
      assert.match(whole, /16 of 16 rows, steps 0–295/);
      const ends = [await map.hover(0.41, 0.28), await map.hover(0.61, 0.53)];
      await map.drag([0.41, 0.28], [0.61, 0.53]);
      const part = await map.where();
      assert.notEqual(part, whole);
      const corners = [await map.hover(0.005, 0.005), await map.hover(0.995, 0.995)];
      assert.deepEqual(
        corners.map(({ rank, step }) => [rank, step]),
        ends.map(({ rank, step }) => [rank, step]),
      );
      await map.drag([0.4, 0.3], [0.6, 0.31]);
      assert.match(await map.where(), new RegExp(`^${part.split(",")[0]}, `), "a drag along the steps keeps the ranks");
      await map.doubleClick(0.5, 0.5);
      assert.equal(await map.where(), whole);
      await map.drag([0.41, 0.28], [0.61, 0.53]);
      await map.picture.focus();
      await page.keyboard.press("Escape");
      assert.equal(await map.where(), whole);
    });
  },

  async "switches phase and measure"() {
    await heatMap(straggler.html, {}, async (map) => {
      assert.ok((await map.options("Phase")).includes("backward"));
      await map.choose("Phase", "backward");
      await map.choose("Show", "as recorded");
      assert.match((await map.hover(0.5, 0.5)).text, /backward, as recorded/);
      await map.choose("Phase", "training_step");
      await map.choose("Show", "waiting for other ranks");
      const [slow, other] = [await map.hover(0.5, 0.03), await map.hover(0.5, 0.5)];
      assert.ok(slow.value < other.value / 2, `${slow.text} | ${other.text}`);
    });
  },

  async "sorts ranks"() {
    await heatMap(straggler.html, {}, async (map) => {
      assert.equal((await map.hover(0.5, 0.03)).rank, SLOW);
      await map.choose("Sort by", "rank");
      assert.equal((await map.hover(0.5, 0.03)).rank, 0);
      await map.choose("Sort by", "largest mean first");
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
      await map.choose("Sort by", "rank");
      await map.choose("Phase", "forward");
      await map.choose("Show", "as recorded");
      assert.equal(Math.round((await map.hover(0.3, 0.6)).value), 12);
      assert.match((await map.hover(0.8, 0.6)).text, /^no row\nrank 2\n/);
      assert.equal(Math.round((await map.hover(0.8, 0.8)).value), 13);
      await map.choose("Phase", "step");
      assert.match((await map.hover(0.8, 0.6)).text, /^no row\nrank 2\n/, "own work is not guessed");
    });
  },

  async "is read and enlarged by keys alone"() {
    await heatMap(straggler.html, {}, async (map, page) => {
      const hasFocus = () => map.picture.evaluate((picture) => picture === document.activeElement);
      for (let presses = 0; presses < 80 && !(await hasFocus()); presses += 1) await page.keyboard.press("Tab");
      assert.ok(await hasFocus(), "Tab does not reach the heat map");
      await page.keyboard.press("ArrowDown");
      assert.match(await map.said(), new RegExp(`rank ${SLOW}\\b.*\nstep 0\n`));
      await page.keyboard.press("ArrowDown");
      assert.match(await map.said(), /rank 0\b.*\nstep 0\n/);
      await page.keyboard.press("ArrowRight");
      assert.match(await map.said(), /rank 0\b.*\nstep 5\n/);
      const whole = await map.where();
      await page.keyboard.press("+");
      assert.notEqual(await map.where(), whole);
      await page.keyboard.press("-");
      assert.equal(await map.where(), whole);
    });
  },

  async "the timeline is enlarged and read by pointer and keys"() {
    await withPage(browser, straggler.html, {}, async (page) => {
      const timeline = page.locator("#timeline");
      const where = timeline.locator(".where").first();
      const span = timeline.locator("rect.part[class*=k-compute]:not([x='0'])").nth(3);
      await span.scrollIntoViewIfNeeded();
      await span.hover({ force: true });
      assert.match(await page.locator("#tip").textContent(), /\w+: .*(ms|µs)/);
      const before = [await where.textContent(), (await span.boundingBox()).width];
      await timeline.locator("svg[tabindex]").first().focus();
      await page.keyboard.press("+");
      assert.notEqual(await where.textContent(), before[0]);
      await page.keyboard.press("ArrowRight");
      assert.match(await timeline.locator("[aria-live]").first().textContent(), /(ms|µs)/);
      await page.keyboard.press("Escape");
      assert.equal(await where.textContent(), before[0]);
      assert.ok(Math.abs((await span.boundingBox()).width - before[1]) < 0.5);
    });
  },

  async "bars, dots and lines say their values"() {
    await withPage(browser, straggler.html, {}, async (page) => {
      for (const [selector, pattern] of [
        ["#breakdown .track rect.part", /: .*(ms|µs).*%/],
        ["#waits circle.bad", /rank 5 .*own work/],
        ["#bands .column", /^step.*: median .*, 10th to 90th percentile .*, slowest: rank/],
        ["#memory rect.part", /from the median/],
      ]) {
        const mark = page.locator(selector).first();
        await mark.scrollIntoViewIfNeeded();
        await mark.hover({ force: true });
        const text = (await page.locator("#tip").textContent()).replaceAll("\u00a0", " ");
        assert.match(text, pattern, selector);
      }
    });
  },

  async "without JavaScript the verdict, tables and pictures are there"() {
    await withPage(browser, straggler.html, { javaScriptEnabled: false }, async (page) => {
      assert.match(await page.locator("#verdict").innerText(), new RegExp(`rank ${SLOW}`, "i"));
      assert.ok((await page.locator("table").count()) > 0);
      const pictures = page.locator("figure svg");
      assert.ok((await pictures.count()) >= 4);
      for (const picture of await pictures.all()) assert.ok((await picture.boundingBox()).height > 8);
      assert.equal(await page.locator("button, select").count(), 0);
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
      assert.ok((await map.hover(0.5, 0.5)).text.includes(HOSTILE[1]));
      assert.equal(await page.locator("img, iframe, object, embed, link").count(), 0);
      assert.equal(await page.locator("script").count(), 2);
      assert.equal(await page.locator("[onload], [onerror]").count(), 0);
    });
  },

  async "is dark or light as the system is"() {
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
        assert.ok(await map.section.locator(".touch").isVisible());
        assert.ok(await map.section.locator(".mouse").isHidden());
        assert.ok(await page.locator("#phases .scroll.more").first().isVisible(), "a wide table says that it scrolls");
        const styles = await map.picture.evaluate((svg) => [getComputedStyle(svg).touchAction, getComputedStyle(svg).cursor]);
        assert.deepEqual(styles, ["pan-x pan-y", "crosshair"], "two taps enlarge the picture, not the page");
        await page.touchscreen.tap(...(await map.point(0.3, 0.5)));
        assert.match((await map.read()).text, /rank \d+/);
        for (const track of await page.locator("#breakdown .track").all())
          assert.ok((await track.boundingBox()).width > 300, "bars are as wide as the phone");
      },
    );
  },

  async "a text on a bar or beside a row is whole, and in nobody's way"() {
    for (const width of [390, 620, 800, 1440]) {
      await withPage(browser, straggler.html, { viewport: { width, height: 844 } }, async (page) => {
        const faults = await page.evaluate(() => {
          const box = (element) => element.getBoundingClientRect();
          const found = [];
          for (const text of document.querySelectorAll(".track .on")) {
            const [label, bar] = [box(text), box(text.previousElementSibling)];
            if (label.width > 0 && (label.left < bar.left || label.right > bar.right)) found.push(text.textContent);
          }
          const labels = [...document.querySelectorAll("#timeline svg > text")];
          for (const [at, one] of labels.entries())
            for (const other of labels.slice(at + 1)) {
              const [a, b] = [box(one), box(other)];
              if (Math.min(a.right, b.right) - Math.max(a.left, b.left) > 1 && Math.abs(a.top - b.top) < a.height / 2)
                found.push(`${one.textContent} | ${other.textContent}`);
            }
          return found;
        });
        assert.deepEqual(faults, [], `${width} wide`);
        assert.ok((await page.locator(".track .on:visible").count()) > 0, "some have room");
      });
    }
  },

  async "prints the static pictures"() {
    await withPage(browser, straggler.html, {}, async (page) => {
      await page.emulateMedia({ media: "print" });
      assert.equal(await page.locator("button:visible, select:visible").count(), 0);
      for (const picture of await page.locator("figure").all()) assert.ok(await picture.isVisible());
    });
  },

  async "shows two jobs beside each other"() {
    const html = join(folder, "two.html");
    const { cep } = await import("./jobs.mjs");
    cep("report", "-o", html, ...compareArguments(straggler.folder, pipeline.folder));
    await withPage(browser, html, {}, async (page) => {
      assert.match(await page.locator("#compare").innerText(), /step/);
    });
  },

  async "16,384 ranks and 1,000 steps open, and one slow rank among them can be seen and reached"() {
    const html = join(folder, "large.html");
    writeFileSync(html, withData(readFileSync(straggler.html, "utf8"), makeLargeData));
    await heatMap(html, {}, async (map, page) => {
      const [heat, ready] = await page.evaluate(() => [
        performance.getEntriesByName("cep-heat")[0].startTime,
        performance.getEntriesByName("cep-ready")[0].startTime,
      ]);
      console.log(`# 16,384 x 1,000: heat map after ${Math.round(heat)} ms, everything after ${Math.round(ready)} ms`);
      await map.picture.focus();
      await page.keyboard.press("ArrowDown");
      assert.match(await map.said(), new RegExp(`rank ${SLOW_RANK}\\b`), "it has a row of its own");
      const began = await page.evaluate(() => performance.now());
      for (let presses = 0; presses < 10; presses += 1) await page.keyboard.press("+");
      console.log(`# ten times enlarged in ${Math.round((await page.evaluate(() => performance.now())) - began)} ms`);
      assert.match(await map.where(), /^1 of 512 rows/);
      await page.keyboard.press("ArrowRight");
      const top = await map.hover(0.5, 0.5);
      assert.equal(top.rank, SLOW_RANK, top.text);
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
