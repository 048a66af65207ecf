// SPDX-License-Identifier: Apache-2.0
//
// Enlarges the heat map and the timeline of a page, and shows values under the pointer. The command has drawn every
// picture; here only cells, lengths and labels change. Names come from files: they become text, never markup.
"use strict";
(() => {
  const byId = (id) => document.getElementById(id);
  const data = JSON.parse(byId("cep-data")?.textContent ?? "null");
  const clamp = (value, low, high) => Math.min(Math.max(value, low), high);

  function fill(made, attributes, ...children) {
    for (const [name, value] of Object.entries(attributes)) made.setAttribute(name, value);
    made.append(...children);
    return made;
  }
  const element = (tag, attributes, ...children) => fill(document.createElement(tag), attributes, ...children);
  const shape = (tag, attributes, ...children) =>
    fill(document.createElementNS("http://www.w3.org/2000/svg", tag), attributes, ...children);
  const label = (style, x, y, anchor, text) => shape("text", { class: style, x, y, "text-anchor": anchor }, text);

  const button = (text, title, onclick) =>
    Object.assign(element("button", { type: "button", title }, text), { onclick });

  /** A labelled list to choose from; options are [value, text]. */
  function choice(label, options, value, onChange) {
    const list = element("select", { "aria-label": label });
    list.append(...options.map(([key, text]) => element("option", { value: key }, text)));
    Object.assign(list, { value, onchange: () => onChange(list.value) });
    return element("label", {}, label, list);
  }

  const number = (value) => value.toLocaleString("en", { maximumFractionDigits: 6 });
  const digits = (value) => number(Number(value.toPrecision(value < 1000 ? 4 : 6)));
  function time(ms) {
    if (ms >= 1000) return `${digits(ms / 1000)}\u00a0s`;
    return ms >= 1 || ms === 0 ? `${digits(ms)}\u00a0ms` : `${digits(ms * 1000)}\u00a0µs`;
  }
  const range = (first, last) => (first === last ? `step ${number(first)}` : `steps ${number(first)}–${number(last)}`);

  const tip = element("div", { id: "tip", hidden: "" });
  const titles = new WeakMap(); // taken out of the elements, so that the browser shows no tip of its own
  const zooms = new Map(); // by picture

  function showTip(x, y, text) {
    tip.textContent = text;
    tip.hidden = false;
    const { offsetWidth: width, offsetHeight: height } = tip;
    tip.style.left = `${Math.max(4, x + 14 + width > innerWidth ? x - 14 - width : x + 14)}px`;
    tip.style.top = `${Math.max(4, y + 14 + height > innerHeight ? y - 14 - height : y + 14)}px`;
  }

  function titleOf(target) {
    const title = target.tagName === "svg" ? null : target.querySelector?.(":scope > title");
    if (title) titles.set(target, title.textContent) && title.remove();
    return titles.get(target);
  }

  function point(event) {
    const zoom = zooms.get(event.target.closest?.("svg"));
    const place = zoom?.placeOf(event);
    const text = (place && zoom.describe?.(place)) ?? titleOf(event.target);
    if (text) showTip(event.clientX, event.clientY, text);
    else tip.hidden = true;
  }

  const WHOLE = { x0: 0, x1: 1, y0: 0, y1: 1 };

  /**
   * A plot of which a part can be shown: `view`. Places in it are {x, y} from 0 to 1. draw() draws it, move(right, down)
   * follows an arrow key, describe(place) gives the text for a place.
   */
  class Zoom {
    constructor(group, leastWidth, leastHeight) {
      Object.assign(this, { group, svg: group.ownerSVGElement, leastWidth, leastHeight, view: WHOLE });
      [this.left, this.top, this.right, this.bottom] = group.dataset.box.split(" ").map(Number);
      this.width = this.right - this.left;
      this.height = this.bottom - this.top;
      zooms.set(this.svg, this);
      this.where = element("span", { class: "where" });
      this.said = element("p", { class: "said", "aria-live": "polite" });
      this.controls = element(
        "div",
        { class: "controls" },
        button("+", "Enlarge (key +)", () => this.by(0.5)),
        button("−", "Show more (key −)", () => this.by(2)),
        button("All", "Escape, or a double click", () => this.show(WHOLE)),
        this.where,
        element("span", { class: "mouse" }, "Drag over a part to enlarge it."),
        element("span", { class: "touch" }, "Tap for values; tap twice to enlarge."),
        this.said,
      );
      this.svg.closest("figure").before(this.controls);
      fill(this.svg, { class: "zooms", tabindex: 0 });
      for (const name of ["pointerdown", "pointermove", "pointerup", "dblclick", "keydown"])
        this.svg.addEventListener(name, (event) => this[name](event));
    }

    /** null outside. */
    placeOf(event) {
      const at = new DOMPoint(event.clientX, event.clientY).matrixTransform(this.svg.getScreenCTM().inverse());
      const [x, y] = [(at.x - this.left) / this.width, (at.y - this.top) / this.height];
      return x >= 0 && x < 1 && y >= 0 && y < 1 ? { x, y } : null;
    }

    /** Whole cells; `isOuter`: all that it touches. */
    show(view, isOuter) {
      const part = (low, high, least) => {
        const all = Math.round(1 / least);
        const first = isOuter ? Math.floor(low * all + 1e-6) : Math.round(low * all);
        const size = clamp((isOuter ? Math.ceil(high * all - 1e-6) : Math.round(high * all)) - first, 1, all);
        const from = clamp(first, 0, all - size);
        return [from / all, (from + size) / all];
      };
      const [x0, x1] = part(view.x0, view.x1, this.leastWidth);
      const [y0, y1] = part(view.y0, view.y1, this.leastHeight);
      this.view = { x0, x1, y0, y1 };
      tip.hidden = true;
      this.draw();
    }

    /** A part of the view, in places of it. */
    showPart({ x0, x1, y0, y1 }, isOuter) {
      const { view } = this;
      const [atX, atY] = [(x) => view.x0 + x * (view.x1 - view.x0), (y) => view.y0 + y * (view.y1 - view.y0)];
      this.show({ x0: atX(x0), x1: atX(x1), y0: atY(y0), y1: atY(y1) }, isOuter);
    }

    /** So many times as much, about a place. */
    by(factor, { x, y } = { x: 0.5, y: 0.5 }) {
      const half = factor / 2;
      this.showPart({ x0: x - half, x1: x + half, y0: y - half, y1: y + half });
    }

    /** Shows and says what is at a place, which a key has led to. */
    say(x, y, text) {
      const at = new DOMPoint(this.left + x * this.width, this.top + y * this.height);
      const on = at.matrixTransform(this.svg.getScreenCTM());
      showTip(on.x, on.y, text);
      this.said.textContent = text;
    }

    pointerdown(event) {
      this.isTouch = event.pointerType !== "mouse";
      const from = event.button === 0 && !this.isTouch ? this.placeOf(event) : null;
      this.drag = from && { from, to: from, frame: shape("rect", { class: "chosen" }) };
    }

    pointermove(event) {
      const to = this.drag && this.placeOf(event);
      if (!to) return;
      this.drag.to = to;
      const { x0, x1, y0, y1 } = this.chosen();
      const place = { x: this.left + x0 * this.width, y: this.top + y0 * this.height };
      fill(this.drag.frame, { ...place, width: (x1 - x0) * this.width, height: (y1 - y0) * this.height });
      this.group.append(this.drag.frame);
    }

    /** What is dragged over; along one direction, all of the other. */
    chosen() {
      const { from, to } = this.drag;
      const part = (a, b, size) => (Math.abs(a - b) * size < 8 ? [0, 1] : [Math.min(a, b), Math.max(a, b)]);
      const [x0, x1] = part(from.x, to.x, this.width);
      const [y0, y1] = part(from.y, to.y, this.leastHeight < 1 ? this.height : 0);
      return { x0, x1, y0, y1 };
    }

    pointerup() {
      if (!this.drag) return;
      const part = this.chosen();
      this.drag.frame.remove();
      this.drag = null;
      if (part.x1 - part.x0 < 1 || part.y1 - part.y0 < 1) this.showPart(part, true);
    }

    dblclick(event) {
      if (this.isTouch) this.by(0.5, this.placeOf(event) ?? undefined);
      else this.show(WHOLE);
    }

    keydown(event) {
      const moves = { ArrowLeft: [-1, 0], ArrowRight: [1, 0], ArrowUp: [0, -1], ArrowDown: [0, 1] };
      const actions = { "+": () => this.by(0.5), "-": () => this.by(2), Escape: () => this.show(WHOLE) };
      const act = moves[event.key] ? () => this.move(...moves[event.key]) : actions[event.key];
      if (act) event.preventDefault();
      act?.();
    }
  }

  // The heat map

  async function decode(text) {
    const packed = Uint8Array.from(atob(text), (one) => one.charCodeAt(0));
    const stream = new Blob([packed]).stream().pipeThrough(new DecompressionStream("deflate"));
    return new Uint8Array(await new Response(stream).arrayBuffer());
  }

  /** First and last of `count` cells that each of `pixels` covers, from `low` to `high` (0 to 1). */
  function spansOf(pixels, count, low, high) {
    const cell = (pixel) => (low + ((high - low) * pixel) / pixels) * count;
    return Array.from({ length: pixels }, (_, pixel) => {
      const first = clamp(Math.floor(cell(pixel) + 1e-6), 0, count - 1);
      return [first, clamp(Math.floor(cell(pixel + 1) - 1e-6), first, count - 1)];
    });
  }

  class Heat extends Zoom {
    constructor() {
      const [rows, columns] = [data.rows.rank.length, data.steps.first.length];
      super(byId("heat-plot"), 1 / columns, 1 / rows);
      Object.assign(this, { rows, columns, sort: "slow" });
      this.choices = element("div", { class: "controls" });
      this.controls.before(this.choices);
      addEventListener("resize", () => this.draw());
    }

    async choose(phase, measure) {
      const layers = data.layers.filter((layer) => layer.phase === phase);
      const layer = layers.find((one) => one.measure === measure) ?? layers[0];
      this.svg.setAttribute("aria-busy", "true");
      const codes = await decode(layer.data);
      Object.assign(this, { layer, codes });
      const focused = document.activeElement.getAttribute("aria-label");
      const names = (list) => [...new Set(list)].map((name) => [name, name]);
      const phases = names(data.layers.map((one) => one.phase));
      const measures = names(layers.map((one) => one.measure));
      const sorts = [["slow", "slow ranks first"], ["rank", "rank"], ["host", "host"], ["value", "largest mean first"]];
      this.choices.replaceChildren(
        choice("Phase", phases, phase, (chosen) => this.choose(chosen, layer.measure)),
        choice("Show", measures, layer.measure, (chosen) => this.choose(phase, chosen)),
        choice("Sort by", sorts, this.sort, (sort) => this.arrange(sort)),
      );
      if (focused) this.choices.querySelector(`[aria-label="${focused}"]`)?.focus();
      this.arrange(this.sort);
      this.svg.setAttribute("aria-busy", "false");
    }

    arrange(sort) {
      const { rank, host } = data.rows;
      this.sort = sort;
      const mean = (row) => {
        const known = this.codes.subarray(row * this.columns, (row + 1) * this.columns).filter((code) => code > 0);
        return known.reduce((sum, code) => sum + this.valueOf(code), 0) / Math.max(1, known.length);
      };
      const rows = rank.map((_, row) => row);
      const key = { slow: rows, rank, host, value: sort === "value" && rows.map((row) => -mean(row)) }[sort];
      this.order = [...rows].sort((a, b) => key[a] - key[b] || rank[a] - rank[b]);
      this.draw();
    }

    valueOf(code) {
      const [low, high] = this.layer.range;
      return low * (high / low) ** ((code - 1) / 254);
    }

    draw() {
      if (!this.layer) return;
      const scale = (this.svg.getBoundingClientRect().width / this.svg.viewBox.baseVal.width) * devicePixelRatio;
      const [width, height] = [this.width, this.height].map((size) => clamp(Math.round(size * scale), 1, 2400));
      this.xs = spansOf(width, this.columns, this.view.x0, this.view.x1);
      this.ys = spansOf(height, this.rows, this.view.y0, this.view.y1);
      const canvas = element("canvas", { width, height });
      const image = new ImageData(width, height);
      this.paint(new Uint32Array(image.data.buffer), width);
      canvas.getContext("2d").putImageData(image, 0, 0);
      this.group.querySelector("image").setAttribute("href", canvas.toDataURL());
      this.cursorFrame?.remove();
      this.label();
    }

    /** Each pixel has the largest of its cells. */
    paint(pixels, width) {
      const { low, high } = this.layer;
      const share = (code) => (code > 1 && Math.log(this.valueOf(code) / low) / Math.log(high / low)) || 0;
      const pixelOf = (code) => code && data.colors[Math.round(254 * clamp(share(code), 0, 1))];
      const palette = Uint32Array.from({ length: 256 }, (_, code) => pixelOf(code));
      this.ys.forEach(([firstRow, lastRow], y) => {
        const most = new Uint8Array(this.columns);
        for (let row = firstRow; row <= lastRow; row += 1)
          for (let i = 0; i < this.columns; i += 1) most[i] = Math.max(most[i], this.codeOf(row, i));
        this.xs.forEach(([first, last], x) => {
          let code = most[first];
          for (let i = first + 1; i <= last; i += 1) code = Math.max(code, most[i]);
          pixels[y * width + x] = palette[code];
        });
      });
    }

    /** Where the middle of a cell is in the view. */
    placeOfCell(row, column) {
      const { x0, x1, y0, y1 } = this.view;
      return [((column + 0.5) / this.columns - x0) / (x1 - x0), ((row + 0.5) / this.rows - y0) / (y1 - y0)];
    }

    label() {
      const { layer } = this;
      const put = (id, texts) => byId(id).replaceChildren(...texts);
      put("heat-title", [label("title", this.left, 20, "start", layer.title)]);
      [layer.low, Math.sqrt(layer.low * layer.high), layer.high].forEach((ms, i) => {
        byId("heat-scale").children[i].textContent = (i ? "" : "≤ ") + time(Number(ms.toPrecision(3)));
      });
      const [firstRow, lastRow, first, last] = [this.ys[0][0], this.ys.at(-1)[1], this.xs[0][0], this.xs.at(-1)[1]];
      const labels = [];
      for (let row = firstRow, free = 0; row <= lastRow; row += 1) {
        const y = this.top + clamp(this.placeOfCell(row, 0)[1], 0, 1) * this.height + 4;
        if (y < free) continue;
        free = y + 13;
        const style = data.rows.blamed[this.order[row]] ? "tick bad" : "tick";
        labels.push(label(style, this.left - 6, y, "end", data.rows.label[this.order[row]]));
      }
      put("heat-rows", labels);
      const parts = Math.min(8, last - first);
      const columns = Array.from({ length: parts + 1 }, (_, i) => {
        const column = first + Math.floor((i * (last - first)) / (parts || 1));
        const x = this.left + this.placeOfCell(0, column)[0] * this.width;
        return label("tick", x, this.bottom + 16, "middle", number(data.steps.first[column]));
      });
      put("heat-columns", columns);
      const steps = range(data.steps.first[first], data.steps.last[last]);
      this.where.textContent = `${lastRow - firstRow + 1} of ${this.rows} rows, ${steps}`;
    }

    /** Of the cells that the pixel at a place covers, the largest. */
    describe({ x, y }) {
      const [firstRow, lastRow] = this.ys[Math.floor(y * this.ys.length)];
      const [first, last] = this.xs[Math.floor(x * this.xs.length)];
      let found = { code: -1 };
      for (let row = firstRow; row <= lastRow; row += 1)
        for (let column = first; column <= last; column += 1)
          if (this.codeOf(row, column) > found.code) found = { code: this.codeOf(row, column), row, column };
      const hint = firstRow === lastRow && first === last ? "" : "\nthe largest here; enlarge to see each";
      return this.describeCell(found.row, found.column) + hint;
    }

    codeOf = (row, column) => this.codes[this.order[row] * this.columns + column];
    describeCell(row, column) {
      const code = this.codeOf(row, column);
      const value = code === 0 ? "no row" : `${code === 1 ? "≤" : "≈"} ${time(this.valueOf(code))}`;
      const steps = range(data.steps.first[column], data.steps.last[column]);
      return [value, data.rows.who[this.order[row]], steps, this.layer.title].join("\n");
    }

    move(right, down) {
      const { rows, columns } = this;
      const at = this.cursor ?? [this.ys[0][0] - down, this.xs[0][0] - right];
      const [row, column] = [clamp(at[0] + down, 0, rows - 1), clamp(at[1] + right, 0, columns - 1)];
      this.cursor = [row, column];
      let [x, y] = this.placeOfCell(row, column);
      if ([x, y].some((place) => place < 0 || place > 1)) {
        this.by(1, { x, y });
        [x, y] = this.placeOfCell(row, column);
      }
      const width = Math.max(4, this.width / columns / (this.view.x1 - this.view.x0));
      const height = Math.max(4, this.height / rows / (this.view.y1 - this.view.y0));
      this.cursorFrame?.remove();
      const place = { x: this.left + x * this.width - width / 2, y: this.top + y * this.height - height / 2 };
      this.cursorFrame = shape("rect", { class: "cursor", ...place, width, height });
      this.group.append(this.cursorFrame);
      this.say(x, y, this.describeCell(row, column));
    }
  }

  class Timeline extends Zoom {
    constructor(group) {
      super(group, 1e-4, 1);
      this.ms = Number(group.dataset.ms);
      this.ticks = byId(group.id.replace("spans", "ticks"));
      this.spans = [...group.querySelectorAll("rect.part")].map((rect) => {
        const [x, y, width] = ["x", "y", "width"].map((name) => Number(rect.getAttribute(name)));
        const text = titleOf(rect);
        return { rect, x, y, width, text, name: text.slice(0, text.lastIndexOf(": ")) };
      });
      this.current = -1;
    }

    /** Where an x of the whole is in the view. */
    place(x) {
      const { x0, x1 } = this.view;
      return this.left + (((x - this.left) / this.width - x0) / (x1 - x0)) * this.width;
    }

    draw() {
      this.group.querySelectorAll("text").forEach((text) => text.remove());
      for (const { rect, x, y, width, name } of this.spans) {
        const [from, to] = [x, x + width].map((end) => clamp(this.place(end), this.left, this.right));
        rect.style.display = to > from ? "" : "none";
        fill(rect, { x: from, width: Math.max(to - from, 0.5) });
        const room = Math.floor((to - from) / 7.5);
        const text = name.length > room ? `${name.slice(0, room - 1)}…` : name;
        const style = rect.getAttribute("class").replace("part", "on");
        if (room >= 4) this.group.append(label(style, from + 4, y + 11, "start", text));
      }
      for (const join of this.group.querySelectorAll(".join"))
        join.style.display = this.view.x1 - this.view.x0 === 1 ? "" : "none";
      this.label();
    }

    label() {
      const [from, to] = [this.view.x0 * this.ms, this.view.x1 * this.ms];
      const power = 10 ** Math.floor(Math.log10((to - from) / 7));
      const step = [1, 2, 5, 10].map((factor) => factor * power).find((one) => one >= (to - from) / 7);
      const parts = [];
      for (let ms = Math.ceil(from / step) * step; ms <= to; ms += step) {
        const x = this.left + ((ms - from) / (to - from)) * this.width;
        parts.push(shape("path", { class: "grid", d: `M${x} ${this.top}V${this.bottom}` }));
        parts.push(label("tick", x, this.bottom + 16, "middle", time(ms)));
      }
      this.ticks.replaceChildren(...parts);
      this.where.textContent = `${time(from)} to ${time(to)}`;
    }

    move(right, down) {
      const shown = this.spans.filter(({ rect }) => rect.style.display !== "none");
      if (!shown.length) return;
      this.current = clamp(this.current + right + down, 0, shown.length - 1);
      const { rect, y, text } = shown[this.current];
      this.say((rect.getAttribute("x") - this.left) / this.width, (y - this.top) / this.height, text);
    }
  }

  // The page

  function hintAtScrolling() {
    for (const box of document.querySelectorAll(".scroll")) box.classList.toggle("more", box.scrollWidth > box.clientWidth + 2);
  }

  async function start() {
    document.body.append(tip);
    hintAtScrolling();
    for (const name of ["resize", "toggle"]) addEventListener(name, hintAtScrolling, true);
    for (const name of ["pointermove", "pointerdown"]) addEventListener(name, point);
    addEventListener("pointercancel", () => (tip.hidden = true));
    const first = data?.layers[0];
    if (first && byId("heat-plot")) await new Heat().choose(first.phase, first.measure);
    performance.mark("cep-heat");
    for (const group of document.querySelectorAll("[id^=spans-]")) new Timeline(group).label();
    performance.mark("cep-ready");
    document.documentElement.dataset.cep = "ready";
  }

  start();
})();
