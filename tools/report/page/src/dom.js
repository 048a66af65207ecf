// SPDX-License-Identifier: Apache-2.0
//
// Elements of the page. Strings only ever become text, never markup: names come from files.

/** element("p", {class: "note", onclick: f}, "text", child): attributes, listeners (on…), children. */
export function element(tag, attributes = {}, ...children) {
  const made = document.createElement(tag);
  for (const [name, value] of Object.entries(attributes)) {
    if (value === undefined || value === null || value === false) continue;
    if (name.startsWith("on")) made.addEventListener(name.slice(2), value);
    else made.setAttribute(name, value === true ? "" : value);
  }
  made.append(...children.filter((child) => child !== null && child !== undefined));
  return made;
}

/** A labelled list to choose from; options are [value, text]. */
export function choice(label, options, value, onChange) {
  const list = element("select", { "aria-label": label, onchange: () => onChange(list.value) });
  for (const [key, text] of options) list.append(element("option", { value: key, selected: key === value }, text));
  list.value = value;
  return element("label", { class: "cep-choice" }, element("span", {}, label), list);
}

export function button(text, onClick, title) {
  return element("button", { type: "button", class: "cep-button", onclick: onClick, title }, text);
}

/** The section of a part of a live picture gets its static one back. */
export function giveUp(part, error) {
  const section = part.closest("section");
  section?.classList.remove("cep-is-live");
  section?.querySelector(".cep-live")?.remove();
  console.error(`cep report: ${section?.id}: ${error.stack || error}`);
}

/** Calls draw(width) now and whenever the element's width changes. */
export function onWidth(observed, draw) {
  let width = 0;
  const observer = new ResizeObserver(() => {
    const now = Math.floor(observed.clientWidth);
    if (now === width || now === 0) return;
    width = now;
    try {
      draw(width);
    } catch (error) {
      giveUp(observed, error);
    }
  });
  observer.observe(observed);
}

/** The one tooltip of the page. */
class Tooltip {
  constructor() {
    this.box = element("div", { class: "cep-tooltip", "aria-hidden": "true", hidden: true });
  }

  /** show(x, y, lines): beside a point of the window; the first line is the heading. */
  show(x, y, lines) {
    if (!this.box.isConnected) document.body.append(this.box);
    this.box.replaceChildren(
      ...lines.filter(Boolean).map((line, index) => element(index === 0 ? "strong" : "span", {}, line)),
    );
    this.box.hidden = false;
    const { offsetWidth: width, offsetHeight: height } = this.box;
    const left = x + 14 + width > window.innerWidth ? x - 14 - width : x + 14;
    const top = y + 14 + height > window.innerHeight ? y - 14 - height : y + 14;
    this.box.style.left = `${Math.max(4, left)}px`;
    this.box.style.top = `${Math.max(4, top)}px`;
  }

  hide() {
    this.box.hidden = true;
  }

  /** For a listener of "pointerleave": a finger leaves when it is lifted, and what it asked for stays. */
  leave(event) {
    if (event.pointerType !== "touch") this.hide();
  }
}

export const tooltip = new Tooltip();
document.addEventListener("pointerdown", () => tooltip.hide(), true);

/** A line that screen readers read out when it changes. */
export function announcer() {
  const line = element("p", { class: "cep-announce", "aria-live": "polite" });
  let waiting = 0;
  return {
    line,
    say(text) {
      cancelAnimationFrame(waiting);
      waiting = requestAnimationFrame(() => {
        line.textContent = text;
      });
    },
  };
}

/** A canvas, kept in memory, that is drawn at the screen's own resolution: resize(width, height) in CSS pixels gives the context. */
export function sharpCanvas(attributes) {
  const canvas = element("canvas", attributes);
  const context = canvas.getContext("2d", { willReadFrequently: true });
  return {
    canvas,
    context,
    resize(width, height) {
      const ratio = Math.min(window.devicePixelRatio || 1, 2);
      canvas.width = Math.round(width * ratio);
      canvas.height = Math.round(height * ratio);
      canvas.style.width = `${width}px`;
      canvas.style.height = `${height}px`;
      context.setTransform(ratio, 0, 0, ratio, 0, 0);
      return ratio;
    },
  };
}
