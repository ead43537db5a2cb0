// SPDX-License-Identifier: Apache-2.0
// Who closes or reloads the page while something would be lost is asked first, in the browser's own words.

/** Asks as long as `isNeeded` says so. Source: HTML Standard, beforeunload. */
export function askBeforeLeaving(isNeeded: () => boolean): void {
  addEventListener("beforeunload", (event) => {
    if (isNeeded()) event.preventDefault();
  });
}
