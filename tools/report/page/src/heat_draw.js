// SPDX-License-Identifier: Apache-2.0
//
// The heat map's pixels: one pass over typed arrays, the largest value of what a pixel covers.
import { colour, pixelOf } from "./colours.js";

/** The last level has all ranks: it will do alone where its cells are no larger than a pixel. */
function coarseEnough(levels, ranksPerPixel, columnsPerPixel) {
  const coarsest = levels[levels.length - 1];
  return coarsest.ranksPerRow <= ranksPerPixel && coarsest.columnsPerBin <= columnsPerPixel ? [coarsest] : levels;
}

/**
 * The first and the last column or slot, of those in [from, to), that each pixel of an axis covers. Where these are
 * larger than a pixel, it is the one at the pixel's middle.
 */
function cover(from, to, pixels) {
  const size = (to - from) / pixels;
  const first = new Int32Array(pixels);
  const last = new Int32Array(pixels);
  for (let index = 0; index < pixels; index += 1) {
    const [begin, end] = [from + size * index, from + size * (index + 1)];
    first[index] = Math.floor(size < 1 ? (begin + end) / 2 : begin);
    last[index] = size < 1 ? first[index] : Math.min(to - 1, Math.max(first[index], Math.ceil(end) - 1));
  }
  return { first, last };
}

/** The first and the last bin of a level that each pixel covers; -1 where it covers none. */
function binsOfPixels(level, columns) {
  return {
    first: columns.first.map((column) => level.columnOf[column]),
    last: columns.last.map((column) => level.columnOf[column]),
  };
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

/** The colour of each code of a level, which has one scale for good. */
function coloursOf(level, scale) {
  level.colours ||= makeColours(level, scale);
  return level.colours;
}

function makeColours(level, scale) {
  const colours = new Uint32Array(level.values.length);
  for (let code = 1; code < colours.length; code += 1) colours[code] = scale.at(level.values[code]);
  return colours;
}

function hatch(x, y, marks) {
  return (x + y) % marks.period < marks.width ? marks.line : marks.ground;
}

function missingMarks(ratio) {
  return {
    line: pixelOf(colour("missing")),
    ground: pixelOf(colour("panel")),
    period: Math.round(6 * ratio),
    width: Math.max(1, Math.round(1.4 * ratio)),
  };
}

/**
 * Draws the slots and columns of a view into `image` (an ImageData). `order` has the rank of each slot. Levels of
 * one layer count on one scale of codes or not: each is coloured by itself.
 */
export function drawCells(image, { levels, order, view, scale, ratio }) {
  const { width, height } = image;
  const pixels = new Uint32Array(image.data.buffer);
  const columns = cover(view.x0, view.x1, width);
  const slots = cover(view.y0, view.y1, height);
  const used = coarseEnough(levels, (view.y1 - view.y0) / height, (view.x1 - view.x0) / width);
  const tools = used.map((level) => ({
    level,
    bins: binsOfPixels(level, columns),
    colours: coloursOf(level, scale),
    line: new Uint16Array(width),
    rows: [],
  }));
  const marks = missingMarks(ratio);
  let before = "";
  for (let y = 0; y < height; y += 1) {
    const key = collectRows(tools, order, slots.first[y], slots.last[y]);
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
function collectRows(tools, order, first, last) {
  for (const tool of tools) tool.rows.length = 0;
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
