// SPDX-License-Identifier: Apache-2.0
//
// Jobs made by `cep simulate` or by hand, and their reports.
import { execFileSync } from "node:child_process";
import { mkdirSync, readdirSync, readFileSync, writeFileSync } from "node:fs";
import { join } from "node:path";

const CEP = process.env.CEP_COMMAND || "cep";

export function cep(...args) {
  return execFileSync(CEP, args, { encoding: "utf8", stdio: ["ignore", "pipe", "pipe"] });
}

/** A simulated job and its report: {folder, html}. */
export function simulate(folder, name, ...options) {
  const job = join(folder, name);
  cep("simulate", "-o", job, ...options);
  return { folder: job, html: report(folder, name, job) };
}

export function report(folder, name, ...inputs) {
  const html = join(folder, `${name}.html`);
  cep("report", "-o", html, ...inputs);
  return html;
}

/** A job from rows: {rank: [row, …]}. */
export function write(folder, name, rows) {
  const job = join(folder, name);
  mkdirSync(job);
  for (const [rank, lines] of Object.entries(rows)) {
    writeFileSync(
      join(job, `cuda_events_rank_${rank}.jsonl`),
      lines.map((line) => `${JSON.stringify(line)}\n`).join(""),
    );
  }
  return job;
}

/** What the files say: for "rank step name", the sum of the durations. */
export function durationsOf(folder) {
  const sums = new Map();
  for (const file of readdirSync(folder).filter((name) => name.endsWith(".jsonl"))) {
    for (const line of readFileSync(join(folder, file), "utf8").split("\n").filter(Boolean)) {
      const row = JSON.parse(line);
      if (row.type) continue;
      const key = `${row.rank} ${row.step} ${row.name}`;
      sums.set(key, (sums.get(key) || 0) + row.duration_ms);
    }
  }
  return sums;
}
