// SPDX-License-Identifier: Apache-2.0
//
// The heat map's pixels: one pass over typed arrays, the largest value of what a pixel covers.
import { colour, pixelOf } from "./colours.js";

/** The level whose cells are no larger than a pixel, but no finer than needed: largest values of largest values. */
function coarseEnough(levels, ranksPerPixel, columnsPerPixel) {
  const coarsest = levels[levels.length - 1];
  return coarsest.ranksPerRow <= ranksPerPixel && coarsest.columnsPerBin <= columnsPerPixel ? [coarsest] : levels;
}

/** Where the pixels of an axis begin: `pixels` + 1 positions in [from, to). */
function pixelEdges(from, to, pixels) {
  const edges = new Float64Array(pixels + 1);
  for (let index = 0; index <= pixels; index += 1) edges[index] = from + ((to - from) * index) / pixels;
  return edges;
}

/** The first and the last bin of a level that each pixel column covers; -1 where it covers none. */
function binsOfPixels(level, edges) {
  const count = edges.length - 1;
  const first = new Int32Array(count);
  const last = new Int32Array(count);
  for (let x = 0; x < count; x += 1) {
    const from = Math.floor(edges[x]);
    const to = Math.max(from, Math.ceil(edges[x + 1]) - 1);
    first[x] = level.columnOf[from];
    last[x] = level.columnOf[Math.min(to, level.columnOf.length - 1)];
  }
  return { first, last };
}

/** Raises `line` to the largest codes of one row of a level. */
function raise(line, level, row, bins) {
  const { codes } = level;
  const start = row * level.columns;
  for (let x = 0; x < line.length; x += 1) {
    let from = bins.first[x];
    const to = bins.last[x];
    if (from < 0) from = to;
    if (from < 0) continue;
    let largest = line[x];
    for (let bin = from; bin <= to; bin += 1) {
      const code = codes[start + bin];
      if (code > largest) largest = code;
    }
    line[x] = largest;
  }
}

/** The colour of each code of a level. */
function coloursOf(level, scale) {
  const colours = new Uint32Array(level.values.length);
  for (let code = 1; code < colours.length; code += 1) colours[code] = scale.at(level.values[code]);
  return colours;
}

function hatch(x, y, marks) {
  return (x + y) % marks.period < marks.width ? marks.line : marks.ground;
}

function missingMarks(ratio) {
  return {
    line: pixelOf(colour("missing")), ground: pixelOf(colour("panel")),
    period: Math.round(6 * ratio), width: Math.max(1, Math.round(1.4 * ratio)),
  };
}

/**
 * Draws the slots and columns of a view into `image` (an ImageData). `order` has the rank of each slot. Levels of
 * one layer count on one scale of codes or not: each is coloured by itself.
 */
export function drawCells(image, { levels, order, view, scale, ratio }) {
  const { width, height } = image;
  const pixels = new Uint32Array(image.data.buffer);
  const columnEdges = pixelEdges(view.x0, view.x1, width);
  const slotEdges = pixelEdges(view.y0, view.y1, height);
  const used = coarseEnough(levels, (view.y1 - view.y0) / height, (view.x1 - view.x0) / width);
  const tools = used.map((level) => ({
    level, bins: binsOfPixels(level, columnEdges), colours: coloursOf(level, scale), line: new Uint16Array(width), rows: [],
  }));
  const marks = missingMarks(ratio);
  let before = "";
  for (let y = 0; y < height; y += 1) {
    const key = collectRows(tools, order, slotEdges[y], slotEdges[y + 1]);
    if (key !== before) {
      for (const tool of tools) {
        tool.line.fill(0);
        for (const row of tool.rows) raise(tool.line, tool.level, row, tool.bins);
      }
      before = key;
    }
    paintLine(pixels, y, width, tools, marks);
  }
}

/** Which rows of which level a line of pixels covers; equal keys mean equal lines. */
function collectRows(tools, order, from, to) {
  for (const tool of tools) tool.rows.length = 0;
  const first = Math.floor(from);
  const last = Math.min(order.length - 1, Math.max(first, Math.ceil(to) - 1));
  for (let slot = first; slot <= last; slot += 1) {
    const rank = order[slot];
    for (const { level, rows } of tools) {
      const row = level.rowOf[rank];
      if (row < 0) continue;
      if (rows[rows.length - 1] !== row) rows.push(row);
      break;
    }
  }
  return tools.map(({ rows }) => rows.join()).join(";");
}

function paintLine(pixels, y, width, tools, marks) {
  const start = y * width;
  for (let x = 0; x < width; x += 1) {
    let drawn = 0;
    let largest = -1;
    for (const { level, line, colours } of tools) {
      const code = line[x];
      if (code === 0 || level.values[code] <= largest) continue;
      largest = level.values[code];
      drawn = colours[code];
    }
    pixels[start + x] = drawn || hatch(x, y, marks);
  }
}
