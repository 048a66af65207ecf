// SPDX-License-Identifier: Apache-2.0
//
// Dark and light: as the system has it, or as chosen here.
import { isDark, themeChanged } from "./colours.js";
import { button } from "./dom.js";

export function startTheme() {
  const words = () => (isDark() ? "Light" : "Dark");
  const change = button(
    words(),
    () => {
      document.documentElement.dataset.theme = isDark() ? "light" : "dark";
      themeChanged();
      change.textContent = words();
    },
    "Change between dark and light",
  );
  change.classList.add("cep-theme");
  matchMedia("(prefers-color-scheme: dark)").addEventListener("change", () => {
    themeChanged();
    change.textContent = words();
  });
  document.body.prepend(change);
}
