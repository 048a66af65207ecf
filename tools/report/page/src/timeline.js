// SPDX-License-Identifier: Apache-2.0
//
// The spans of a few ranks in one step, and the collectives that join them.
import { colour, onTheme } from "./colours.js";
import { key } from "./chart.js";
import { rankWithPlace } from "./data.js";
import { announcer, button, choice, element, onWidth, sharpCanvas, tooltip } from "./dom.js";
import { milliseconds, ticks } from "./format.js";
import { fit, fontOf } from "./heat_axes.js";

const LANE = 22;
const RANK_GAP = 12;
const NAME_HEIGHT = 18;
const AXIS_HEIGHT = 34;
const MARGIN = 8;

/** The step is what is behind its phases. */
function colourOf({ kind, color }) {
  return kind === "step" ? "muted" : `c${color % 8}`;
}

class Timeline {
  constructor(data) {
    this.data = data;
    this.lines = data.timeline;
    this.step = 0;
    this.current = -1;
    this.history = [];
    this.sharp = sharpCanvas({
      class: "cep-timeline",
      tabindex: 0,
      role: "application",
      "aria-roledescription": "timeline",
      "aria-label":
        "Timeline of spans. Left and right arrow keys go from span to span, up and down from row to row, plus and minus zoom.",
    });
    this.announcer = announcer();
    this.back = button("Back", () => this.goBack(), "Escape or a double click");
    const steps = this.lines.steps.map(({ step }, index) => [String(index), String(step)]);
    const chosen = choice("Step", steps, "0", (index) => this.choose(Number(index)));
    this.root = element(
      "div",
      { class: "cep-live" },
      element("div", { class: "cep-controls" }, chosen, this.back),
      this.keyOfPhases(),
      this.sharp.canvas,
      this.announcer.line,
    );
    this.placeLanes();
    this.choose(0);
    this.listen(this.sharp.canvas);
  }

  keyOfPhases() {
    const { phase, start_ms: starts } = this.lines.spans;
    const inTime = phase.map((_, index) => index).sort((a, b) => starts[a] - starts[b]);
    const used = [...new Set(inTime.map((index) => phase[index]))];
    return key(
      used.map((index) => {
        const phase = this.data.phases[index];
        return { text: phase.name, colour: colourOf(phase), kind: phase.kind === "step" ? "band" : "area" };
      }),
    );
  }

  /** Where each lane is: the lanes of a rank under its name. */
  placeLanes() {
    const { ranks, lanes } = this.lines;
    this.tops = new Array(lanes.length);
    this.names = [];
    let y = 2;
    for (const { rank, why } of ranks) {
      const place = rankWithPlace(this.data, rank);
      this.names.push({ y, text: !why || place.endsWith(why) ? place : `${place} · ${why}` });
      y += NAME_HEIGHT;
      lanes.forEach((lane, index) => {
        if (lane.rank !== rank) return;
        this.tops[index] = y;
        y += LANE + 2;
      });
      y += RANK_GAP;
    }
    this.height = y + AXIS_HEIGHT - RANK_GAP;
  }

  choose(step) {
    const { spans } = this.lines;
    this.step = step;
    this.shown = spans.lane
      .map((_, index) => index)
      .filter((index) => spans.step[index] === step)
      .sort((a, b) => spans.depth[a] - spans.depth[b] || spans.start_ms[a] - spans.start_ms[b]);
    const starts = this.shown.map((index) => spans.start_ms[index]);
    const ends = this.shown.map((index) => spans.start_ms[index] + spans.duration_ms[index]);
    this.whole = this.shown.length ? [Math.min(...starts), Math.max(...ends)] : [0, 1];
    this.view = this.whole;
    this.history = [];
    this.current = -1;
    this.draw();
  }

  start() {
    onWidth(this.root, (width) => {
      this.width = width;
      this.draw();
    });
    onTheme(() => this.draw());
  }

  x(time) {
    const [from, to] = this.view;
    return MARGIN + ((time - from) / (to - from)) * (this.width - 2 * MARGIN);
  }

  timeAt(clientX) {
    const [from, to] = this.view;
    const x = clientX - this.sharp.canvas.getBoundingClientRect().left;
    return Math.min(to, Math.max(from, from + ((x - MARGIN) / (this.width - 2 * MARGIN)) * (to - from)));
  }

  boxOf(index) {
    const { spans } = this.lines;
    const start = spans.start_ms[index];
    const inset = Math.min(3, spans.depth[index]) * 3;
    const left = this.x(start);
    return {
      left,
      right: Math.max(left + 1, this.x(start + spans.duration_ms[index])),
      top: this.tops[spans.lane[index]] + inset,
      height: LANE - 2 * inset,
    };
  }

