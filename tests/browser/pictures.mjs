// SPDX-License-Identifier: Apache-2.0
//
// node pictures.mjs FOLDER [SITUATION...]: reports of made-up jobs in FOLDER, and pictures of them: light and dark, as wide
// as a window and as a phone. A tool to look at the page with, not a test. CEP_COMMAND names the command.
import { existsSync, mkdirSync } from "node:fs";
import { join } from "node:path";
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
const SIZES = { wide: { width: 1280, height: 900 }, phone: { width: 390, height: 844 } };

/** Makes the job once, its report each time. */
function jobOf(folder, situation) {
  const job = join(folder, situation);
  if (!existsSync(job)) cep("simulate", "-o", job, ...SITUATIONS[situation]);
  return job;
}

function reportOf(folder, situation) {
  if (situation !== "compare") return report(folder, situation, jobOf(folder, situation));
  return report(folder, situation, "--compare", jobOf(folder, "healthy"), jobOf(folder, "straggler"));
}

const [folder, ...chosen] = process.argv.slice(2);
mkdirSync(folder, { recursive: true });
const browser = await launch();
for (const situation of chosen.length ? chosen : [...Object.keys(SITUATIONS), "compare"]) {
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
