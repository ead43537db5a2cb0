// SPDX-License-Identifier: Apache-2.0
// Which changes of a launcher's guest and links wake the loop: those that no look has seen yet, and that are worth one.
// What a pass does itself is seen by its own next look, so it wakes nobody.
import type { LinkChanges } from "@patchbay/core/ports";

/** What the loop is told of one launcher. */
export class Attention {
  readonly #wake: () => void;
  #isWorthLook: (changes: LinkChanges) => boolean = () => true;
  #works = 0;
  /** Not seen yet. */
  #hasEvent = false;
  #changes: LinkChanges[] = [];

  constructor(wake: () => void) {
    this.#wake = wake;
  }

  /** libvirt told of the guest. */
  noteEvent(): void {
    this.#hasEvent = true;
    this.#settle();
  }

  /** The kernel told of links. */
  noteLinks(changes: LinkChanges): void {
    this.#changes.push(changes);
    this.#settle();
  }

  /** A look begins, and sees all that happened until now. */
  look(): void {
    this.#hasEvent = false;
    this.#changes = [];
  }

  /** A look at links alone begins: what libvirt told is still to be seen. */
  lookAtLinks(): void {
    this.#changes = [];
  }

  /** From now on only such changes of links are worth a look. */
  wakeOnlyFor(isWorthLook: (changes: LinkChanges) => boolean): void {
    this.#isWorthLook = isWorthLook;
  }

  /** Somebody works on the launcher, and looks at it: what happens meanwhile wakes at the end at the earliest. */
  async during<T>(work: () => Promise<T>): Promise<T> {
    this.#works += 1;
    try {
      return await work();
    } finally {
      this.#works -= 1;
      this.#settle();
    }
  }

  #settle(): void {
    if (this.#works > 0) return;
    const isNews = this.#hasEvent || this.#changes.some((changes) => this.#isWorthLook(changes));
    this.look();
    if (isNews) this.#wake();
  }
}
