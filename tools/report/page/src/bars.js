// SPDX-License-Identifier: Apache-2.0
//
// Horizontal bars made of elements: they wrap, shrink and can be read without a picture.
import { element, tooltip } from "./dom.js";

/**
 * A piece of a bar from `from` to `to` (0 to 1 of the width); `lines` are its tooltip. It is no stop of the Tab key: the
 * section's table says the same.
 */
export function piece({ from, to, colour, kind = "", lines }) {
  const made = element("span", {
    class: `cep-piece ${kind}`,
    role: "img",
    "aria-label": lines.filter(Boolean).join(", "),
    onpointermove: (event) => tooltip.show(event.clientX, event.clientY, lines),
    onpointerleave: (event) => tooltip.leave(event),
  });
  made.style.left = `${100 * from}%`;
  made.style.width = `${100 * Math.max(0, to - from)}%`;
  if (colour) made.style.setProperty("--fill", `var(--${colour})`);
  return made;
}

/** A row: its name, its bar, and the value in words. */
export function bar(label, pieces, value) {
  return element(
    "div",
    { class: "cep-bar" },
    element("span", { class: "cep-bar-label", title: label }, label),
    element("span", { class: "cep-track" }, ...pieces),
    element("span", { class: "cep-bar-value" }, value),
  );
}

export function bars(...rows) {
  return element("div", { class: "cep-bars" }, ...rows);
}
