// SPDX-License-Identifier: Apache-2.0
//
// Colours: the page's own (CSS variables), and scales that people with any colour vision can read.

// The page's stops of the scale, from low to high. Its lightness rises evenly, also where red and green look alike.
let sequential = [];

export function useStops(stops) {
  sequential = stops;
}

/** The value of one of the page's colours, as #rrggbb. */
export function colour(name) {
  const value = getComputedStyle(document.documentElement).getPropertyValue(`--${name}`).trim();
  return value.length === 4 ? value.replace(/[^#]/g, "$&$&") : value;
}

function channels(hex) {
  return [1, 3, 5].map((at) => parseInt(hex.slice(at, at + 2), 16));
}

/** A colour of the page with some of what is behind it. */
export function faded(name, share) {
  return `rgba(${channels(colour(name)).join(",")},${share})`;
}

function mix(stops, position) {
  const place = Math.min(1, Math.max(0, position)) * (stops.length - 1);
  const below = Math.min(stops.length - 2, Math.floor(place));
  const share = place - below;
  const [from, to] = [channels(stops[below]), channels(stops[below + 1])];
  return from.map((channel, index) => Math.round(channel + (to[index] - channel) * share));
}

/** As ImageData stores a pixel in a Uint32Array (little endian). */
export function pixel([red, green, blue]) {
  return ((255 << 24) | (blue << 16) | (green << 8) | red) >>> 0;
}

export function pixelOf(hex) {
  return pixel(channels(hex));
}

/** Whether the page is dark now. */
export function isDark() {
  const chosen = document.documentElement.dataset.theme;
  return chosen ? chosen === "dark" : matchMedia("(prefers-color-scheme: dark)").matches;
}

/** A scale from values to colours: position() gives 0 to 1, css() the colour there, at() a value's as a pixel. */
export function scale({ kind, low, high }) {
  const span = Math.log(high / low) || 1;
  const position =
    kind === "linear"
      ? (value) => (value - low) / (high - low || 1)
      : (value) => (value > 0 ? Math.log(value / low) / span : 0);
  return {
    position,
    css: (share) => `rgb(${mix(sequential, share).join(",")})`,
    at: (value) => pixel(mix(sequential, position(value))),
  };
}

const listeners = new Set();

/** Calls redraw() when the page turns dark or light. */
export function onTheme(redraw) {
  listeners.add(redraw);
}

export function themeChanged() {
  for (const redraw of listeners) redraw();
}
