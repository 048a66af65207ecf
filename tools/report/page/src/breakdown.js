// SPDX-License-Identifier: Apache-2.0
//
// Where the time of a step goes, on the ranks with the least, the median and the most work.
import { bar, bars, piece } from "./bars.js";
import { key } from "./chart.js";
import { rankWithPlace } from "./data.js";
import { element } from "./dom.js";
import { milliseconds, number } from "./format.js";

const UNATTRIBUTED = "unattributed";
// What is no phase has no colour of a phase.
const OTHERS = { waiting: "wait", communication: "comm", [UNATTRIBUTED]: "muted" };

// Of the step: less is not worth a sentence.
const NOTHING = 1e-3;

function colourOf({ name, color }) {
  return Number.isInteger(color) ? `c${color % 8}` : OTHERS[name] || "muted";
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
        kind: part.name === UNATTRIBUTED ? "cep-piece-open" : "",
        lines: [part.name, milliseconds(value), `${number((100 * value) / whole, 3)} % of the step`],
      });
      from += value;
      return made;
    })
    .filter(Boolean);
}

export function startBreakdown(data) {
  const { parts, bars: rows } = data.breakdown || {};
  if (!rows?.length) return null;
  const sum = (values) => values.reduce((total, value) => total + Math.max(0, value || 0), 0);
  const widest = Math.max(...rows.map((row) => Math.max(sum(row.ms), row.step_ms)));
  const unattributed = parts.findIndex((part) => part.name === UNATTRIBUTED);
  const notes = rows
    .filter((row) => row.ms[unattributed] < -NOTHING * row.step_ms)
    .map((row) =>
      element(
        "p",
        { class: "cep-note" },
        `${row.label}: phases overlap by ${milliseconds(-row.ms[unattributed])}, so the parts are longer than the step.`,
      ),
    );
  const drawn = rows.map((row) =>
    bar(`${row.label}: ${rankWithPlace(data, row.rank)}`, piecesOf(parts, row, widest), milliseconds(row.step_ms)),
  );
  const used = parts.filter((_, index) => rows.some((row) => row.ms[index] > 0));
  const entries = used.map((part) => ({
    text: part.name,
    colour: colourOf(part),
    kind: part.name === UNATTRIBUTED ? "open" : "area",
  }));
  return { root: element("div", { class: "cep-live" }, key(entries), bars(...drawn), ...notes) };
}
