// SPDX-License-Identifier: Apache-2.0

/** Colors of the page. `auto` follows the system. */
export type Theme = "auto" | "light" | "dark";

const STORAGE_KEY = "patchbay-theme";
const THEMES: readonly Theme[] = ["auto", "light", "dark"];

export function readTheme(): Theme {
  const stored = localStorage.getItem(STORAGE_KEY);
  return THEMES.find((theme) => theme === stored) ?? "auto";
}

export function setTheme(theme: Theme): void {
  localStorage.setItem(STORAGE_KEY, theme);
  document.documentElement.dataset["theme"] = theme;
}

export function nextTheme(theme: Theme): Theme {
  return THEMES[(THEMES.indexOf(theme) + 1) % THEMES.length] ?? "auto";
}
