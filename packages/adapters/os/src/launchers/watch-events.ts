// SPDX-License-Identifier: Apache-2.0
// Which inotify events of a directory that a launcher may write to wake the caller. Pure.

/** Events of other names and of file contents between two wakes; a launcher can cause any number of them. */
const NOISE_MAX = 50;

/**
 * Whether the event may concern the expected name. A directory that was deleted or moved reports itself, without a name
 * or with the number of the descriptor through which it is watched.
 */
export function isRelevant(
  event: string,
  name: string | null,
  expected: string | undefined,
): boolean {
  if (event !== "rename") return false;
  return name === null || /^\d+$/.test(name) || name === expected;
}

/** Counts events that are not relevant. */
export class NoiseCounter {
  #count = 0;

  /** Forgets what was counted. */
  reset(): void {
    this.#count = 0;
  }

  /** Counts one; whether there were so many that the watch has to pause. */
  isTooMuch(): boolean {
    this.#count += 1;
    return this.#count >= NOISE_MAX;
  }
}
