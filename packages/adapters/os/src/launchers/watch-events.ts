// SPDX-License-Identifier: Apache-2.0
// Filters and counts the inotify events of a directory that a launcher can change.

/** Number of irrelevant events after which the watch pauses, because hostile launchers may cause many. */
const IRRELEVANT_EVENTS_MAX = 50;

/** Checks for the expected name or the directory, whose `name` is null or the descriptor's number. */
export function isRelevant(
  event: string,
  name: string | null,
  expected: string | undefined,
): boolean {
  if (event !== "rename") return false;
  return name === null || /^\d+$/.test(name) || name === expected;
}

export class IrrelevantEventCounter {
  #count = 0;

  reset(): void {
    this.#count = 0;
  }

  countAndCheck(): boolean {
    this.#count += 1;
    return this.#count >= IRRELEVANT_EVENTS_MAX;
  }
}
