// SPDX-License-Identifier: Apache-2.0
//
// The step observed, what is lost in it, and the ideal; then what each cause costs by itself.
import { bar, bars, piece } from "./bars.js";
import { element } from "./dom.js";
import { milliseconds, number } from "./format.js";

// Of the step: less is not worth a number.
const NOTHING = 1e-4;

function share(part, whole) {
  return `${number((100 * part) / whole, 3)} % of the step`;
}

function waterfall({ observed_ms: observed, replayed_ms: replayed, ideal_ms: ideal, losses }, widest) {
  const whole = (label, value, colour) =>
    bar(
      label,
      [piece({ from: 0, to: value / widest, colour, lines: [label, milliseconds(value), share(value, observed)] })],
      milliseconds(value),
    );
  const rows = [whole("observed", observed, "comm")];
  if (Math.abs(replayed - observed) > 0.0005 * observed) rows.push(whole("replayed", replayed, "c4"));
  let left = replayed;
  for (const { label, ms } of losses || []) {
    const small = Math.abs(ms) < NOTHING * observed;
    const [low, high] = [Math.min(left, left - ms), Math.max(left, left - ms)];
    rows.push(
      bar(
        label,
        [
          piece({
            from: Math.max(0, low) / widest,
            to: high / widest,
            colour: ms >= 0 ? "bad" : "good",
            lines: [label, milliseconds(ms), share(ms, observed)],
          }),
        ],
        small ? "≈ 0" : `${ms >= 0 ? "−" : "+"}${milliseconds(Math.abs(ms))}`,
      ),
    );
    left -= ms;
  }
  rows.push(whole("ideal", ideal, "good"));
  return bars(...rows);
}

function causes(rows, observed, widest) {
  return rows
    .filter((row) => row.ms > 0)
    .map((row) =>
      bar(
        row.phase ? `${row.label}, ${row.phase}` : row.label,
        [
          piece({
            from: 0,
            to: Math.min(1, row.ms / widest),
            colour: "c1",
            lines: [
              row.label,
              row.phase,
              `costs ${milliseconds(row.ms)} a step`,
              share(row.ms, observed),
              row.slowdown ? `${number(row.slowdown, 3)} × its usual work` : null,
            ],
          }),
        ],
        milliseconds(row.ms),
      ),
    );
}

export function startWhatif(data) {
  const found = data.whatif;
  if (!found || !Number.isFinite(found.observed_ms) || !Number.isFinite(found.ideal_ms)) return null;
  // One scale, so that what a cause costs can be seen beside the step.
  const widest = Math.max(found.observed_ms, found.replayed_ms);
  const costs = causes(found.causes || [], found.observed_ms, widest);
  return {
    root: element(
      "div",
      { class: "cep-live" },
      waterfall(found, widest),
      ...(costs.length ? [element("h3", {}, "What each cause costs by itself"), bars(...costs)] : []),
    ),
  };
}
