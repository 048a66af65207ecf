// SPDX-License-Identifier: Apache-2.0
//
// Quantiles over the ranks, step by step.
import { axis, Chart, key, verticalLines } from "./chart.js";
import { colour, faded } from "./colours.js";
import { rankWithPlace } from "./data.js";
import { choice, element } from "./dom.js";
import { milliseconds, millisecondsOfAxis, range } from "./format.js";

// Peaks of fewer steps may reach beyond the axis, so that the bands can be read.
const SHOWN_STEPS = 0.98;

function quantile(values, share) {
  const sorted = values.filter(Number.isFinite).sort((a, b) => a - b);
  return sorted.length ? sorted[Math.floor(share * (sorted.length - 1))] : 1;
}

/** The end of the axis. */
function topOf(band) {
  const usual = 1.3 * quantile(band.p90, SHOWN_STEPS);
  return 1.1 * Math.min(quantile(band.max, 1), Math.max(usual, quantile(band.max, SHOWN_STEPS)));
}

/** The phase that the verdict blames; the whole step where the job changed, or nothing is blamed. */
function firstBand(data, bands, changes) {
  const blamed = changes.length ? undefined : data.blamed?.[0]?.phase;
  return bands.find((band) => data.phases[band.phase].name === blamed) || bands[0];
}

class Bands {
  constructor(data) {
    this.data = data;
    this.band = firstBand(data, this.bands, this.changes);
    this.note = element("p", { class: "cep-note" });
    this.chart = new Chart({
      label: "Percentiles over ranks by step",
      height: 280,
      options: () => this.options(),
      describe: (index) => this.describe(index),
      data: () => this.table(),
    });
    this.describeBand();
    const controls = element("div", { class: "cep-controls" }, this.choice());
    this.root = element("div", { class: "cep-live" }, controls, this.key(), this.chart.root, this.note);
  }

  get bands() {
    return this.data.bands.phases;
  }

  get changes() {
    return this.data.bands.changes || [];
  }

  get marks() {
    return this.data.bands.marks || [];
  }

  get steps() {
    return this.data.step_bins[this.band.steps];
  }

  get phase() {
    return this.data.phases[this.band.phase];
  }

  choice() {
    const names = this.bands.map((band, index) => [String(index), this.data.phases[band.phase].name]);
    return choice("Phase", names, String(this.bands.indexOf(this.band)), (index) => {
      this.band = this.bands[Number(index)];
      this.describeBand();
      this.chart.redraw();
    });
  }

  key() {
    const entries = [
      { text: "median of the ranks", colour: "accent", kind: "line" },
      { text: "10th to 90th percentile", colour: "accent", kind: "band" },
      { text: "largest rank", colour: "c1", kind: "line" },
    ];
    if (this.changes.length) entries.push({ text: "change", colour: "bad", kind: "line" });
    if (this.marks.length) entries.push({ text: "mark", colour: "muted", kind: "dash" });
    return key(entries);
  }

  table() {
    const { max, p90, p50, p10 } = this.band;
    return [this.steps.first, max, p90, p50, p10];
  }

  options() {
    const edge = { stroke: faded("accent", 0.4), width: 1 };
    const lines = [{ stroke: faded("c1", 0.9), width: 1 }, edge, { stroke: colour("accent"), width: 2 }, edge];
    const points = { show: this.band.p50.length < 3 };
    return {
      scales: { x: { time: false }, y: { range: () => [0, topOf(this.band)] } },
      axes: [axis({ label: "step" }), axis({ size: 62, values: (_, values) => millisecondsOfAxis(values) })],
      series: [{}, ...lines.map((line) => ({ ...line, points }))],
      bands: [{ series: [2, 4], fill: faded("accent", 0.3) }],
      hooks: { draw: [verticalLines(this.verticalLines())] },
    };
  }

  verticalLines() {
    const marked = ({ name, steps }) => steps.map((step) => ({ x: step, colour: "muted", dash: true, text: name }));
    const changed = (change) => ({ x: change.step, colour: "bad", text: this.describeChange(change) });
    return [...this.changes.map(changed), ...this.marks.flatMap(marked)].sort((a, b) => a.x - b.x);
  }

  /** What is known of a change is how long the whole step took. */
  describeChange({ before_ms: before, after_ms: after }) {
    return this.phase.kind === "step" ? `${milliseconds(before, 3)} → ${milliseconds(after, 3)}` : "change";
  }

  describe(index) {
    const { band, steps, data } = this;
    if (band.p50[index] === null) return null;
    const slowest = band.max_rank?.[index];
    const who =
      Number.isInteger(slowest) && slowest < data.ranks.rank.length ? `: ${rankWithPlace(data, slowest)}` : "";
    return [
      `step ${range(steps.first[index], steps.last[index])}`,
      `median ${milliseconds(band.p50[index])}`,
      `10th to 90th percentile ${milliseconds(band.p10[index])} to ${milliseconds(band.p90[index])}`,
      `largest ${milliseconds(band.max[index])}${who}`,
      (data.bands.long_steps || []).includes(steps.first[index]) ? "a long step" : null,
    ];
  }

  describeBand() {
    const { max } = this.band;
    const beyond = max.filter((value) => value > topOf(this.band)).length;
    this.note.textContent =
      "Drag to enlarge, double click for all steps." +
      (beyond ? ` The largest rank of ${beyond} of ${max.length} steps is beyond the top of the picture.` : "");
  }
}

export function startBands(data) {
  return data.bands?.phases?.length ? { root: new Bands(data).root } : null;
}
