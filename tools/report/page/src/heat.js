// SPDX-License-Identifier: Apache-2.0
//
// The heat map: choices, zoom, pointer and keyboard. What it shows is in heat_model.js, how in heat_draw.js.
import { colour, onTheme, scale as makeScale } from "./colours.js";
import { columnOf } from "./data.js";
import { announcer, button, choice, element, onWidth, sharpCanvas, tooltip } from "./dom.js";
import { plural, range } from "./format.js";
import { drawAround, leftMargin, MARGIN, placesIn } from "./heat_axes.js";
import { drawCells } from "./heat_draw.js";
import { HeatModel } from "./heat_model.js";
import { describeCell, MEASURES } from "./heat_words.js";
import { Legend } from "./legend.js";

const DRAG_PIXELS = 5;
const MOVES = {
  ArrowLeft: [-1, 0],
  ArrowRight: [1, 0],
  ArrowUp: [0, -1],
  ArrowDown: [0, 1],
  PageUp: [0, -10],
  PageDown: [0, 10],
};

class HeatMap {
  constructor(data) {
    this.data = data;
    this.model = new HeatModel(data);
    this.layer = firstLayer(data);
    this.sort = "rank";
    this.grouped = false;
    this.history = [];
    this.known = new Map();
    this.cursor = null;
    this.drag = null;
    this.whole = { x0: 0, x1: this.model.columns, y0: 0, y1: this.model.ranks };
    this.view = this.whole;
    this.build();
  }

  build() {
    this.sharp = sharpCanvas({
      class: "cep-heat",
      tabindex: 0,
      role: "application",
      "aria-roledescription": "heat map",
      "aria-label": "Heat map of ranks and steps. Arrow keys move, plus and minus zoom, Escape goes back.",
    });
    this.legend = new Legend();
    this.announcer = announcer();
    this.controls = element("div", { class: "cep-controls" });
    this.where = element("span", { class: "cep-where" });
    this.back = button("Back", () => this.goBack(), "Escape or a double click");
    this.all = button("Whole job", () => this.showAll(), "Key 0");
    this.root = element(
      "div",
      { class: "cep-live" },
      this.controls,
      this.legend.root,
      this.sharp.canvas,
      element(
        "div",
        { class: "cep-zoom" },
        button("+", () => this.zoomBy(0.5), "Zoom in (key +)"),
        button("−", () => this.zoomBy(2), "Zoom out (key −)"),
        this.back,
        this.all,
        this.where,
      ),
      this.announcer.line,
    );
    this.listen(this.sharp.canvas);
    this.fillControls();
  }

  fillControls() {
    const { data, layer } = this;
    const phases = [...new Set(data.layers.map((one) => one.phase))].sort((a, b) => a - b);
    const measures = Object.keys(MEASURES).filter((measure) =>
      data.layers.some((one) => one.phase === layer.phase && one.measure === measure),
    );
    const sorts = [["rank", "rank"]];
    if (data.hosts.length > 1) sorts.push(["host", "host"]);
    if (data.ranks.slowness.some(Number.isFinite)) sorts.push(["slowness", "slowness"]);
    if (layer.by_rank) sorts.push(["value", "its mean"]);
    const parts = [
      choice(
        "Phase",
        phases.map((phase) => [String(phase), data.phases[phase].name]),
        String(layer.phase),
        (phase) => this.choose(Number(phase), layer.measure),
      ),
      choice(
        "Show",
        measures.map((measure) => [measure, MEASURES[measure]]),
        layer.measure,
        (measure) => this.choose(layer.phase, measure),
      ),
      choice("Sort by", sorts, this.sort, (sort) => this.arrange(sort, this.grouped)),
    ];
    if (data.roles.length > 1) {
      const box = element("input", { type: "checkbox", onchange: () => this.arrange(this.sort, box.checked) });
      box.checked = this.grouped;
      parts.push(element("label", { class: "cep-check" }, box, element("span", {}, "Group by role")));
    }
    this.controls.replaceChildren(...parts);
  }

