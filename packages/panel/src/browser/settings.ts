// SPDX-License-Identifier: Apache-2.0
// What does the browser keep of the panel's look?

/** Light, dark, or as the system is. */
export type Theme = "auto" | "light" | "dark";

const KEY = "patchbay-theme";
const THEMES: readonly Theme[] = ["auto", "light", "dark"];

/** What was chosen last. */
export function readTheme(): Theme {
  const kept = localStorage.getItem(KEY);
  return THEMES.find((theme) => theme === kept) ?? "auto";
}

/** Keeps a choice and shows it. */
export function setTheme(theme: Theme): void {
  localStorage.setItem(KEY, theme);
  document.documentElement.dataset["theme"] = theme;
}

/** The one after it. */
export function nextTheme(theme: Theme): Theme {
  return THEMES[(THEMES.indexOf(theme) + 1) % THEMES.length] ?? "auto";
}
