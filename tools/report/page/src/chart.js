// SPDX-License-Identifier: Apache-2.0
//
// uPlot as this page uses it: colours of the page, the page's tooltip, and the keyboard.
import uPlot from "uplot";
import { colour, onTheme } from "./colours.js";
import { announcer, element, onWidth, tooltip } from "./dom.js";
import { fontOf } from "./heat_axes.js";

// Of all values: no plot shows less.
const LEAST_SPAN = 1e-4;

export function axis(options = {}) {
  return {
    font: fontOf(12),
    labelFont: fontOf(12),
    stroke: colour("muted"),
    grid: { stroke: colour("line"), width: 1 },
    ticks: { stroke: colour("line"), width: 1, size: 4 },
    labelSize: 18,
    size: 26,
    gap: 4,
    ...options,
  };
}

/** Lines through a plot at positions of x: [{x, text, colour, dash}], drawn by a hook. */
export function verticalLines(lines) {
  return (plot) => {
    const { ctx: context, bbox: box } = plot;
    const ratio = uPlot.pxRatio;
    context.save();
    context.font = fontOf(11 * ratio);
    context.textBaseline = "top";
    context.textAlign = "left";
    let free = -Infinity;
    for (const line of lines) {
      const x = Math.round(plot.valToPos(line.x, "x", true));
      if (x < box.left || x > box.left + box.width) continue;
      context.strokeStyle = colour(line.colour);
      context.fillStyle = colour(line.colour);
      context.lineWidth = 1.5 * ratio;
      context.setLineDash(line.dash ? [4 * ratio, 3 * ratio] : []);
      context.beginPath();
      context.moveTo(x, box.top);
      context.lineTo(x, box.top + box.height);
      context.stroke();
      const width = line.text ? context.measureText(line.text).width : 0;
      if (!width || x < free) continue;
      const left = Math.min(x + 4 * ratio, box.left + box.width - width);
      context.fillText(line.text, left, box.top + 2 * ratio);
      free = left + width + 6 * ratio;
    }
    context.restore();
  };
}

/**
 * A plot that redraws itself with the width and the theme. `options()` and `data()` are uPlot's; `describe(index)`
 * gives the lines of the tooltip; `label` says what the picture is. Of a plot of `dots`, the pointer reads the nearest.
 */
export class Chart {
  constructor({ label, height, options, data, describe, dots }) {
    Object.assign(this, { height, options, data, describe, dots });
    this.holder = element("div", {
      class: "cep-plot",
      tabindex: 0,
      role: "application",
      "aria-roledescription": "chart",
      "aria-label": `${label}. Left and right arrow keys read the values.`,
      onkeydown: (event) => this.key(event),
      onblur: () => tooltip.hide(),
      onpointerleave: (event) => tooltip.leave(event),
    });
    this.announcer = announcer();
    this.root = element("div", {}, this.holder, this.announcer.line);
    onWidth(this.holder, (width) => {
      this.width = width;
      this.redraw();
    });
    onTheme(() => this.redraw());
  }

  redraw() {
    if (!this.width) return;
    tooltip.hide();
    this.plot?.destroy();
    const given = this.options(this.width);
    const options = {
      width: this.width,
      height: this.height,
      legend: { show: false },
      ...given,
      cursor: { points: { size: 7 }, drag: { x: true, y: false }, ...given.cursor, bind: this.pointerEvents() },
    };
    this.plot = new uPlot(options, this.data(), this.holder);
    this.ring = element("span", { class: "cep-ring", hidden: true });
    this.plot.over.append(this.ring);
  }

  /** The place of a dot in the plot, {x, y}; null where it has none. */
  dotAt(index) {
    const { plot } = this;
    const series = plot.data.findIndex(
      (values, row) => row > 0 && plot.series[row].points.show && Number.isFinite(values[index]),
    );
    if (series < 0) return null;
    return { x: plot.valToPos(plot.data[0][index], "x"), y: plot.valToPos(plot.data[series][index], "y") };
  }

  nearestDot(x, y) {
    let best = { index: null, distance: Infinity };
    for (let index = 0; index < this.plot.data[0].length; index += 1) {
      const dot = this.dotAt(index);
      const distance = dot ? (dot.x - x) ** 2 + (dot.y - y) ** 2 : Infinity;
      if (distance < best.distance) best = { index, distance };
    }
    return best.index;
  }

  encircle(index) {
    const dot = this.dots && index !== null ? this.dotAt(index) : null;
    this.ring.hidden = !dot;
    if (dot) Object.assign(this.ring.style, { left: `${dot.x}px`, top: `${dot.y}px` });
    return dot;
  }

  pointerEvents() {
    return {
      mousemove: (plot, target, handler) => (event) => {
        handler(event);
        const index = this.dots ? this.nearestDot(plot.cursor.left, plot.cursor.top) : (plot.cursor.idx ?? null);
        const lines = index === null ? null : this.describe(index);
        this.encircle(index);
        if (lines) tooltip.show(event.clientX, event.clientY, lines);
        else tooltip.hide();
        return null;
      },
      mouseleave: (plot, target, handler) => (event) => {
        tooltip.hide();
        this.encircle(null);
        handler(event);
        return null;
      },
    };
  }

  /** Around the value that was read last, or the middle. */
  zoomBy(factor) {
    const { min, max } = this.plot.scales.x;
    const xs = this.plot.data[0];
    const middle = this.index === undefined ? (min + max) / 2 : xs[this.index];
    const half = ((max - min) * factor) / 2;
    if (xs.length < 3 || half < LEAST_SPAN * (xs.at(-1) - xs[0])) return;
    this.plot.setScale("x", { min: Math.max(xs[0], middle - half), max: Math.min(xs.at(-1), middle + half) });
  }

  key(event) {
    const { plot } = this;
    const moves = { ArrowLeft: -1, ArrowRight: 1, PageUp: -10, PageDown: 10, Home: -Infinity, End: Infinity };
    const move = moves[event.key];
    if (event.key === "Escape" && plot) this.redraw();
    const zoom = { "+": 0.5, "=": 0.5, "-": 2 }[event.key];
    if (zoom && plot) this.zoomBy(zoom);
    if (!move || !plot || plot.data[0].length === 0) return;
    event.preventDefault();
    this.index = this.step(move);
    const lines = this.describe(this.index);
    if (!lines) return;
    this.announcer.say(lines.filter(Boolean).join(", "));
    const dot = this.encircle(this.index);
    const left = plot.valToPos(plot.data[0][this.index], "x");
    const top = dot ? dot.y : plot.over.clientHeight / 2;
    plot.setCursor({ left, top }, false);
    const bounds = plot.over.getBoundingClientRect();
    tooltip.show(bounds.left + left, bounds.top + top, lines);
  }

  /** The next value in a direction that there is something to say about. */
  step(move) {
    const last = this.plot.data[0].length - 1;
    const clamp = (index) => Math.min(last, Math.max(0, index));
    const direction = Math.sign(move);
    let index = clamp((this.index ?? -1) + move);
    const inwards = Number.isFinite(move) ? direction : -direction;
    while (!this.describe(index) && index + inwards >= 0 && index + inwards <= last) index += inwards;
    return index;
  }
}

/** What the colours mean: [{text, colour, kind: "line"|"area"|"dash"|"dot"}]. */
export function key(entries) {
  return element(
    "ul",
    { class: "cep-key" },
    ...entries.map(({ text, colour: name, kind = "area" }) => {
      const mark = element("i", { class: `cep-mark-${kind}` });
      mark.style.setProperty("--mark", `var(--${name})`);
      return element("li", {}, mark, text);
    }),
  );
}