  /** Keeps what is in focus in focus, where the controls are made anew. */
  refillControls() {
    const focused = [...this.controls.querySelectorAll("select, input")].indexOf(document.activeElement);
    this.fillControls();
    if (focused >= 0) this.controls.querySelectorAll("select, input")[focused]?.focus();
  }

  async choose(phase, measure) {
    const layers = this.data.layers.filter((layer) => layer.phase === phase);
    this.layer = layers.find((layer) => layer.measure === measure) || layers[0];
    this.refillControls();
    await this.update();
  }

  async arrange(sort, grouped) {
    this.sort = sort;
    this.grouped = grouped;
    this.history = [];
    const { whole, view } = this;
    this.view = view.x0 === whole.x0 && view.x1 === whole.x1 ? whole : { ...view, y0: whole.y0, y1: whole.y1 };
    await this.update();
  }

  /** Reads what the picture needs, then draws. A later choice wins over an earlier one. */
  async update() {
    const { layer } = this;
    const [levels, means] = await Promise.all([this.model.levelsOf(layer), columnOf(layer.by_rank)]);
    if (layer !== this.layer) return;
    Object.assign(this, this.model.arrange(this.sort, this.grouped, means, levels));
    this.slotOf = new Int32Array(this.order.length);
    this.order.forEach((rank, slot) => {
      this.slotOf[rank] = slot;
    });
    this.draw();
    setTimeout(() => this.learn());
  }

  async start() {
    await this.update();
    onWidth(this.root, (width) => {
      this.width = width;
      this.draw();
    });
    onTheme(() => this.draw());
  }

  get box() {
    const left = leftMargin(this.width);
    return { left, width: this.width - left - MARGIN.right, height: this.cellsHeight };
  }

  get cellsHeight() {
    const most = this.width < 560 ? 360 : 460;
    return Math.round(Math.min(most, Math.max(120, this.model.ranks * 18)));
  }

  draw() {
    if (!this.width || !this.levels) return;
    tooltip.hide();
    const {
      box,
      view,
      layer,
      sharp: { context },
    } = this;
    const ratio = this.sharp.resize(this.width, box.height + MARGIN.top + MARGIN.bottom);
    const image = context.createImageData(Math.max(1, Math.round(box.width * ratio)), Math.round(box.height * ratio));
    drawCells(image, { levels: this.levels, order: this.order, view, scale: makeScale(layer.scale), ratio });
    context.putImageData(image, Math.round(box.left * ratio), Math.round(MARGIN.top * ratio));
    drawAround(context, box, {
      data: this.data,
      model: this.model,
      view,
      order: this.order,
      slotOf: this.slotOf,
      by: this.sort,
      grouped: this.grouped,
    });
    this.cells = context.getImageData(0, 0, this.sharp.canvas.width, this.sharp.canvas.height);
    this.drawCursor();
    this.legend.draw(layer, this.title, this.width);
    this.describeView();
    this.root.dataset.drawn = String(Number(this.root.dataset.drawn || 0) + 1);
  }

  get title() {
    return `${this.data.phases[this.layer.phase].name}, ${MEASURES[this.layer.measure]}`;
  }

  describeView() {
    const { view, model } = this;
    const zoomed = view !== this.whole;
    const steps = range(model.steps.first[view.x0], model.steps.last[view.x1 - 1]);
    const ranks = plural(view.y1 - view.y0, "rank");
    this.where.textContent = `${ranks}, ${view.x1 - view.x0 > 1 ? "steps" : "step"} ${steps}${zoomed ? "" : ": drag over a part to enlarge it"}`;
    this.back.disabled = this.history.length === 0;
    this.all.disabled = !zoomed;
  }

