// SPDX-License-Identifier: Apache-2.0
//
// node pictures.mjs FOLDER [SITUATION...]: reports of each kind of job in FOLDER, and pictures of them: light and dark, as wide
// as a window and as a phone; and that of README. A tool to look at the page with, not a test. CEP_COMMAND names the command.
import { existsSync, mkdirSync, writeFileSync } from "node:fs";
import { dirname, join } from "node:path";
import { fileURLToPath } from "node:url";
import { launch, withPage } from "./browser.mjs";
import { cep, report, write } from "./jobs.mjs";

const RANKS = ["--ranks", "32", "--ranks-per-host", "8", "--steps", "1000", "--seed", "11"];
const JOB = [...RANKS, "--record-every", "5"];
const fault = (members) => ["--fault", JSON.stringify(members)];

const STAGES = ["--ranks", "16", "--pp", "4", "--steps", "200", "--record-every", "2", "--seed", "12"];
const LARGE = ["--ranks", "16384", "--steps", "20", "--record-every", "1", "--seed", "13"];

const SCENARIOS = {
  stage: { stage_weights: [1, 1, 1.35, 1] },
  sampled: { launch_ms: 4 },
  clocks: { clock_skew_ms: 400 },
  large: { zstd: true },
};
const SITUATIONS = {
  healthy: JOB,
  straggler: [...JOB, ...fault({ rank: 5, phase: "forward", slowdown: 1.3 })],
  intermittent: [...JOB, ...fault({ rank: 9, phase: "backward", slowdown: 1.6, pattern: "intermittent", fraction: 0.2 })],
  pipeline: STAGES,
  stage: STAGES,
  one: ["--ranks", "1", "--steps", "200", "--record-every", "1", "--seed", "14"],
  sampled: [...RANKS, "--record-every", "50", ...fault({ host: 2, phase: "data_load", excess_ms: 20 })],
  clocks: [...JOB, ...fault({ rank: 5, phase: "forward", slowdown: 1.3 })],
  communication: [...JOB, "--gradient-mb", "4000", "--buckets", "6", "--bandwidth-gb-per-s", "40", "--overlap", "0.3"],
  large: [...LARGE, ...fault({ rank: 12345, phase: "forward", slowdown: 1.5 })],
};

/** Jobs that `cep simulate` does not make: rows of each rank and step, one after the other; a step every `period` ms. */
const MADE = {
  siblings: {
    period: 15.4,
    make: (add) => {
      add("host_to_device", "data", 1.2);
      add("training_step", "step", 3.6);
      add("training_metrics", "host", 10.2);
    },
  },
  memory: {
    period: 39,
    make: (add, rank, step) => {
      add("forward", "compute", 30);
      add("all_reduce", "comm", 8);
      const gib = 30 + (rank === 3) * 24 + (step % 7) * 0.2;
      for (const [name, value] of Object.entries({ peak_allocated: gib, peak_reserved: gib * 1.1, device: 80 }))
        add({ type: "counter", name: `memory.${name}_bytes`, value: value * 2 ** 30 });
    },
  },
  unheld: {
    period: 160,
    make: (add, rank, step) => {
      add("forward", "compute", 30 + ((rank * 7 + step * 3) % 5));
      add("all_reduce", "comm", 2 + ((rank * 5 + step * 11) % 13) * 4);
      add("backward", "compute", 60 + ((rank * 3 + step * 5) % 7));
    },
  },
};

function rowsOf({ make, period }, rank, steps) {
  const host = `node${rank >> 2}`;
  const rows = [{ type: "run", schema: 1, run_id: "made", rank, world_size: 8, host, start_unix_ns: 1e18 }];
  let now = 1e18;
  for (let step = 0; step < steps; step += 1) {
    const add = (name, kind, ms) => {
      if (!kind) return rows.push({ step, rank, ...name });
      const vary = 1 + 0.004 * (((rank * 31 + step * 17) % 11) - 5);
      rows.push({ name, step, rank, kind, duration_ms: ms * vary, start_ns: now, clock: "gpu", stream: 1, depth: 0 });
      now += Math.round(ms * vary * 1e6);
    };
    make(add, rank, step);
    now = 1e18 + (step + 1) * period * 1e6;
  }
  return rows;
}
const DATA = join(dirname(fileURLToPath(import.meta.url)), "../data");
const RECORDINGS = {
  training: join(DATA, "trainings/ddp_forward.jsonl.zst"),
  production: join(DATA, "published/slow_worker.jsonl.zst"),
};
const README = "readme"; // docs/report.png
const SIZES = {
  wide: { viewport: { width: 1440, height: 900 } },
  phone: { viewport: { width: 390, height: 844 }, hasTouch: true, isMobile: true },
};

/** Makes the job once, its report each time. */
function jobOf(folder, situation) {
  if (RECORDINGS[situation]) return RECORDINGS[situation];
  const job = join(folder, situation);
  if (existsSync(job)) return job;
  if (MADE[situation])
    return write(folder, situation, Array.from({ length: 8 }, (_, rank) => rowsOf(MADE[situation], rank, 120)));
  const scenario = join(folder, `${situation}.json`);
  writeFileSync(scenario, JSON.stringify(SCENARIOS[situation] || {}));
  cep("simulate", "-o", job, "--scenario", scenario, ...SITUATIONS[situation]);
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
const all = [...Object.keys(SITUATIONS), ...Object.keys(MADE), "compare", ...Object.keys(RECORDINGS), README];
for (const situation of chosen.length ? chosen : all) {
  if (situation === README) {
    await pictureOfReadme(browser, folder);
    continue;
  }
  const html = reportOf(folder, situation);
  for (const [size, form] of Object.entries(SIZES)) {
    for (const colorScheme of ["light", "dark"]) {
      const path = join(folder, `${situation}-${size}-${colorScheme}.png`);
      await withPage(browser, html, { ...form, colorScheme }, (page) => page.screenshot({ path, fullPage: true }));
      console.log(path);
    }
  }
}
await browser.close();
