// SPDX-License-Identifier: Apache-2.0
//
// The scale of colours, with its unit.
import { colour, scale as makeScale } from "./colours.js";
import { element, sharpCanvas } from "./dom.js";
import { inUnit, logTicks, number, ticks } from "./format.js";
import { fontOf } from "./heat_axes.js";

const WIDTH = 300;
const BAR_HEIGHT = 12;

/** The unit in which a scale up to `high` is read best. */
function readable(unit, high) {
  if (unit !== "ms") return { factor: 1, unit };
  if (high >= 10_000) return { factor: 0.001, unit: "s" };
  return high < 0.1 ? { factor: 1000, unit: "µs" } : { factor: 1, unit };
}

export class Legend {
  constructor() {
    this.sharp = sharpCanvas({ role: "img" });
    this.note = element("span", { class: "cep-legend-note" });
    this.root = element(
      "div",
      { class: "cep-legend" },
      this.sharp.canvas,
      element("span", { class: "cep-legend-missing" }, element("i", {}), "no row"),
      this.note,
    );
  }

  draw(layer, label, width) {
    const { low, high } = layer.scale;
    const scale = makeScale(layer.scale);
    const barWidth = Math.min(WIDTH, width - 20);
    this.sharp.resize(barWidth + 2, BAR_HEIGHT + 20);
    const { context, canvas } = this.sharp;
    for (let x = 0; x < barWidth; x += 1) {
      context.fillStyle = scale.css((x + 0.5) / barWidth);
      context.fillRect(x, 0, 1.5, BAR_HEIGHT);
    }
    this.drawTicks(context, scale, layer, barWidth);
    const words = `${label}, ${inUnit(low, layer.unit, 3)} to ${inUnit(high, layer.unit, 3)}`;
    canvas.setAttribute("aria-label", `Scale of the colours: ${words}`);
    this.note.textContent = `${label}; beyond the ends the last colour`;
  }

  drawTicks(context, scale, layer, barWidth) {
    const { low, high, kind } = layer.scale;
    const { factor, unit } = readable(layer.unit, high);
    context.font = fontOf(11);
    context.textBaseline = "top";
    const values = kind === "linear" ? ticks(low, high, 5) : logTicks(low, high, 5);
    const labels = values.map((value) => ({ value, x: scale.position(value) * barWidth, text: number(value * factor, 3) }));
    let free = -Infinity;
    labels.forEach(({ x, text }, index) => {
      const words = index === labels.length - 1 ? `${text} ${unit}` : text;
      const half = context.measureText(words).width / 2;
      const at = Math.min(Math.max(x, half), barWidth - half);
      if (at - half < free) return;
      free = at + half + 6;
      context.fillStyle = colour("muted");
      context.fillRect(Math.min(x, barWidth - 1), BAR_HEIGHT, 1, 3);
      context.textAlign = "center";
      context.fillText(words, at, BAR_HEIGHT + 5);
    });
  }
}
