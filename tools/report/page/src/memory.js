// SPDX-License-Identifier: Apache-2.0
//
// The largest value of each memory counter, by rank.
import uPlot from "uplot";
import { axis, Chart } from "./chart.js";
import { colour, faded } from "./colours.js";
import { columnOf, rankWithPlace } from "./data.js";
import { choice, element } from "./dom.js";
import { inUnit } from "./format.js";

const MOST_BARS = 256;

/** {controls, root}: bars, or one line along their tops where there are many. */
function rankChart(data, { label, unit, values, colour: name }) {
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

export async function startMemory(data) {
  const counters = (data.memory?.counters || []).filter((counter) => counter.by_rank);
  if (!counters.length) return null;
  const controls = element("div", { class: "cep-controls" });
  const holder = element("div");
  const show = async (index) => {
    const counter = counters[index];
    const values = await columnOf(counter.by_rank);
    const chart = rankChart(data, { label: `${counter.name} by rank`, unit: counter.unit, values, colour: "c2" });
    const chosen = choice(
      "Counter",
      counters.map((one, at) => [String(at), one.name]),
      String(index),
      (at) => show(Number(at)),
    );
    controls.replaceChildren(chosen, chart.controls);
    holder.replaceChildren(chart.root);
  };
  await show(0);
  return { root: element("div", { class: "cep-live" }, controls, holder) };
}