  // The frame of the cell at the cursor, and what is being dragged over.
  drawCursor() {
    const { context } = this.sharp;
    if (this.cells) context.putImageData(this.cells, 0, 0);
    const { x, y } = placesIn(this.box, this.view);
    context.lineWidth = 2;
    if (this.cursor) {
      const { column, slot } = this.cursor;
      const [width, height] = [Math.max(5, x(column + 1) - x(column)), Math.max(5, y(slot + 1) - y(slot))];
      const [left, top] = [(x(column) + x(column + 1) - width) / 2, (y(slot) + y(slot + 1) - height) / 2];
      context.strokeStyle = colour("ground");
      context.strokeRect(left - 2, top - 2, width + 4, height + 4);
      context.strokeStyle = colour("ink");
      context.strokeRect(left, top, width, height);
    }
    if (!this.drag?.moved) return;
    const { x0, x1, y0, y1 } = this.dragged();
    context.fillStyle = colour("accent");
    context.globalAlpha = 0.25;
    context.fillRect(x(x0), y(y0), x(x1) - x(x0), y(y1) - y(y0));
    context.globalAlpha = 1;
    context.strokeStyle = colour("accent");
    context.strokeRect(x(x0), y(y0), x(x1) - x(x0), y(y1) - y(y0));
  }

  /** The part of the picture at a point: {column, slot, inside}, clamped to what is shown. */
  placeAt(event) {
    const bounds = this.sharp.canvas.getBoundingClientRect();
    const { box, view } = this;
    const x = (event.clientX - bounds.left - box.left) / box.width;
    const y = (event.clientY - bounds.top - MARGIN.top) / box.height;
    const clamp = (value, low, high) => Math.min(high - 1, Math.max(low, Math.floor(value)));
    return {
      column: clamp(view.x0 + x * (view.x1 - view.x0), view.x0, view.x1),
      slot: clamp(view.y0 + y * (view.y1 - view.y0), view.y0, view.y1),
      inside: x >= 0 && x < 1 && y >= 0 && y < 1,
    };
  }

  /** The columns and slots that a drag covers; a drag along one axis keeps all of the other. */
  dragged() {
    const { from, to, wide, high } = this.drag;
    const { view } = this;
    return {
      x0: wide ? Math.min(from.column, to.column) : view.x0,
      x1: wide ? Math.max(from.column, to.column) + 1 : view.x1,
      y0: high ? Math.min(from.slot, to.slot) : view.y0,
      y1: high ? Math.max(from.slot, to.slot) + 1 : view.y1,
    };
  }

  listen(canvas) {
    canvas.addEventListener("pointerdown", (event) => this.press(event));
    canvas.addEventListener("pointermove", (event) => this.move(event));
    canvas.addEventListener("pointerup", (event) => this.release(event));
    canvas.addEventListener("pointercancel", () => this.stopDrag());
    canvas.addEventListener("pointerleave", (event) => tooltip.leave(event));
    canvas.addEventListener("dblclick", () => this.goBack());
    canvas.addEventListener("keydown", (event) => this.key(event));
    canvas.addEventListener("blur", () => tooltip.hide());
  }

  press(event) {
    if (event.button !== 0) return;
    const from = this.placeAt(event);
    if (!from.inside) return;
    this.drag = { from, to: from, x: event.clientX, y: event.clientY, moved: false };
    this.sharp.canvas.setPointerCapture(event.pointerId);
  }

  move(event) {
    const place = this.placeAt(event);
    if (this.drag) {
      const wide = Math.abs(event.clientX - this.drag.x) > DRAG_PIXELS;
      const high = Math.abs(event.clientY - this.drag.y) > 2 * DRAG_PIXELS;
      Object.assign(this.drag, { to: place, wide, high, moved: wide || high });
      this.drawCursor();
    }
    if (place.inside && !this.drag?.moved) this.showTooltip(place, event.clientX, event.clientY);
    else tooltip.hide();
  }

  release(event) {
    const { drag } = this;
    if (!drag) return;
    const part = drag.moved ? this.dragged() : null;
    this.stopDrag();
    if (part) this.zoomTo(part);
    else this.showTooltip(this.placeAt(event), event.clientX, event.clientY);
  }

  stopDrag() {
    this.drag = null;
    this.drawCursor();
  }

  zoomTo(part) {
    this.history.push(this.view);
    this.view = part;
    this.draw();
    this.announcer.say(this.where.textContent);
  }

