// SPDX-License-Identifier: Apache-2.0
//
// The heat map as a user has it: choose, point, drag, read.

export class HeatMapUser {
  constructor(page) {
    this.page = page;
    this.section = page.locator("#heat");
    this.plot = this.section.locator("#heat-plot > .frame");
    this.picture = this.section.locator("svg[tabindex]");
  }

  /** Chooses, and waits until the picture is drawn anew. */
  async choose(label, text) {
    await this.section.getByLabel(label, { exact: true }).selectOption({ label: text });
    await this.section.locator("svg[aria-busy=false]").waitFor();
  }

  options(label) {
    return this.section.getByLabel(label, { exact: true }).locator("option").allTextContents();
  }

  /** A place of the plot (0 to 1) in the window. */
  async point(x, y) {
    await this.plot.scrollIntoViewIfNeeded();
    const box = await this.plot.boundingBox();
    return [box.x + x * box.width, box.y + y * box.height];
  }

  async hover(x, y) {
    await this.page.mouse.move(...(await this.point(x, y)));
    return this.read();
  }

  /** What is shown beside the pointer: {text, value, rank, step}. */
  async read() {
    const text = (await this.page.locator("#tip").textContent()).replaceAll("\u00a0", " ");
    const found = /^[≈≤] ([\d.,]+) (µs|ms|s)/.exec(text);
    const factor = { µs: 0.001, ms: 1, s: 1000 };
    return {
      text,
      value: found ? Number(found[1].replaceAll(",", "")) * factor[found[2]] : NaN,
      rank: Number(/rank (\d+)/.exec(text)?.[1] ?? NaN),
      step: Number(/step (\d+)/.exec(text)?.[1] ?? NaN),
    };
  }

  async drag(from, to) {
    await this.page.mouse.move(...(await this.point(...from)));
    await this.page.mouse.down();
    await this.page.mouse.move(...(await this.point(...to)), { steps: 4 });
    await this.page.mouse.up();
  }

  async doubleClick(x, y) {
    await this.page.mouse.dblclick(...(await this.point(x, y)));
  }

  /** What part of the job is shown, in words. */
  where() {
    return this.section.locator(".where").textContent();
  }

  /** What is read out. */
  said() {
    return this.section.locator("[aria-live]").textContent();
  }
}
