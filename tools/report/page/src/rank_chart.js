// SPDX-License-Identifier: Apache-2.0
//
// One value for each rank.
import uPlot from "uplot";
import { axis, Chart, faded } from "./chart.js";
import { colour } from "./colours.js";
import { rankWithPlace } from "./data.js";
import { choice } from "./dom.js";
import { inUnit } from "./format.js";

const MOST_BARS = 256;

/** {controls, root}: bars, or one line along their tops where there are many. */
export function rankChart(data, { label, unit, values, colour: name }) {
  const count = values.length;
  const amount = (rank) => (Number.isFinite(values[rank]) ? values[rank] : -Infinity);
  const orders = { rank: (a, b) => a - b, value: (a, b) => amount(b) - amount(a) || a - b };
  let order;
  const arrange = (by) => {
    order = Array.from(values, (_, rank) => rank).sort(orders[by]);
  };
  arrange("rank");

  const nameOf = (slot) =>
    Number.isInteger(slot) && order[slot] !== undefined ? String(data.ranks.rank[order[slot]]) : "";
  const paths = count <= MOST_BARS ? uPlot.paths.bars({ size: [0.8, 60] }) : uPlot.paths.stepped({ align: 1 });
  const options = () => ({
    scales: {
      x: { time: false, range: (_, low, high) => [low - 0.6, high + 0.6] },
      y: { range: (_, low, high) => [0, (high || 1) * 1.06] },
    },
    axes: [
      axis({ label: "rank", grid: { show: false }, values: (_, slots) => slots.map(nameOf) }),
      axis({ size: 70, values: (_, sizes) => sizes.map((size) => inUnit(size, unit, 3)) }),
    ],
    series: [
      {},
      {
        stroke: colour(name),
        fill: faded(name, 0.85),
        width: count <= MOST_BARS ? 0 : 1,
        paths,
        points: { show: false },
      },
    ],
    cursor: { points: { show: false }, y: false },
  });
  const describe = (slot) => [rankWithPlace(data, order[slot]), inUnit(values[order[slot]], unit)];
  const table = () => [
    order.map((_, slot) => slot),
    order.map((rank) => (Number.isFinite(values[rank]) ? values[rank] : null)),
  ];
  const chart = new Chart({ label, height: 220, options, data: table, describe });
  const controls = choice(
    "Sort by",
    [
      ["rank", "rank"],
      ["value", "value"],
    ],
    "rank",
    (by) => {
      arrange(by);
      chart.redraw();
    },
  );
  return { controls, root: chart.root };
}
