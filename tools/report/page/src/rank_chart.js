// SPDX-License-Identifier: Apache-2.0
//
// One value or a stack of two for each rank.
import uPlot from "uplot";
import { axis, Chart, faded, key } from "./chart.js";
import { colour } from "./colours.js";
import { rankWithPlace } from "./data.js";
import { choice, element } from "./dom.js";
import { inUnit } from "./format.js";

const MOST_BARS = 256;

function descending(values) {
  const amount = (rank) => (Number.isFinite(values[rank]) ? values[rank] : -Infinity);
  return (a, b) => amount(b) - amount(a) || a - b;
}

/** series: [{name, colour, values by rank}], stacked from the first up. */
export function rankChart(data, { label, unit, series, sort = "rank" }) {
  const count = data.ranks.rank.length;
  let order;
  const arrange = (by) => {
    order = data.ranks.rank.map((_, index) => index);
    const chosen = series.find((one) => one.name === by);
    if (chosen) order.sort(descending(chosen.values));
  };
  arrange(sort);

  /** From the last down, so that the lower ones are drawn over the higher. */
  const stacked = () => {
    let below = new Float64Array(count);
    const lines = series.map(({ values }) => {
      below = Float64Array.from(order, (rank, slot) => below[slot] + (Number.isFinite(values[rank]) ? values[rank] : 0));
      return Array.from(below);
    });
    return [order.map((_, slot) => slot), ...lines.reverse()];
  };
  const paths = count <= MOST_BARS ? uPlot.paths.bars({ size: [0.8, 60] }) : uPlot.paths.stepped({ align: 1 });
  const options = () => ({
    scales: { x: { time: false, range: (_, low, high) => [low - 0.6, high + 0.6] }, y: { range: (_, low, high) => [0, (high || 1) * 1.06] } },
    axes: [axis({ label: "rank", values: (_, values) => values.map((slot) => (Number.isInteger(slot) && order[slot] !== undefined ? String(data.ranks.rank[order[slot]]) : "")) }),
      axis({ size: 70, values: (_, values) => values.map((value) => inUnit(value, unit, 3)) })],
    series: [{}, ...[...series].reverse().map((one) => ({ stroke: colour(one.colour), fill: faded(one.colour, 0.85), width: count <= MOST_BARS ? 0 : 1, paths, points: { show: false } }))],
    cursor: { points: { show: false } },
  });
  const describe = (slot) => {
    const rank = order[slot];
    return [rankWithPlace(data, rank), ...series.map((one) => `${one.name} ${inUnit(one.values[rank], unit)}`)];
  };
  const chart = new Chart({ label, height: 240, options, data: stacked, describe });
  const sorts = [["rank", "rank"], ...series.map((one) => [one.name, one.name])];
  const controls = choice("Sort by", sorts, sort, (by) => {
    arrange(by);
    chart.redraw();
  });
  const names = series.length > 1 ? key(series.map((one) => ({ text: one.name, colour: one.colour }))) : null;
  return { controls, root: element("div", {}, names, chart.root) };
}
