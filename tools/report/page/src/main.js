// SPDX-License-Identifier: Apache-2.0
//
// Puts pictures that can be explored before the static ones of the page. A section whose live picture fails keeps its
// static one.
import plotStyle from "uplot/dist/uPlot.min.css";
import { startBands } from "./bands.js";
import { startBreakdown } from "./breakdown.js";
import { useStops } from "./colours.js";
import { startComm } from "./comm.js";
import { startCompare } from "./compare.js";
import { readData } from "./data.js";
import { giveUp } from "./dom.js";
import { startHeat } from "./heat.js";
import { startMemory } from "./memory.js";
import pageStyle from "./page.css";
import { startTheme } from "./theme.js";
import { startTimeline } from "./timeline.js";
import { startWaits } from "./waits.js";
import { startWhatif } from "./whatif.js";

// The most looked at first: the page can be used while the others are being made.
const SECTIONS = [
  ["heat", startHeat],
  ["compare", startCompare],
  ["bands", startBands],
  ["breakdown", startBreakdown],
  ["waits", startWaits],
  ["timeline", startTimeline],
  ["whatif", startWhatif],
  ["comm", startComm],
  ["memory", startMemory],
];

/** A style sheet made by a script needs no leave of the page's content security policy. */
function addStyle() {
  const sheet = new CSSStyleSheet();
  sheet.replaceSync(plotStyle + pageStyle);
  document.adoptedStyleSheets = [...document.adoptedStyleSheets, sheet];
}

async function enliven(data, id, start) {
  const section = document.getElementById(id);
  if (!section) return;
  try {
    const live = await start(data);
    if (!live) return;
    const picture = section.querySelector("figure.static");
    if (picture) picture.before(live.root);
    else section.append(live.root);
    await live.start?.();
    section.classList.add("cep-is-live");
  } catch (error) {
    giveUp(section, error);
  }
}

function nextFrame() {
  return new Promise((resolve) => {
    requestAnimationFrame(() => setTimeout(resolve));
  });
}

async function main() {
  const data = readData();
  if (!data || data.schema !== "cep.report/1") return;
  addStyle();
  useStops(data.colors.sequential);
  startTheme();
  for (const [id, start] of SECTIONS) {
    await enliven(data, id, start);
    if (id !== "heat") continue;
    await nextFrame();
    performance.mark("cep-heat");
  }
  document.documentElement.dataset.cep = "ready";
}

main();
