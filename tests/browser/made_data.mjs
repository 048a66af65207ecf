// SPDX-License-Identifier: Apache-2.0
//
// Data of a page as the command writes it (tools/report/report.cpp), for a job too large to simulate in a test: 16,384 ranks and
// 1,000 steps, with one slow rank.
import { deflateSync } from "node:zlib";

const [RANKS, ROWS, STEPS] = [16384, 512, 1000];
export const SLOW_RANK = 12345;

function noise(row, step) {
  return (Math.imul(row * 1009 + step * 9176, 2654435761) >>> 16) % 100;
}

/** Codes of the slow rank, which is slow in the second half, and of bins of the others. */
function layer(phase, hasNoise) {
  const codes = new Uint8Array(ROWS * STEPS);
  for (let row = 0; row < ROWS; row += 1)
    for (let step = 0; step < STEPS; step += 1)
      codes[row * STEPS + step] = row === 0 && step >= STEPS / 2 ? 250 : 1 + hasNoise * noise(row, step);
  const data = deflateSync(codes, { level: 1 }).toString("base64");
  return { phase, measure: "as recorded", title: `${phase}, as recorded`, low: 10, high: 100, range: [1, 100], data };
}

/** Of the page's own data, all but the colours is replaced. */
export function makeLargeData(data) {
  const width = Math.ceil(RANKS / (ROWS - 1));
  const rank = Array.from({ length: ROWS }, (_, row) => (row ? (row - 1) * width : SLOW_RANK));
  const label = rank.map((first, row) => (row ? `${first}–${first + width - 1}` : String(first)));
  const steps = Array.from({ length: STEPS }, (_, step) => step);
  return {
    ...data,
    rows: {
      label,
      who: label.map((text, row) => (row ? `ranks ${text}` : `rank ${text}`)),
      rank,
      host: rank.map((one) => one >> 3),
      blamed: rank.map((_, row) => Number(row === 0)),
    },
    steps: { first: steps, last: steps },
    layers: [layer("step", 0), ...Array.from({ length: 12 }, (_, i) => layer(`phase ${i}`, 1))],
  };
}

/** A page of the command with other data. */
export function withData(html, change) {
  const pattern = /(<script type="application\/json" id="cep-data">)([^]*?)(<\/script>)/;
  if (!pattern.test(html)) throw new Error("the page has no data to replace");
  return html.replace(pattern, (_, begin, data, end) => begin + JSON.stringify(change(JSON.parse(data))) + end);
}
