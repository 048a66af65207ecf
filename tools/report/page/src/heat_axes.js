// SPDX-License-Identifier: Apache-2.0
//
// What stands around the heat map's cells: steps below, ranks, hosts or roles at the left, the slow ranks' marks.
import { colour } from "./colours.js";
import { describeRank } from "./data.js";
import { ticks } from "./format.js";

const LINE_HEIGHT = 14;

export const MARGIN = { top: 4, right: 10, bottom: 34 };

export function leftMargin(width) {
  return width < 560 ? 62 : 96;
}

/** Where the columns and slots of a view begin in its box. */
export function placesIn({ left, width, height }, view) {
  return {
    x: (column) => left + ((column - view.x0) / (view.x1 - view.x0)) * width,
    y: (slot) => MARGIN.top + ((slot - view.y0) / (view.y1 - view.y0)) * height,
  };
}

export function fontOf(size = 12) {
  return `${size}px ${getComputedStyle(document.body).fontFamily}`;
}

/** Shortens text with "…" to what fits. */
export function fit(context, text, width) {
  if (context.measureText(text).width <= width) return text;
  let length = text.length;
  while (length > 1 && context.measureText(`${text.slice(0, length)}…`).width > width) length -= 1;
  return `${text.slice(0, length)}…`;
}

/** Runs of slots of one text: [{from, to, text}]. */
function runs(view, textOfSlot) {
  const found = [];
  for (let slot = view.y0; slot < view.y1; slot += 1) {
    const text = textOfSlot(slot);
    const run = found[found.length - 1];
    if (run && run.text === text) run.to = slot + 1;
    else found.push({ from: slot, to: slot + 1, text });
  }
  return found;
}

/** Labels of the ranks: of each slot where there is room, else of some at even distances. */
function rankLabels(data, order, view, height) {
  const slots = view.y1 - view.y0;
  const every = Math.max(1, Math.ceil((slots * (slots > 64 ? 2 : 1) * LINE_HEIGHT) / height));
  const round =
    [1, 2, 4, 5, 8, 10]
      .flatMap((unit) => [unit, unit * 16, unit * 100, unit * 1000])
      .sort((a, b) => a - b)
      .find((size) => size >= every) || every;
  const found = [];
  for (let slot = Math.ceil(view.y0 / round) * round; slot < view.y1; slot += round) {
    found.push({ from: slot, to: slot + 1, text: String(data.ranks.rank[order[slot]]) });
  }
  return found;
}

function slotLabels({ data, order, view, by, height }) {
  const hostOf = (slot) => describeRank(data, order[slot]).host;
  const byHost = by === "host" && data.hosts.some(Boolean);
  const hosts = byHost ? runs(view, hostOf) : [];
  const roomy = byHost && hosts.length * LINE_HEIGHT <= height;
  return roomy ? hosts : rankLabels(data, order, view, height);
}

/** The slots of the ranks that the verdict blames: these have their labels wherever there is room for one. */
function blamedLabels({ data, view, slotOf }) {
  return (data.blamed || [])
    .map(({ rank }) => ({ slot: slotOf[rank], text: String(data.ranks.rank[rank]) }))
    .filter(({ slot }) => slot >= view.y0 && slot < view.y1)
    .map(({ slot, text }) => ({ from: slot, to: slot + 1, text, blamed: true }));
}

function drawSlotAxis(context, box, shown) {
  const { left, height } = box;
  const { y } = placesIn(box, shown.view);
  context.textAlign = "right";
  context.textBaseline = "middle";
  const taken = [];
  for (const { from, to, text, blamed } of [...blamedLabels(shown), ...slotLabels({ ...shown, height })]) {
    const at = Math.max(MARGIN.top + 6, (y(from) + y(to)) / 2);
    if (taken.some((other) => Math.abs(other - at) < LINE_HEIGHT - 1)) continue;
    taken.push(at);
    context.fillStyle = colour(blamed ? "bad" : "muted");
    context.font = blamed ? `bold ${fontOf()}` : fontOf();
    context.fillText(fit(context, text, left - 14), left - 10, at);
  }
  context.font = fontOf();
}

