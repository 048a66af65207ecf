// SPDX-License-Identifier: Apache-2.0
//
// Time of a transfer by its size, and the α–β line through it.
import uPlot from "uplot";
import { axis, Chart, key } from "./chart.js";
import { colour } from "./colours.js";
import { element } from "./dom.js";
import { bytes, logTicks, milliseconds, number, plural } from "./format.js";

const SAMPLES = 60;
const LEAST_GOOD_FIT = 0.5; // of R²

/** The first is the most read: its blue is bright on dark pages too. */
function colourOf(index) {
  return index === 0 ? "accent" : `c${index % 8}`;
}

/** The line of a model; without a bandwidth, sizes make no difference. */
function fitted({ alpha_us: alpha, beta_gb_per_s: beta }) {
  return Number.isFinite(alpha) ? (size) => alpha / 1000 + (beta > 0 ? size / (beta * 1e6) : 0) : null;
}

function nameOf({ name, group, ranks }) {
  return `${name}${group ? ` of ${group}` : ""}, ${plural(ranks, "rank")}`;
}

/** Sizes from the least to the largest, in even steps of a logarithmic axis. */
function sizesOf(models) {
  const all = models.flatMap((model) => model.points.bytes).filter((size) => size > 0);
  const [low, high] = [Math.min(...all) / 1.5, Math.max(...all) * 1.5];
  return Array.from({ length: SAMPLES }, (_, index) => low * (high / low) ** (index / (SAMPLES - 1)));
}

/** Each model's points and line on one x: the sizes of all. */
function tables(models) {
  const grid = sizesOf(models);
  const sources = models.flatMap((model) => {
    const places = model.points.bytes
      .map((_, index) => index)
      .filter((index) => model.points.bytes[index] > 0)
      .sort((a, b) => model.points.bytes[a] - model.points.bytes[b]);
    const means = new Map();
    for (const index of places) means.set(model.points.bytes[index], model.points.transfer_ms[index]);
    const line = fitted(model);
    return [
      [[...means.keys()], [...means.values()]],
      [grid, grid.map((size) => (line ? line(size) : null))],
    ];
  });
  return uPlot.join(sources);
}

function qualityOf(rSquared) {
  const words = `R² ${number(rSquared, 3)}`;
  return rSquared < LEAST_GOOD_FIT ? `a poor fit, ${words}` : words;
}

function sentence(model) {
  if (!fitted(model)) return `${nameOf(model)}: ${model.refused || "no line fits"}`;
  return (
    `${nameOf(model)}: ${milliseconds(model.alpha_us / 1000, 3)}` +
    (model.beta_gb_per_s > 0 ? ` + size / ${number(model.beta_gb_per_s, 3)} GB/s` : "") +
    (Number.isFinite(model.r_squared) ? ` (${qualityOf(model.r_squared)})` : "")
  );
}

/** What of a series uPlot draws: the dots of what was measured, then the line. */
function seriesOf(index) {
  const stroke = colour(colourOf(index));
  return [
    { stroke, paths: () => null, points: { show: true, size: 8, fill: stroke, stroke } },
    { stroke, width: 1.5, dash: [5, 3], spanGaps: true, pxAlign: 0, points: { show: false } },
  ];
}

function optionsOf(models, table, width) {
  const times = table.slice(1).flatMap((values) => values.filter((value) => value > 0));
  const heights = [Math.min(...times) / 1.3, Math.max(...times) * 1.3];
  const filter = (_, values) => values.filter((value) => value > 0);
  const many = Math.min(8, Math.floor(width / 110));
  return {
    scales: {
      x: { time: false, distr: 3, range: (_, low, high) => [low, high] },
      y: { distr: 3, range: () => heights },
    },
    axes: [
      axis({
        label: "bytes of a transfer",
        splits: (_, __, low, high) => logTicks(low, high, many),
        filter,
        values: (_, values) => values.map(bytes),
      }),
      axis({
        size: 70,
        splits: (_, __, low, high) => logTicks(low, high, 5),
        filter,
        values: (_, values) => values.map((value) => milliseconds(value, 2)),
      }),
    ],
    series: [{}, ...models.flatMap((_, index) => seriesOf(index))],
    cursor: { x: false, y: false, points: { show: false } },
  };
}

/** What was measured of one size; null where that is nothing. */
function describeSize(models, table, index) {
  const size = table[0][index];
  const lines = models.flatMap((model, at) => {
    const value = table[1 + 2 * at][index];
    if (!Number.isFinite(value)) return [];
    const wait = model.points.wait_ms?.[model.points.bytes.indexOf(size)];
    const line = fitted(model);
    return [
      nameOf(model),
      `${bytes(size)}: transfer ${milliseconds(value)}${line ? `, the line ${milliseconds(line(size))}` : ""}`,
      Number.isFinite(wait) ? `waiting ${milliseconds(wait)}` : null,
    ];
  });
  return lines.length ? lines : null;
}

/** A logarithmic picture needs a size and a time above zero. */
function canBeDrawn({ points }) {
  return points?.bytes?.some((size, index) => size > 0 && points.transfer_ms[index] > 0);
}

export function startComm(data) {
  const models = (data.comm?.models || []).filter(canBeDrawn);
  if (!models.length) return null;
  const table = tables(models);
  const chart = new Chart({
    label: "Time of transfers by size",
    height: 280,
    options: (width) => optionsOf(models, table, width),
    data: () => table,
    describe: (index) => describeSize(models, table, index),
    dots: true,
  });
  const entries = models.map((model, index) => ({ text: sentence(model), colour: colourOf(index), kind: "dot" }));
  return { root: element("div", { class: "cep-live" }, key(entries), chart.root) };
}
