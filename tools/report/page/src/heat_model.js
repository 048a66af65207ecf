// SPDX-License-Identifier: Apache-2.0
//
// The heat map's cells: levels of detail, and the order of the ranks.
//
// A place in the picture is a slot (a rank, in the order chosen) and a column (a step of the finest grid). Levels have
// rows and columns of their own; rowOf and columnOf lead from a rank and a column to them.
import { decodeBlock } from "./data.js";

/** The finest of the grids that a layer's levels use. */
function finestSteps(data, layers) {
  const grids = new Set(layers.flatMap((layer) => layer.levels.map((level) => level.steps)));
  return [...grids]
    .map((index) => data.step_bins[index])
    .reduce((finest, grid) => (grid.first.length > finest.first.length ? grid : finest));
}

/** For each bin of `fine`, the bin of `coarse` that it lies in; -1 where there is none. */
function binOf(fine, coarse) {
  const found = new Int32Array(fine.first.length).fill(-1);
  let bin = 0;
  for (let index = 0; index < found.length; index += 1) {
    while (bin < coarse.first.length && coarse.last[bin] < fine.first[index]) bin += 1;
    if (bin < coarse.first.length && coarse.first[bin] <= fine.first[index]) found[index] = bin;
  }
  return found;
}

function meanWidth(grid) {
  let sum = 0;
  for (let index = 0; index < grid.first.length; index += 1) sum += grid.last[index] - grid.first[index] + 1;
  return sum / Math.max(1, grid.first.length);
}

export class HeatModel {
  constructor(data) {
    this.data = data;
    this.ranks = data.ranks.rank.length;
    this.everyRank = {
      first: data.ranks.rank.map((_, index) => index),
      last: data.ranks.rank.map((_, index) => index),
    };
    this.steps = finestSteps(data, data.layers);
    this.columns = this.steps.first.length;
    this.base = data.rank_bins[data.layers[0].levels[0].ranks];
    this.baseOf = binOf(this.everyRank, this.base);
    this.levels = new Map();
  }

  /** The levels of a layer, the finest first. */
  levelsOf(layer) {
    if (!this.levels.has(layer)) this.levels.set(layer, this.decodeLevels(layer));
    return this.levels.get(layer);
  }

  async decodeLevels(layer) {
    const levels = await Promise.all(
      layer.levels.map(async (level) => {
        const rankBins = this.data.rank_bins[level.ranks];
        const stepBins = this.data.step_bins[level.steps];
        const { codes, values, columns, exact } = await decodeBlock(level.block);
        return {
          codes,
          values,
          columns,
          exact,
          rankBins,
          stepBins,
          rowOf: binOf(this.everyRank, rankBins),
          columnOf: binOf(this.steps, stepBins),
          ranksPerRow: meanWidth(rankBins),
          columnsPerBin: this.columns / stepBins.first.length,
        };
      }),
    );
    return levels.sort((a, b) => a.ranksPerRow * a.columnsPerBin - b.ranksPerRow * b.columnsPerBin);
  }

  /** "9", "7–8" */
  stepsOf(column) {
    return [this.steps.first[column], this.steps.last[column]];
  }

  /**
   * {order, levels}: the ranks in an order, and the levels that can show it. If one of them has a row for each rank, it
   * is those with rows of single ranks, that one the last; else all, and the ranks of one row of the overview stay
   * beside each other.
   */
  arrange(by, grouped, means, levels) {
    const ranks = this.sort(by, grouped, means);
    if (by === "rank" && !grouped) return { order: Int32Array.from(ranks), levels };
    const fine = levels.filter((level) => level.ranksPerRow === 1);
    const full = fine.find((level) => level.rowOf.every((row) => row >= 0));
    if (!full) return { order: Int32Array.from(this.keepBinsTogether(ranks)), levels };
    return { order: Int32Array.from(ranks), levels: [...fine.filter((level) => level !== full), full] };
  }

  /**
   * The ranks by "rank", "host", "slowness" (the most first) or "value" (`means` by rank, the most first), in groups of
   * one role if asked for.
   */
  sort(by, grouped, means) {
    const { host, role, slowness } = this.data.ranks;
    const size = by === "value" && means ? means : slowness;
    const amount = (rank) => (Number.isFinite(size[rank]) ? size[rank] : -Infinity);
    const compare = (a, b) =>
      (grouped ? role[a] - role[b] : 0) ||
      (by === "host" ? host[a] - host[b] : 0) ||
      (by === "slowness" || by === "value" ? descending(amount(a), amount(b)) : 0) ||
      a - b;
    return this.data.ranks.rank.map((_, index) => index).sort(compare);
  }

  /** A bin goes where its first rank would. */
  keepBinsTogether(ranks) {
    const bins = new Map();
    for (const rank of ranks) {
      const bin = this.baseOf[rank];
      if (!bins.has(bin)) bins.set(bin, []);
      bins.get(bin).push(rank);
    }
    return [...bins.values()].flat();
  }
}

function descending(a, b) {
  if (a === b) return 0;
  return a > b ? -1 : 1;
}

/** The cell of a rank and a column: {value, exact, firstRank, lastRank, firstStep, lastStep}; value is NaN if missing. */
export function cellAt(levels, rank, column) {
  const level = levels.find((one) => one.rowOf[rank] >= 0); // the finest that has the rank
  const row = level ? level.rowOf[rank] : -1;
  const bin = level ? level.columnOf[column] : -1;
  if (row < 0 || bin < 0) return { value: NaN, exact: true, firstRank: rank, lastRank: rank };
  const code = level.codes[row * level.columns + bin];
  return {
    value: level.values[code],
    exact: level.exact,
    firstRank: level.rankBins.first[row],
    lastRank: level.rankBins.last[row],
    firstStep: level.stepBins.first[bin],
    lastStep: level.stepBins.last[bin],
  };
}
