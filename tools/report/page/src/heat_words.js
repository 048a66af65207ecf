// SPDX-License-Identifier: Apache-2.0
//
// What a cell of the heat map says, in the tooltip and aloud.
import { rankWithPlace } from "./data.js";
import { inUnit, range } from "./format.js";
import { cellAt } from "./heat_model.js";

export const MEASURES = {
  duration: "as recorded",
  own: "own work",
  wait: "waiting",
  relative: "relative to the step's median",
};

/** The place of the largest value among those that one pixel at a place covers, and how many these are. */
function largestNear({ view, box, order, levels }, { column, slot }) {
  const lastColumn = Math.min(view.x1, column + Math.max(1, Math.ceil((view.x1 - view.x0) / box.width)));
  const lastSlot = Math.min(view.y1, slot + Math.max(1, Math.ceil((view.y1 - view.y0) / box.height)));
  let found = { column, slot, value: -Infinity };
  for (let y = slot; y < lastSlot; y += 1) {
    for (let x = column; x < lastColumn; x += 1) {
      const { value } = cellAt(levels, order[y], x);
      if (value > found.value) found = { column: x, slot: y, value };
    }
  }
  return { ...found, count: (lastSlot - slot) * (lastColumn - column) };
}

function isSingle({ firstRank, lastRank, firstStep, lastStep }) {
  return firstRank === lastRank && firstStep === lastStep;
}

function valueOf({ value, exact }, unit) {
  if (!Number.isFinite(value)) return "no row";
  return `${exact && value !== 0 ? "" : "≈ "}${inUnit(value, unit)}`;
}

/** The other measures of the same cell, of what is decoded already. */
function otherMeasures({ data, layer: shown, known }, rank, column) {
  return data.layers
    .filter((layer) => layer.phase === shown.phase && layer !== shown && known.has(layer))
    .map((layer) => ({ layer, cell: cellAt(known.get(layer), rank, column) }))
    .filter(({ cell }) => Number.isFinite(cell.value) && isSingle(cell))
    .map(({ layer, cell }) => `${MEASURES[layer.measure]} ${valueOf(cell, layer.unit)}`);
}

function hintOf(cell, count) {
  if (Number.isFinite(cell.value) && !isSingle(cell)) return "the largest of these; finer values were left out";
  return count > 1 ? "the largest here; enlarge to see each" : null;
}

/** The lines that a map says of a place: value first, then rank, host and role, then the step. */
export function describeCell(map, place) {
  const { data, layer, model, levels, order } = map;
  const { column, slot, count } = largestNear(map, place);
  const rank = order[slot];
  const cell = cellAt(levels, rank, column);
  const steps = Number.isFinite(cell.value) ? [cell.firstStep, cell.lastStep] : model.stepsOf(column);
  const name = (index) => data.ranks.rank[index];
  const who =
    cell.lastRank > cell.firstRank
      ? `ranks ${range(name(cell.firstRank), name(cell.lastRank))}`
      : rankWithPlace(data, rank);
  return [
    valueOf(cell, layer.unit),
    who,
    `${steps[0] === steps[1] ? "step" : "steps"} ${range(...steps)}`,
    `${data.phases[layer.phase].name}, ${MEASURES[layer.measure]}`,
    ...otherMeasures(map, rank, column),
    hintOf(cell, count),
  ].filter(Boolean);
}
