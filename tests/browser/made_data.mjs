// SPDX-License-Identifier: Apache-2.0
//
// Data for the page of `cep report` as the command would write it (tools/report/page/DATA.md), for a job too large to
// simulate in a test: each value is a function of rank and step, so that a test knows what it must see.
import { deflateSync } from "node:zlib";

export const SLOW_RANK = 12345;
const PHASES = [
  ["step", "step", 0],
  ["forward", "compute", 1],
  ["backward", "compute", 2],
];
const USUAL_MS = [100, 30, 60];

/** A job's own work: a little noise, one rank that is slow in the second half. */
export function workOf(rank, step, phase) {
  const noise = ((Math.imul(rank * 1009 + step * 9176 + phase * 31, 2654435761) >>> 16) % 1000) / 1000;
  const slow = rank === SLOW_RANK && step >= 500 ? 1.5 : 1;
  return USUAL_MS[phase] * slow * (0.98 + 0.04 * noise);
}

function codes(rows, columns, low, high, valueOf) {
  const bytes = new Uint8Array(rows * columns);
  const factor = 254 / Math.log(high / low);
  for (let row = 0; row < rows; row += 1) {
    for (let column = 0; column < columns; column += 1) {
      const value = valueOf(row, column);
      const code = 1 + Math.round(factor * Math.log(Math.max(low, value) / low));
      bytes[row * columns + column] = Math.min(255, code);
    }
  }
  return bytes;
}

function block(rows, columns, low, high, valueOf) {
  const data = deflateSync(codes(rows, columns, low, high, valueOf), { level: 1 }).toString("base64");
  return { rows, columns, bits: 8, low, high, encoding: "deflate", data };
}

function bins(count, width) {
  const first = Array.from({ length: Math.ceil(count / width) }, (_, index) => index * width);
  return { first, last: first.map((from) => Math.min(count, from + width) - 1) };
}

/** The overview of `ranks` in bins, and the slow rank's host in full. */
function layer(phase, ranks, steps, width, detail) {
  const usual = USUAL_MS[phase];
  const [low, high] = [usual * 0.5, usual * 2];
  const largest = (row, step) => {
    let found = 0;
    for (let rank = row * width; rank < Math.min(ranks, (row + 1) * width); rank += 1)
      found = Math.max(found, workOf(rank, step, phase));
    return found;
  };
  return {
    phase,
    measure: "own",
    unit: "ms",
    scale: { kind: "log", low: usual * 0.75, high: usual * 1.5 },
    by_rank: block(ranks, 1, low, high, (rank) => workOf(rank, 750, phase)),
    levels: [
      { ranks: 0, steps: 0, block: block(Math.ceil(ranks / width), steps, low, high, largest) },
      {
        ranks: 1,
        steps: 0,
        block: block(detail.length, steps, low, high, (row, step) => workOf(detail[row], step, phase)),
      },
    ],
  };
}

export function makeLargeData({ ranks = 16384, steps = 1000 } = {}) {
  const everyRank = Array.from({ length: ranks }, (_, rank) => rank);
  const width = Math.ceil(ranks / 512);
  const detail = everyRank.filter((rank) => rank >> 3 === SLOW_RANK >> 3);
  return {
    schema: "cep.report/1",
    colors: { sequential: ["#00224e", "#35456c", "#666970", "#948e77", "#c8b866", "#fee838"] },
    left_out: [],
    ranks: {
      rank: everyRank,
      host: everyRank.map((rank) => rank >> 3),
      role: everyRank.map(() => 0),
      slowness: everyRank.map((rank) => workOf(rank, 750, 0) - USUAL_MS[0]),
    },
    hosts: Array.from({ length: Math.ceil(ranks / 8) }, (_, host) => `node${host}`),
    roles: ["all ranks"],
    blamed: [{ rank: SLOW_RANK, phase: "forward", first_step: 500, last_step: steps - 1 }],
    phases: PHASES.map(([name, kind, color]) => ({ name, kind, color })),
    step_bins: [bins(steps, 1)],
    rank_bins: [bins(ranks, width), { first: detail, last: detail }],
    layers: PHASES.map((_, phase) => layer(phase, ranks, steps, width, detail)),
  };
}

/** A page of the command with other data. */
export function withData(html, data) {
  const text = JSON.stringify(data).replaceAll("<", "\\u003c");
  const pattern = /(<script type="application\/json" id="cep-data">)[^]*?(<\/script>)/;
  if (!pattern.test(html)) throw new Error("the page has no data to replace");
  return html.replace(pattern, (_, begin, end) => begin + text + end);
}