  draw() {
    if (!this.width) return;
    this.sharp.resize(this.width, this.height);
    const { context } = this.sharp;
    context.font = fontOf(12);
    this.drawAxis(context);
    this.drawJoins(context);
    context.textBaseline = "middle";
    for (const index of this.shown) this.drawSpan(context, index);
    context.textBaseline = "top";
    context.textAlign = "left";
    context.fillStyle = colour("ink");
    for (const { y, text } of this.names) context.fillText(fit(context, text, this.width - 2 * MARGIN), MARGIN, y);
    this.drawMarked(context);
    this.back.disabled = this.history.length === 0;
  }

  drawAxis(context) {
    const bottom = this.height - AXIS_HEIGHT;
    context.textBaseline = "top";
    context.textAlign = "center";
    for (const tick of ticks(...this.view, Math.max(2, Math.floor(this.width / 110)))) {
      const x = this.x(tick);
      context.fillStyle = colour("line");
      context.fillRect(Math.round(x), 0, 1, bottom + 4);
      context.fillStyle = colour("muted");
      const text = milliseconds(tick, 4);
      const half = context.measureText(text).width / 2;
      context.fillText(text, Math.min(this.width - half, Math.max(half, x)), bottom + 6);
    }
    context.fillText("from the start of the step", this.width / 2, bottom + 20);
  }

  /** The spans of one collective, from the top lane down: [[index, …], …]. */
  joins() {
    const { spans } = this.lines;
    const groups = new Map();
    for (const index of this.shown) {
      const join = spans.join[index];
      if (join > 0) groups.set(join, [...(groups.get(join) || []), index]);
    }
    return [...groups.values()]
      .filter((group) => group.length > 1)
      .map((group) => group.sort((a, b) => this.tops[spans.lane[a]] - this.tops[spans.lane[b]]));
  }

  /** A band between the spans of one collective. */
  drawJoins(context) {
    context.fillStyle = colour("muted");
    for (const group of this.joins()) {
      context.globalAlpha = group.includes(this.current) ? 0.45 : 0.14;
      for (let at = 1; at < group.length; at += 1) {
        const [above, below] = [this.boxOf(group[at - 1]), this.boxOf(group[at])];
        context.beginPath();
        context.moveTo(above.left, above.top + above.height);
        context.lineTo(above.right, above.top + above.height);
        context.lineTo(below.right, below.top);
        context.lineTo(below.left, below.top);
        context.fill();
      }
    }
    context.globalAlpha = 1;
  }

  drawSpan(context, index) {
    const { left, right, top, height } = this.boxOf(index);
    if (right < 0 || left > this.width) return;
    const phase = this.data.phases[this.lines.spans.phase[index]];
    const width = Math.max(1, right - left - 0.5);
    context.fillStyle = colour("ground");
    context.fillRect(left, top, width, height);
    context.globalAlpha = phase.kind === "step" ? 0.25 : 0.85;
    context.fillStyle = colour(colourOf(phase));
    context.fillRect(left, top, width, height);
    context.globalAlpha = 1;
    const [from, to] = [Math.max(left, 0), Math.min(right, this.width)];
    if (phase.kind === "step" || height < 14 || to - from < context.measureText(phase.name).width + 8) return;
    context.fillStyle = phase.color === 0 ? "#fff" : "#111";
    context.textAlign = "left";
    context.fillText(phase.name, from + 4, top + height / 2 + 0.5);
  }

  drawMarked(context) {
    const frame = (box, name) => {
      context.strokeStyle = colour(name);
      context.lineWidth = 2;
      context.strokeRect(box.left, box.top, box.right - box.left, box.height);
    };
    if (this.current >= 0) frame(this.boxOf(this.current), "ink");
    if (!this.drag?.moved) return;
    const [left, right] = [this.drag.from, this.drag.to].map((time) => this.x(time)).sort((a, b) => a - b);
    context.fillStyle = colour("accent");
    context.globalAlpha = 0.25;
    context.fillRect(left, 0, right - left, this.height - AXIS_HEIGHT);
    context.globalAlpha = 1;
  }

  /** The deepest span at a point, -1 where there is none. */
  spanAt(event) {
    const bounds = this.sharp.canvas.getBoundingClientRect();
    const [x, y] = [event.clientX - bounds.left, event.clientY - bounds.top];
    for (let at = this.shown.length - 1; at >= 0; at -= 1) {
      const { left, right, top, height } = this.boxOf(this.shown[at]);
      if (x >= left - 1 && x <= right + 1 && y >= top && y <= top + height) return this.shown[at];
    }
    return -1;
  }

  describe(index) {
    const { spans, lanes } = this.lines;
    const lane = lanes[spans.lane[index]];
    const joined =
      spans.join[index] > 0 ? this.shown.filter((other) => spans.join[other] === spans.join[index]).length : 0;
    return [
      `${this.data.phases[spans.phase[index]].name}: ${milliseconds(spans.duration_ms[index])}`,
      rankWithPlace(this.data, lane.rank),
      lane.name,
      `from ${milliseconds(spans.start_ms[index])}`,
      joined > 1 ? `the same collective on ${joined} of the ranks shown` : null,
    ].filter(Boolean);
  }

