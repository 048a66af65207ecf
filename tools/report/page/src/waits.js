// SPDX-License-Identifier: Apache-2.0
//
// Own work and waiting of each rank.
import { columnOf } from "./data.js";
import { element } from "./dom.js";
import { rankChart } from "./rank_chart.js";

export async function startWaits(data) {
  const { own_layer: ownLayer, wait_layer: waitLayer } = data.waits || {};
  const own = await columnOf(data.layers?.[ownLayer]?.by_rank);
  const wait = await columnOf(data.layers?.[waitLayer]?.by_rank);
  if (!own) return null;
  const series = [{ name: "own work", colour: "c0", values: own }];
  if (wait) series.push({ name: "waiting", colour: "c1", values: wait });
  const chart = rankChart(data, { label: "Own work and waiting by rank", unit: "ms", series });
  return { root: element("div", { class: "cep-live" }, element("div", { class: "cep-controls" }, chart.controls), chart.root) };
}
