// SPDX-License-Identifier: Apache-2.0
// The last changes, in memory: watches that are a little behind share them, instead of reading each its own from the log.
import { printAddress } from "../objects/object.ts";
import { rangeOf } from "./scope.ts";
import type { Change, Scope } from "./store.ts";

/** Characters of text, and changes, that are kept. */
const LENGTH_MAX = 8 * 1024 * 1024;
const COUNT_MAX = 1000;

/** The last changes in commit order. */
export class RecentChanges {
  #changes: Change[] = [];
  #length = 0;
  /** Everything after this revision is here. */
  #after: number;

  /** `revision`: of the store, now. */
  constructor(revision: number) {
    this.#after = revision;
  }

  add(changes: readonly Change[]): void {
    for (const change of changes) {
      this.#changes.push(change);
      this.#length += change.current.text.length;
    }
    let gone = 0;
    while (this.#length > LENGTH_MAX || this.#changes.length - gone > COUNT_MAX) {
      const oldest = this.#changes[gone];
      if (oldest === undefined) {
        break;
      }
      this.#length -= oldest.current.text.length;
      this.#after = oldest.revision;
      gone += 1;
    }
    this.#changes = gone === 0 ? this.#changes : this.#changes.slice(gone);
  }

  /** The first changes after a revision, at most `limit`, or `length` characters and one; undefined where some of them are no longer here. */
  findAfter(
    scope: Scope,
    revision: number,
    most: { readonly limit: number; readonly length: number },
  ): readonly Change[] | undefined {
    if (revision < this.#after) {
      return undefined;
    }
    const [from, to] = rangeOf(scope);
    const found: Change[] = [];
    let length = 0;
    for (const change of this.#changes) {
      const key = printAddress(change.current.address);
      if (change.revision <= revision || key < from || key >= to) {
        continue;
      }
      found.push(change);
      length += change.current.text.length;
      if (found.length >= most.limit || length > most.length) {
        break;
      }
    }
    return found;
  }
}