  listen(canvas) {
    canvas.addEventListener("pointerdown", (event) => {
      if (event.button !== 0) return;
      this.drag = { from: this.timeAt(event.clientX), x: event.clientX, moved: false };
      canvas.setPointerCapture(event.pointerId);
    });
    canvas.addEventListener("pointermove", (event) => this.move(event));
    canvas.addEventListener("pointerup", () => this.release());
    canvas.addEventListener("pointercancel", () => {
      this.drag = null;
      this.draw();
    });
    canvas.addEventListener("pointerleave", (event) => tooltip.leave(event));
    canvas.addEventListener("blur", () => tooltip.hide());
    canvas.addEventListener("dblclick", () => this.goBack());
    canvas.addEventListener("keydown", (event) => this.key(event));
  }

  move(event) {
    if (this.drag) {
      this.drag.to = this.timeAt(event.clientX);
      this.drag.moved ||= Math.abs(event.clientX - this.drag.x) > 5;
    }
    const found = this.drag?.moved ? -1 : this.spanAt(event);
    if (found !== this.current || this.drag?.moved) {
      this.current = found;
      this.draw();
    }
    if (found >= 0) tooltip.show(event.clientX, event.clientY, this.describe(found));
    else tooltip.hide();
  }

  release() {
    const { drag } = this;
    this.drag = null;
    if (drag?.moved) this.zoomTo([drag.from, drag.to].sort((a, b) => a - b));
    else this.draw();
  }

  zoomTo(view) {
    if (!(view[1] > view[0])) return;
    this.history.push(this.view);
    this.view = view;
    tooltip.hide();
    this.draw();
  }

  goBack() {
    if (this.history.length) this.view = this.history.pop();
    this.draw();
  }

  zoomBy(factor) {
    const { spans } = this.lines;
    const middle =
      this.current >= 0
        ? spans.start_ms[this.current] + spans.duration_ms[this.current] / 2
        : (this.view[0] + this.view[1]) / 2;
    const half = ((this.view[1] - this.view[0]) * factor) / 2;
    this.zoomTo([Math.max(this.whole[0], middle - half), Math.min(this.whole[1], middle + half)]);
  }

  key(event) {
    if (event.ctrlKey || event.altKey || event.metaKey) return;
    const actions = {
      ArrowLeft: () => this.walk(-1),
      ArrowRight: () => this.walk(1),
      ArrowUp: () => this.climb(-1),
      ArrowDown: () => this.climb(1),
      "+": () => this.zoomBy(0.5),
      "=": () => this.zoomBy(0.5),
      "-": () => this.zoomBy(2),
      Escape: () => this.goBack(),
    };
    if (!actions[event.key] || this.shown.length === 0) return;
    event.preventDefault();
    actions[event.key]();
  }

  /** To the span before or after in the same lane. */
  walk(direction) {
    const { spans } = this.lines;
    const lane = this.current >= 0 ? spans.lane[this.current] : spans.lane[this.shown[0]];
    const row = this.shown
      .filter((index) => spans.lane[index] === lane)
      .sort((a, b) => spans.start_ms[a] - spans.start_ms[b] || a - b);
    const at = row.indexOf(this.current) + (this.current < 0 && direction < 0 ? row.length : direction);
    this.select(row[Math.min(row.length - 1, Math.max(0, at))]);
  }

  /** To the span of the next lane that is nearest in time. */
  climb(direction) {
    if (this.current < 0) return this.walk(1);
    const { spans } = this.lines;
    const used = [...new Set(this.shown.map((index) => spans.lane[index]))].sort((a, b) => this.tops[a] - this.tops[b]);
    const lane = used[used.indexOf(spans.lane[this.current]) + direction];
    if (lane === undefined) return undefined;
    const distance = (index) => Math.abs(spans.start_ms[index] - spans.start_ms[this.current]);
    return this.select(
      this.shown.filter((index) => spans.lane[index] === lane).sort((a, b) => distance(a) - distance(b))[0],
    );
  }

  select(index) {
    this.current = index;
    this.draw();
    const lines = this.describe(index);
    this.announcer.say(lines.join(", "));
    const bounds = this.sharp.canvas.getBoundingClientRect();
    const { left, right, top, height } = this.boxOf(index);
    tooltip.show(bounds.left + Math.min(this.width, Math.max(0, (left + right) / 2)), bounds.top + top + height, lines);
  }
}

export function startTimeline(data) {
  if (!data.timeline?.spans?.lane?.length) return null;
  const timeline = new Timeline(data);
  return { root: timeline.root, start: () => timeline.start() };
}
