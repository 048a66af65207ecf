// SPDX-License-Identifier: Apache-2.0
//
// What became slower or faster between two jobs, with intervals.
import { bar, bars, piece } from "./bars.js";
import { element } from "./dom.js";
import { milliseconds, number } from "./format.js";

const WORDS = {
  same: "no difference",
  slower: "slower",
  faster: "faster",
  undecided: "not certain",
  only_a: "only before",
  only_b: "only after",
};
const COLOURS = { slower: "bad", faster: "good" };

// Below it the scale is even, above it logarithmic: a phase that takes three times as long leaves room for the others.
const EVEN_UP_TO = 0.02;
const TICKS = [0.001, 0.003, 0.01, 0.03, 0.1, 0.3, 1, 3, 10];
const LEAST_GAP = 0.13;
const NOTHING = 0.0005;

function percent(change) {
  if (Math.abs(change) < NOTHING) return "0 %";
  return `${change > 0 ? "+" : "−"}${number(Math.abs(100 * change), 2)} %`;
}

/** Where a change is, from 0 to 1; no change is in the middle. */
function placeOf(change, widest) {
  return Math.min(1, Math.max(0, 0.5 + Math.asinh(change / EVEN_UP_TO) / (2 * Math.asinh(widest / EVEN_UP_TO))));
}

function scaleOf(widest) {
  const sizes = [];
  let inner = 1 - LEAST_GAP / 2;
  for (const size of TICKS.filter((one) => one <= widest).reverse()) {
    const place = placeOf(size, widest);
    if (place > inner || place < 0.5 + LEAST_GAP) continue;
    sizes.unshift(size);
    inner = place - LEAST_GAP;
  }
  const marks = [
    ...sizes
      .filter((size) => size < 1)
      .map((size) => -size)
      .reverse(),
    0,
    ...sizes,
  ].map((change) => {
    const mark = element("span", {}, percent(change));
    mark.style.left = `${100 * placeOf(change, widest)}%`;
    return mark;
  });
  return element(
    "div",
    { class: "cep-bar cep-bar-scale" },
    element("span", {}, "faster ← → slower"),
    element("span", { class: "cep-scale" }, ...marks),
    element("span", {}),
  );
}

function drawn(row, widest, names) {
  const outcome = WORDS[row.outcome] || row.outcome;
  if (!Number.isFinite(row.change)) return bar(row.name, [], outcome);
  const [low, high] = [row.change_low ?? row.change, row.change_high ?? row.change];
  const lines = [
    `${row.name}: ${outcome}`,
    `${names.a}: ${milliseconds(row.a_ms)}`,
    `${names.b}: ${milliseconds(row.b_ms)}`,
    `${percent(row.change)} (${percent(low)} to ${percent(high)})`,
  ];
  const at = (change) => placeOf(change, widest);
  const colour = COLOURS[row.outcome] || "muted";
  const pieces = [
    piece({ from: at(low), to: at(high), colour, kind: "cep-piece-interval", lines }),
    piece({ from: at(row.change) - 0.003, to: at(row.change) + 0.003, colour, kind: "cep-piece-point", lines }),
  ];
  return bar(row.name, pieces, row.outcome === "same" ? outcome : `${percent(row.change)}, ${outcome}`);
}

export function startCompare(data) {
  const rows = data.compare?.rows;
  if (!rows?.length) return null;
  const reach = rows
    .flatMap((row) => [row.change, row.change_low, row.change_high])
    .filter(Number.isFinite)
    .map(Math.abs);
  const widest = Math.max(0.01, ...reach) * 1.05;
  const holder = bars(scaleOf(widest), ...rows.map((row) => drawn(row, widest, data.compare)));
  holder.classList.add("cep-bars-middle");
  return {
    root: element(
      "div",
      { class: "cep-live" },
      element(
        "p",
        { class: "cep-note" },
        `${data.compare.b} against ${data.compare.a}: the point is the change, the line its interval.`,
      ),
      holder,
    ),
  };
}
