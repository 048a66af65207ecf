// SPDX-License-Identifier: Apache-2.0
//
// What became slower or faster between two jobs, with intervals.
import { bar, bars, piece } from "./bars.js";
import { element } from "./dom.js";
import { milliseconds, number } from "./format.js";

const WORDS = { same: "no difference", slower: "slower", faster: "faster", undecided: "not certain", only_a: "only before", only_b: "only after" };
const COLOURS = { slower: "bad", faster: "c2" };

function percent(change) {
  return `${change > 0 ? "+" : change < 0 ? "−" : ""}${number(Math.abs(100 * change), 3)} %`;
}

function drawn(row, widest, names) {
  const outcome = WORDS[row.outcome] || row.outcome;
  const lines = [`${row.name}: ${outcome}`, `${names.a}: ${milliseconds(row.a_ms)}`, `${names.b}: ${milliseconds(row.b_ms)}`];
  const at = (value) => Math.min(1, Math.max(0, 0.5 + value / (2 * widest)));
  if (!Number.isFinite(row.change)) return bar(row.name, [], outcome);
  const colour = COLOURS[row.outcome] || "muted";
  const [low, high] = [row.change_low ?? row.change, row.change_high ?? row.change];
  lines.push(`${percent(row.change)} (${percent(low)} to ${percent(high)})`);
  const pieces = [
    piece({ from: at(low), to: Math.max(at(high), at(low) + 0.004), colour, kind: "cep-piece-interval", lines }),
    piece({ from: at(row.change) - 0.003, to: at(row.change) + 0.003, colour, kind: "cep-piece-point", lines }),
  ];
  return bar(row.name, pieces, `${percent(row.change)} ${outcome}`);
}

export function startCompare(data) {
  const rows = data.compare?.rows;
  if (!rows?.length) return null;
  const reach = rows.flatMap((row) => [row.change, row.change_low, row.change_high]).filter(Number.isFinite).map(Math.abs);
  const widest = Math.max(0.01, ...reach) * 1.05;
  const scale = element("div", { class: "cep-bar cep-bar-scale" }, element("span", {}),
    element("span", { class: "cep-scale" }, element("span", {}, `${percent(widest).slice(1)} faster`), element("span", {}, "same"), element("span", {}, `${percent(widest).slice(1)} slower`)),
    element("span", {}));
  const holder = bars(scale, ...rows.map((row) => drawn(row, widest, data.compare)));
  holder.classList.add("cep-bars-middle");
  return { root: element("div", { class: "cep-live" }, element("p", { class: "cep-note" },
    `${data.compare.b} against ${data.compare.a}: the point is the change, the line its interval.`), holder) };
}