function drawStepAxis(context, box, { model, view }) {
  const { left, width, height } = box;
  const bottom = MARGIN.top + height;
  const places = placesIn(box, view);
  context.textBaseline = "top";
  context.fillStyle = colour("muted");
  const count = Math.max(2, Math.floor(width / 90));
  for (const tick of ticks(view.x0, view.x1 - 1, count)) {
    if (tick !== Math.floor(tick)) continue;
    const x = places.x(tick + 0.5);
    context.textAlign = x > left + width - 20 ? "right" : "center";
    context.fillRect(Math.round(x), bottom, 1, 4);
    context.fillText(String(model.steps.first[tick]), Math.min(x, left + width), bottom + 6);
  }
  context.textAlign = "center";
  context.fillText("step", left + width / 2, bottom + 20);
}

/** A line and a name where a group of one role begins. */
function drawRoles(context, box, { data, order, view, grouped }) {
  if (!grouped || data.roles.length < 2) return;
  const { left, width } = box;
  const places = placesIn(box, view);
  for (const { from, text } of runs(view, (slot) => data.roles[data.ranks.role[order[slot]]])) {
    const y = Math.round(places.y(from));
    context.fillStyle = colour("ground");
    context.fillRect(left, y - 1, width, 2);
    context.textAlign = "left";
    context.textBaseline = "top";
    const label = fit(context, text, width / 2);
    context.globalAlpha = 0.85;
    context.fillRect(left, y, context.measureText(label).width + 8, 15);
    context.globalAlpha = 1;
    context.fillStyle = colour("ink");
    context.fillText(label, left + 4, y + 2);
  }
}

/** Columns of a range of steps: [from, to), clipped to the view; null where it is outside. */
function columnsOfSteps(model, view, first, last) {
  const { steps } = model;
  let from = view.x0;
  while (from < view.x1 && steps.last[from] < first) from += 1;
  let to = view.x1;
  while (to > from && steps.first[to - 1] > last) to -= 1;
  return to > from ? [from, to] : null;
}

/** The ranks in view that the verdict blames; neighbours of which it blames the same steps are one. */
function blamedRuns({ data, view, slotOf }) {
  const found = [];
  const blamed = (data.blamed || []).map((one) => ({ ...one, slot: slotOf[one.rank] })).sort((a, b) => a.slot - b.slot);
  for (const { slot, first_step: first, last_step: last } of blamed) {
    if (slot < view.y0 || slot >= view.y1) continue;
    const run = found[found.length - 1];
    if (run && run.to === slot && run.first === first && run.last === last) run.to += 1;
    else found.push({ from: slot, to: slot + 1, first, last });
  }
  return found;
}

function drawArrow(context, x, y) {
  context.beginPath();
  context.moveTo(x - 2, y);
  context.lineTo(x - 8, y - 4.5);
  context.lineTo(x - 8, y + 4.5);
  context.fill();
}

/** An arrow at each rank that the verdict blames, and a frame round the steps of which it does. */
function drawBlamed(context, box, shown) {
  const { model, view } = shown;
  const { x, y } = placesIn(box, view);
  const rowHeight = box.height / (view.y1 - view.y0);
  context.fillStyle = colour("bad");
  context.strokeStyle = colour("bad");
  context.lineWidth = 1.5;
  for (const { from, to, first, last } of blamedRuns(shown)) {
    for (let slot = from; slot < to; slot += 1) drawArrow(context, box.left, y(slot + 0.5));
    const columns = columnsOfSteps(model, view, first, last);
    if (!columns || (to - from) * rowHeight < 5) continue;
    const [begin, end] = columns.map(x);
    context.strokeRect(begin - 0.75, y(from) - 0.75, end - begin + 1.5, (to - from) * rowHeight + 1.5);
  }
}

/** Everything but the cells. */
export function drawAround(context, box, shown) {
  context.font = fontOf();
  drawSlotAxis(context, box, shown);
  drawStepAxis(context, box, shown);
  drawRoles(context, box, shown);
  drawBlamed(context, box, shown);
}
