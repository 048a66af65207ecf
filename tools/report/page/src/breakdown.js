// SPDX-License-Identifier: Apache-2.0
//
// Where the time of a step goes, on the ranks with the least, the median and the most work.
import { bar, bars, piece } from "./bars.js";
import { key } from "./chart.js";
import { rankWithPlace } from "./data.js";
import { element } from "./dom.js";
import { milliseconds, number } from "./format.js";

const UNCOVERED = "in no phase";
// What has no colour of its own.
const STYLES = { "waiting for other ranks": "wait", "transfer, not hidden": "comm" };

function colourOf({ name, color }) {
  return Number.isInteger(color) ? `c${color % 8}` : STYLES[name] || "muted";
}

function piecesOf(parts, { ms, step_ms: whole }, widest) {
  let from = 0;
  return parts
    .map((part, index) => {
      const value = ms[index];
      if (!(value > 0)) return null;
      const made = piece({
        from: from / widest,
        to: (from + value) / widest,
        colour: colourOf(part),
        kind: part.name === UNCOVERED ? "cep-piece-open" : "",
        lines: [part.name, milliseconds(value), `${number((100 * value) / whole, 3)} % of the time`],
      });
      from += value;
      return made;
    })
    .filter(Boolean);
}

export function startBreakdown(data) {
  const { parts, bars: rows } = data.breakdown || {};
  if (!rows?.length) return null;
  const widest = Math.max(...rows.map((row) => row.step_ms));
  const drawn = rows.map((row) =>
    bar(`${row.label}: ${rankWithPlace(data, row.rank)}`, piecesOf(parts, row, widest), milliseconds(row.step_ms)),
  );
  const used = parts.filter((_, index) => rows.some((row) => row.ms[index] > 0));
  const entries = used.map((part) => ({
    text: part.name,
    colour: colourOf(part),
    kind: part.name === UNCOVERED ? "open" : "area",
  }));
  return { root: element("div", { class: "cep-live" }, key(entries), bars(...drawn)) };
}
