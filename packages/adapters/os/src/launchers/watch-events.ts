// SPDX-License-Identifier: Apache-2.0
// Filters and counts the inotify events of a directory that a launcher can change.

/** Number of irrelevant events after which the watch pauses, because a hostile launcher may cause any number of them. */
const IRRELEVANT_EVENTS_MAX = 50;

/**
 * Checks whether the event concerns the expected name or the directory itself. For the directory itself, `name` is null or a number,
 * because the watched path is /proc/self/fd/NUMBER.
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

  countAndCheck(): boolean {
    this.#count += 1;
    return this.#count >= IRRELEVANT_EVENTS_MAX;
  }
}
