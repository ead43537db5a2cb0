// SPDX-License-Identifier: Apache-2.0
// Tracks the recent growth of data that outlives pods, such as claims. Evictions depend on the growth of such data, not its size.

/** Length of a time window. Growth is measured over the last one to two windows. */
const WINDOW_MS = 1_800_000;

export interface Growths {
  /** Returns the recent growth in bytes, by the pod's uid and a description of the data, like `new data of claim volume "NAME"`. */
  measure(): Promise<ReadonlyMap<string, ReadonlyMap<string, number>>>;
  resetGrowth(uid: string): void;
}

interface Mark {
  readonly olderBytes: number;
  readonly newerBytes: number;
  readonly atMs: number;
}

function nextMark(mark: Mark, bytes: number, nowMs: number): Mark {
  const { olderBytes, newerBytes, atMs } = mark;
  if (nowMs - atMs >= WINDOW_MS) {
    return { olderBytes: Math.min(newerBytes, bytes), newerBytes: bytes, atMs: nowMs };
  }
  return { olderBytes: Math.min(olderBytes, bytes), newerBytes, atMs };
}

export class GrowthTracker {
  #marks: ReadonlyMap<string, Mark> | undefined;
  #sizes: ReadonlyMap<string, number> = new Map();

  /** Returns the growth in bytes, by name of the data. The whole size of data that was added after the first call counts as growth. */
  updateSizes(sizes: ReadonlyMap<string, number>, nowMs: number): ReadonlyMap<string, number> {
    const previousMarks = this.#marks;
    const marks = [...sizes].map(([name, bytes]) => {
      const firstMark = {
        olderBytes: previousMarks === undefined ? bytes : 0,
        newerBytes: bytes,
        atMs: nowMs,
      };
      return [name, nextMark(previousMarks?.get(name) ?? firstMark, bytes, nowMs)] as const;
    });
    this.#marks = new Map(marks);
    this.#sizes = sizes;
    return new Map(marks.map(([name, mark]) => [name, (sizes.get(name) ?? 0) - mark.olderBytes]));
  }

  resetGrowth(name: string): void {
    const [mark, bytes] = [this.#marks?.get(name), this.#sizes.get(name)];
    if (mark === undefined || bytes === undefined) return;
    const resetMark = { olderBytes: bytes, newerBytes: bytes, atMs: mark.atMs };
    this.#marks = new Map([...(this.#marks ?? []), [name, resetMark]]);
  }
}
