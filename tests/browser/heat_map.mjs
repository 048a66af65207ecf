// SPDX-License-Identifier: Apache-2.0
//
// The heat map as a user has it: choose, point, drag, read.

export class HeatMapUser {
  constructor(page) {
    this.page = page;
    this.section = page.locator("#heat");
    this.canvas = this.section.locator("canvas.cep-heat");
  }

  /** Chooses, and waits until the picture is drawn anew. */
  async choose(label, text) {
    const root = this.section.locator(".cep-live");
    const before = await root.getAttribute("data-drawn");
    await this.section.getByLabel(label, { exact: true }).selectOption({ label: text });
    await this.page.waitForFunction(
      ([element, old]) => element.dataset.drawn !== old,
      [await root.elementHandle(), before],
    );
  }

  options(label) {
    return this.section.getByLabel(label, { exact: true }).locator("option").allTextContents();
  }

  async point(x, y) {
    await this.canvas.scrollIntoViewIfNeeded();
    const box = await this.canvas.boundingBox();
    return [box.x + x * box.width, box.y + y * box.height];
  }

  /** The tooltip at a place of the canvas (0 to 1): {lines, value, rank, step}. */
  async hover(x, y) {
    await this.page.mouse.move(...(await this.point(x, y)));
    return this.read(await this.page.locator(".cep-tooltip").locator("strong, span").allTextContents());
  }

  read(lines) {
    const text = lines.join("\n");
    const found = /(?:^|\n)(?:≈ )?([\d.,]+) (µs|ms|s|×)/.exec(text);
    const factor = { µs: 0.001, ms: 1, s: 1000, "×": 1 };
    return {
      lines,
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
    return this.section.locator(".cep-where").textContent();
  }

  /** What is read out, once it is another text than `before`. */
  async announced(before = "") {
    const line = this.section.locator("[aria-live]");
    await this.page.waitForFunction(
      ([element, old]) => element.textContent !== "" && element.textContent !== old,
      [await line.elementHandle(), before],
    );
    return line.textContent();
  }
}
