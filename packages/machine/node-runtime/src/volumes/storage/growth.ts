// SPDX-License-Identifier: Apache-2.0
// How much has what outlives pods grown of late? Pure. What was there before is no pod's doing: its end would not free it.

/** Growth is counted for one to two of these, milliseconds. */
const WINDOW_MS = 1_800_000;

/** What outlives pods, by the pods that make it grow. */
export interface Growths {
  /** Bytes that came lately, by the pod's uid and in words for people. */
  measure(): Promise<ReadonlyMap<string, ReadonlyMap<string, number>>>;
  /** The pod has gone for it: whoever takes its place begins anew. */
  forgive(uid: string): void;
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

/** Remembers what things held. */
export class GrowthMarks {
  #marks: ReadonlyMap<string, Mark> | undefined;
  #held: ReadonlyMap<string, number> = new Map();

  /** What each has grown by, from all that are there; what is new has grown from nothing. */
  take(held: ReadonlyMap<string, number>, nowMs: number): ReadonlyMap<string, number> {
    const before = this.#marks;
    const marks = [...held].map(([name, bytes]) => {
      const first = {
        olderBytes: before === undefined ? bytes : 0,
        newerBytes: bytes,
        atMs: nowMs,
      };
      return [name, nextMark(before?.get(name) ?? first, bytes, nowMs)] as const;
    });
    this.#marks = new Map(marks);
    this.#held = held;
    return new Map(marks.map(([name, mark]) => [name, (held.get(name) ?? 0) - mark.olderBytes]));
  }

  /** From now on it has not grown. */
  forgive(name: string): void {
    const [mark, bytes] = [this.#marks?.get(name), this.#held.get(name)];
    if (mark === undefined || bytes === undefined) return;
    const anew = { olderBytes: bytes, newerBytes: bytes, atMs: mark.atMs };
    this.#marks = new Map([...(this.#marks ?? []), [name, anew]]);
  }
}
