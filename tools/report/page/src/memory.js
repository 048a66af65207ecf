// SPDX-License-Identifier: Apache-2.0
//
// The largest value of each memory counter, by rank.
import { columnOf } from "./data.js";
import { choice, element } from "./dom.js";
import { rankChart } from "./rank_chart.js";

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
