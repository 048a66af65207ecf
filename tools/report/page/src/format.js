// SPDX-License-Identifier: Apache-2.0
//
// Numbers as people read them.

/** Four significant digits, thousands grouped, never an exponent for what fits. */
export function number(value, digits = 4) {
  if (!Number.isFinite(value)) return "–";
  const size = Math.abs(value);
  if (size !== 0 && (size < 1e-6 || size >= 1e15)) return value.toExponential(2);
  return value.toLocaleString("en", { maximumSignificantDigits: digits, useGrouping: size >= 10000 });
}

const UNITS_OF_TIME = [
  [1000, 1 / 1000, "s"],
  [1, 1, "ms"],
  [0, 1000, "µs"],
];

/** 0.0123 → "12.3 µs", 1234 → "1.234 s". */
export function milliseconds(value, digits = 4) {
  if (!Number.isFinite(value)) return "–";
  const size = Math.abs(value);
  if (size === 0) return "0 ms";
  const [, factor, unit] = UNITS_OF_TIME.find(([least]) => size >= least);
  return `${number(value * factor, digits)} ${unit}`;
}

/** The values of an axis, all in the unit of the largest; null stays empty. */
export function millisecondsOfAxis(values) {
  const largest = Math.max(...values.filter(Number.isFinite).map(Math.abs));
  const [, factor, unit] = UNITS_OF_TIME.find(([least]) => largest >= least) || UNITS_OF_TIME[1];
  return values.map((value) => (Number.isFinite(value) ? `${number(value * factor, 4)} ${unit}` : ""));
}

export function bytes(value) {
  const units = ["B", "kB", "MB", "GB", "TB", "PB"];
  let unit = 0;
  for (; Math.abs(value) >= 1000 && unit + 1 < units.length; unit += 1) value /= 1000;
  return `${number(value, 3)} ${units[unit]}`;
}

/** A value in a unit of the data. */
export function inUnit(value, unit, digits = 4) {
  if (!Number.isFinite(value)) return "–";
  if (unit === "ms") return milliseconds(value, digits);
  if (unit === "bytes" || unit === "B") return bytes(value);
  if (unit === "×" || unit === "x") return `${number(value, Math.min(digits, 3))} ×`;
  return unit ? `${number(value, digits)} ${unit}` : number(value, digits);
}

/** "7", "7–9". */
export function range(first, last) {
  return first === last ? String(first) : `${first}–${last}`;
}

export function plural(count, one, many = `${one}s`) {
  return `${count.toLocaleString("en")} ${count === 1 ? one : many}`;
}

/** About `count` round numbers from low to high. */
export function ticks(low, high, count) {
  if (!(high > low)) return [low];
  const rough = (high - low) / Math.max(1, count);
  const power = 10 ** Math.floor(Math.log10(rough));
  const step = [1, 2, 5, 10].map((factor) => factor * power).find((size) => size >= rough);
  const found = [];
  for (let index = Math.ceil(low / step); index * step <= high + step * 1e-9; index += 1) found.push(index * step);
  return found;
}

/** Round numbers of a logarithmic axis: 1, 2 and 5 times powers of ten, or as many as there is room for. */
export function logTicks(low, high, count) {
  const decades = Math.log10(high / low);
  if (decades < 0.7) return ticks(low, high, count).filter((value) => value > 0);
  const factors = decades * 3 <= count * 1.3 ? [1, 2, 5] : [1];
  const every = factors.length === 1 ? Math.max(1, Math.ceil(decades / count)) : 1;
  const found = [];
  for (let power = Math.floor(Math.log10(low)); power <= Math.ceil(Math.log10(high)); power += every) {
    for (const factor of factors) {
      const value = factor * 10 ** power;
      if (value >= low * 0.999 && value <= high * 1.001) found.push(value);
    }
  }
  return found.length < 3 ? ticks(low, high, count).filter((value) => value > 0) : found;
}
