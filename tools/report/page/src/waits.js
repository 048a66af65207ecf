// SPDX-License-Identifier: Apache-2.0
//
// Own work against waiting, a dot for each rank.
import uPlot from "uplot";
import { axis, Chart, key } from "./chart.js";
import { colour, faded } from "./colours.js";
import { columnOf, rankWithPlace } from "./data.js";
import { element } from "./dom.js";
import { milliseconds, millisecondsOfAxis } from "./format.js";
import { fontOf } from "./heat_axes.js";

const MOST_ROLES = 7;
const MOST_NAMES = 6;
// Of the middle: an axis is not shorter, so that noise stays a small cloud.
const LEAST_SPAN = 0.1;

function rangeOf(low, high) {
  const middle = (low + high) / 2;
  const half = Math.max(((high - low) / 2) * 1.1, LEAST_SPAN * Math.max(middle, 1e-3));
  return [Math.max(0, middle - half), middle + half];
}

/** One list of dots for each role, and one for the ranks that the verdict blames: [{text, colour, ranks}]. */
function groupsOf(data, ranks) {
  const blamed = new Set((data.blamed || []).map(({ rank }) => rank));
  const byRole = data.roles.length > 1 && data.roles.length <= MOST_ROLES;
  const groups = byRole
    ? data.roles.map((text, role) => ({
        text,
        colour: `c${role}`,
        ranks: ranks.filter((rank) => data.ranks.role[rank] === role && !blamed.has(rank)),
      }))
    : [{ text: "rank", colour: "accent", ranks: ranks.filter((rank) => !blamed.has(rank)) }];
  if (blamed.size)
    groups.push({
      text: "named by the verdict",
      colour: "bad",
      ranks: ranks.filter((rank) => blamed.has(rank)),
      named: true,
    });
  return groups;
}

/** Dots that would have their names on each other: [{x, y, ranks}]. */
function clustersOf(dots, ratio) {
  const found = [];
  for (const { x, y, rank } of dots.sort((a, b) => a.x - b.x)) {
    const near = found.find((one) => Math.abs(one.y - y) < 14 * ratio && Math.abs(one.x - x) < 90 * ratio);
    if (near) {
      near.ranks.push(rank);
      near.right = Math.max(near.right, x);
    } else found.push({ x, right: x, y, ranks: [rank] });
  }
  return found;
}

/** The names of the ranks that the verdict names, beside their dots. */
function drawNames(data, own, wait, ranks) {
  return (plot) => {
    const { ctx: context } = plot;
    const ratio = uPlot.pxRatio;
    const dots = ranks.map((rank) => ({
      rank,
      x: plot.valToPos(own[rank], "x", true),
      y: plot.valToPos(wait[rank], "y", true),
    }));
    context.save();
    context.font = `bold ${fontOf(12 * ratio)}`;
    context.fillStyle = colour("bad");
    context.textBaseline = "middle";
    for (const { x, right: end, y, ranks: near } of clustersOf(dots, ratio).slice(0, MOST_NAMES)) {
      const text = `rank ${data.ranks.rank[near[0]]}${near.length > 1 ? ` and ${near.length - 1} more` : ""}`;
      const right = end + 12 * ratio + context.measureText(text).width < plot.bbox.left + plot.bbox.width;
      context.textAlign = right ? "left" : "right";
      context.fillText(text, right ? end + 10 * ratio : x - 10 * ratio, y);
    }
    context.restore();
  };
}

function chartOf(data, own, wait, order) {
  const groups = groupsOf(data, order);
  const named = groups.filter((group) => group.named).flatMap((group) => group.ranks);
  const members = groups.map((group) => new Set(group.ranks));
  const columns = members.map((ranks) => order.map((rank) => (ranks.has(rank) ? wait[rank] : null)));
  const most = order.reduce((largest, rank) => Math.max(largest, wait[rank]), 0) || 1;
  const words = (_, values) => millisecondsOfAxis(values);
  const seriesOf = ({ colour: name, named: isNamed }) => ({
    paths: () => null,
    stroke: colour(name),
    points: { show: true, size: isNamed ? 10 : 8, width: 0, fill: faded(name, isNamed ? 1 : 0.75) },
  });
  const options = () => ({
    scales: {
      x: { time: false, range: (_, low, high) => rangeOf(low, high) },
      y: { range: () => [-0.04 * most, 1.1 * most] },
    },
    axes: [
      axis({ label: "own work of a step", values: words }),
      axis({ size: 70, values: words, filter: (_, values) => values.map((value) => (value >= 0 ? value : null)) }),
    ],
    series: [{}, ...groups.map(seriesOf)],
    cursor: { x: false, y: false, points: { show: false } },
    hooks: { draw: [drawNames(data, own, wait, named)] },
  });
  const describe = (index) => {
    const rank = order[index];
    return [rankWithPlace(data, rank), `own work ${milliseconds(own[rank])}`, `waiting ${milliseconds(wait[rank])}`];
  };
  const table = [order.map((rank) => own[rank]), ...columns];
  const label = "Own work and waiting of each rank";
  const chart = new Chart({ label, height: 300, options, data: () => table, describe, dots: true });
  return { chart, key: key(groups.map(({ text, colour: name }) => ({ text, colour: name, kind: "dot" }))) };
}

export async function startWaits(data) {
  const { own_layer: ownLayer, wait_layer: waitLayer } = data.waits || {};
  const own = await columnOf(data.layers?.[ownLayer]?.by_rank);
  const wait = await columnOf(data.layers?.[waitLayer]?.by_rank);
  if (!own || !wait) return null;
  const order = data.ranks.rank
    .map((_, index) => index)
    .filter((rank) => Number.isFinite(own[rank]) && Number.isFinite(wait[rank]))
    .sort((a, b) => own[a] - own[b]);
  if (!order.length) return null;
  const { chart, key: names } = chartOf(data, own, wait, order);
  const axisName = element("p", { class: "cep-axis-name" }, "waiting for other ranks in a step");
  return { root: element("div", { class: "cep-live" }, names, axisName, chart.root) };
}