  goBack() {
    if (this.history.length === 0) return;
    this.view = this.history.pop();
    this.draw();
    this.announcer.say(this.where.textContent);
  }

  showAll() {
    this.history = [];
    this.view = this.whole;
    this.draw();
  }

  /** Around the cursor, or the middle. */
  zoomBy(factor) {
    const { view, whole } = this;
    const center = this.cursor || { column: (view.x0 + view.x1) >> 1, slot: (view.y0 + view.y1) >> 1 };
    const [x0, x1] = resized(view.x0, view.x1, center.column, factor, whole.x1);
    const [y0, y1] = resized(view.y0, view.y1, center.slot, factor, whole.y1);
    const all = x1 - x0 === whole.x1 && y1 - y0 === whole.y1;
    if (all) this.showAll();
    else if (x0 !== view.x0 || x1 !== view.x1 || y0 !== view.y0 || y1 !== view.y1) this.zoomTo({ x0, x1, y0, y1 });
  }

  key(event) {
    if (event.ctrlKey || event.altKey || event.metaKey) return;
    const actions = {
      "+": () => this.zoomBy(0.5),
      "=": () => this.zoomBy(0.5),
      "-": () => this.zoomBy(2),
      "−": () => this.zoomBy(2),
      0: () => this.showAll(),
      Escape: () => this.goBack(),
      Home: () => this.moveCursor(-Infinity, 0, false),
      End: () => this.moveCursor(Infinity, 0, false),
    };
    const move = MOVES[event.key];
    if (move) this.moveCursor(move[0], move[1], event.shiftKey);
    else if (actions[event.key]) actions[event.key]();
    else return;
    event.preventDefault();
  }

  /** By one cell, or one pixel's where that has several; ten times as far with Shift. */
  moveCursor(columns, slots, far) {
    const { view, box } = this;
    const stride = (size, pixels) => Math.max(1, Math.round(size / pixels)) * (far ? 10 : 1);
    const cursor = this.cursor || { column: view.x0, slot: view.y0 };
    const next = this.cursor
      ? {
          column: cursor.column + columns * stride(view.x1 - view.x0, box.width),
          slot: cursor.slot + slots * stride(view.y1 - view.y0, box.height),
        }
      : cursor;
    this.cursor = {
      column: Math.min(view.x1 - 1, Math.max(view.x0, next.column)),
      slot: Math.min(view.y1 - 1, Math.max(view.y0, next.slot)),
    };
    this.drawCursor();
    this.announcer.say(describeCell(this, this.cursor).join(", "));
    const bounds = this.sharp.canvas.getBoundingClientRect();
    const { x, y } = placesIn(box, view);
    this.showTooltip(this.cursor, bounds.left + x(this.cursor.column + 1), bounds.top + y(this.cursor.slot + 1));
  }

  showTooltip(place, x, y) {
    tooltip.show(x, y, describeCell(this, place));
  }

  /** Decodes the other measures of the phase, for the tooltip, once the picture is there. */
  learn() {
    if (this.learned === this.layer.phase) return;
    this.learned = this.layer.phase;
    for (const layer of this.data.layers.filter((one) => one.phase === this.learned)) {
      this.model.levelsOf(layer).then((levels) => this.known.set(layer, levels));
    }
  }
}

/** A range about a center, `factor` times as long, within [0, size). */
function resized(from, to, center, factor, size) {
  const length = Math.min(size, Math.max(1, Math.round((to - from) * factor)));
  const start = Math.round(center - length / 2);
  const first = Math.min(size - length, Math.max(0, start));
  return [first, first + length];
}

/** What the verdict blames, if the data has it; else what the command shows first. */
function firstLayer({ layers, phases, blamed = [] }) {
  const phase = phases.findIndex(({ name }) => name === blamed[0]?.phase);
  return layers.find((layer) => layer.phase === phase && layer.measure !== "relative") || layers[0];
}

export function startHeat(data) {
  if (!data.layers?.length || !data.ranks.rank.length) return null;
  const map = new HeatMap(data);
  return { root: map.root, start: () => map.start() };
}
