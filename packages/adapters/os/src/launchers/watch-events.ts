// SPDX-License-Identifier: Apache-2.0
// Inotify events of a directory that a launcher can write to.

/** Number of irrelevant events before a pause, because a launcher can cause any number of them. */
const IRRELEVANT_EVENTS_MAX = 50;

/**
 * Checks for events of the expected name. A deleted or moved directory reports itself without a name, or with the
 * number of its descriptor.
 */
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

  /** Counts one event and returns whether the watch must pause. */
  countAndCheck(): boolean {
    this.#count += 1;
    return this.#count >= IRRELEVANT_EVENTS_MAX;
  }
}
