// SPDX-License-Identifier: Apache-2.0
//
// Quantiles over the ranks, step by step.
import { axis, Chart, faded, key, verticalLines } from "./chart.js";
import { colour } from "./colours.js";
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

export function startBands(data) {
  const { phases: bands, changes = [], marks = [], long_steps: longSteps = [] } = data.bands || {};
  if (!bands?.length) return null;
  let band = firstBand(data, bands, changes);
  const nameOf = (one) => data.phases[one.phase].name;
  const stepsOf = (one) => data.step_bins[one.steps];
  const note = element("p", { class: "cep-note" });

  // What is known of a change is how long the whole step took.
  const describeChange = ({ before_ms: before, after_ms: after }) =>
    data.phases[band.phase].kind === "step" ? `${milliseconds(before, 3)} → ${milliseconds(after, 3)}` : "change";

  const lines = () =>
    [
      ...changes.map((change) => ({ x: change.step, colour: "bad", text: describeChange(change) })),
      ...marks.flatMap((mark) => mark.steps.map((step) => ({ x: step, colour: "muted", dash: true, text: mark.name }))),
    ].sort((a, b) => a.x - b.x);

  const options = () => ({
    scales: { x: { time: false }, y: { range: () => [0, topOf(band)] } },
    axes: [axis({ label: "step" }), axis({ size: 62, values: (_, values) => millisecondsOfAxis(values) })],
    series: [
      {},
      { stroke: faded("c1", 0.9), width: 1 },
      { stroke: faded("accent", 0.4), width: 1 },
      { stroke: colour("accent"), width: 2 },
      { stroke: faded("accent", 0.4), width: 1 },
    ].map((one) => ({ ...one, points: { show: band.p50.length < 3 } })),
    bands: [{ series: [2, 4], fill: faded("accent", 0.3) }],
    hooks: { draw: [verticalLines(lines())] },
  });

  const describe = (index) => {
    const { first, last } = stepsOf(band);
    if (band.p50[index] === null) return null;
    const slowest = band.max_rank?.[index];
    return [
      `step ${range(first[index], last[index])}`,
      `median ${milliseconds(band.p50[index])}`,
      `10th to 90th percentile ${milliseconds(band.p10[index])} to ${milliseconds(band.p90[index])}`,
      `largest ${milliseconds(band.max[index])}${Number.isInteger(slowest) && slowest < data.ranks.rank.length ? `: ${rankWithPlace(data, slowest)}` : ""}`,
      longSteps.includes(first[index]) ? "a long step" : null,
    ];
  };

  const describeBand = () => {
    const top = topOf(band);
    const beyond = band.max.filter((value) => value > top).length;
    note.textContent =
      "Drag to enlarge, double click for all steps." +
      (beyond ? ` The largest rank of ${beyond} of ${band.max.length} steps is beyond the top of the picture.` : "");
  };

  const chart = new Chart({
    label: "Percentiles over ranks by step",
    height: 280,
    options,
    describe,
    data: () => [stepsOf(band).first, band.max, band.p90, band.p50, band.p10],
  });
  const chosen = choice(
    "Phase",
    bands.map((one, index) => [String(index), nameOf(one)]),
    String(bands.indexOf(band)),
    (index) => {
      band = bands[Number(index)];
      describeBand();
      chart.redraw();
    },
  );
  describeBand();
  const entries = [
    { text: "median of the ranks", colour: "accent", kind: "line" },
    { text: "10th to 90th percentile", colour: "accent", kind: "band" },
    { text: "largest rank", colour: "c1", kind: "line" },
  ];
  if (changes.length) entries.push({ text: "change", colour: "bad", kind: "line" });
  if (marks.length) entries.push({ text: "mark", colour: "muted", kind: "dash" });
  return {
    root: element(
      "div",
      { class: "cep-live" },
      element("div", { class: "cep-controls" }, chosen),
      key(entries),
      chart.root,
      note,
    ),
  };
}
