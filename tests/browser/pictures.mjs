// SPDX-License-Identifier: Apache-2.0
//
// node pictures.mjs FOLDER [SITUATION...]: reports of made-up jobs and of recordings in FOLDER, and pictures of them: light
// and dark, as wide as a window and as a phone; and that of README. A tool to look at the page with, not a test. CEP_COMMAND
// names the command.
import { existsSync, mkdirSync } from "node:fs";
import { dirname, join } from "node:path";
import { fileURLToPath } from "node:url";
import { launch, withPage } from "./browser.mjs";
import { cep, report } from "./jobs.mjs";

const JOB = ["--ranks", "32", "--ranks-per-host", "8", "--steps", "1000", "--record-every", "5", "--seed", "11"];
const fault = (members) => ["--fault", JSON.stringify(members)];

const SITUATIONS = {
  healthy: JOB,
  straggler: [...JOB, ...fault({ rank: 5, phase: "forward", slowdown: 1.3 })],
  window: [...JOB, ...fault({ rank: 9, phase: "backward", slowdown: 1.5, first_step: 400, last_step: 640 })],
  host: [...JOB, ...fault({ host: 2, phase: "forward", slowdown: 1.25 })],
  stage: [
    "--ranks",
    "32",
    "--ranks-per-host",
    "8",
    "--pp",
    "4",
    "--steps",
    "200",
    "--record-every",
    "2",
    "--seed",
    "12",
    "--stage-weights",
    "1,1,1.35,1",
  ],
  communication: [...JOB, "--gradient-mb", "4000", "--buckets", "6", "--bandwidth-gb-per-s", "40", "--overlap", "0.3"],
  large: [
    "--ranks",
    "16384",
    "--ranks-per-host",
    "8",
    "--steps",
    "20",
    "--record-every",
    "1",
    "--seed",
    "13",
    "--zstd",
    ...fault({ rank: 12345, phase: "forward", slowdown: 1.5 }),
  ],
};
const DATA = join(dirname(fileURLToPath(import.meta.url)), "../data");
const RECORDINGS = {
  training: join(DATA, "trainings/ddp_forward.jsonl.zst"),
  production: join(DATA, "published/slow_worker.jsonl.zst"),
};
const README = "readme"; // docs/report.png
const SIZES = { wide: { width: 1440, height: 900 }, phone: { width: 390, height: 844 } };

/** Makes the job once, its report each time. */
function jobOf(folder, situation) {
  if (RECORDINGS[situation]) return RECORDINGS[situation];
  const job = join(folder, situation);
  if (!existsSync(job)) cep("simulate", "-o", job, ...SITUATIONS[situation]);
  return job;
}

function reportOf(folder, situation) {
  if (situation !== "compare") return report(folder, situation, jobOf(folder, situation));
  return report(folder, situation, "--compare", jobOf(folder, "healthy"), jobOf(folder, "straggler"));
}

/** The beginning of the page of a training, up to the end of who works and who waits. */
async function pictureOfReadme(browser, folder) {
  const path = join(folder, "readme.png");
  const html = report(folder, README, RECORDINGS.training);
  await withPage(browser, html, { viewport: { width: 1000, height: 900 }, colorScheme: "light" }, async (page) => {
    const height = await page.locator("#waits").evaluate((section) => section.getBoundingClientRect().bottom);
    await page.screenshot({ path, fullPage: true, clip: { x: 0, y: 0, width: 1000, height: Math.ceil(height) } });
  });
  console.log(path);
}

const [folder, ...chosen] = process.argv.slice(2);
mkdirSync(folder, { recursive: true });
const browser = await launch();
const all = [...Object.keys(SITUATIONS), "compare", ...Object.keys(RECORDINGS), README];
for (const situation of chosen.length ? chosen : all) {
  if (situation === README) {
    await pictureOfReadme(browser, folder);
    continue;
  }
  const html = reportOf(folder, situation);
  for (const [size, viewport] of Object.entries(SIZES)) {
    for (const colorScheme of ["light", "dark"]) {
      const path = join(folder, `${situation}-${size}-${colorScheme}.png`);
      await withPage(browser, html, { viewport, colorScheme }, (page) => page.screenshot({ path, fullPage: true }));
      console.log(path);
    }
  }
}
await browser.close();
