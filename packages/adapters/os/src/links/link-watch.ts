// SPDX-License-Identifier: Apache-2.0
// When do links change in a network namespace? One netlink socket for each, which is not read while it is throttled: whoever
// floods it fills its buffer, and is told of as one change that nobody knows.
import type { LinkChanges, LinkWatch, WatchedLinks } from "@patchbay/core/ports";
import { checkedFd } from "../checked-descriptor.ts";
import { toFileError } from "../files/file-errors.ts";
import { osNative } from "../native.ts";
import { Throttle } from "../throttle.ts";

class WatchedNamespace implements WatchedLinks {
  readonly #changed: (links: LinkChanges) => void;
  readonly #watch: number;
  readonly #throttle = new Throttle();
  #timer: NodeJS.Timeout | undefined;
  #isOver = false;

  constructor(netnsFd: number, changed: (links: LinkChanges) => void) {
    this.#changed = changed;
    this.#watch = osNative().watchLinks(netnsFd, () => {
      this.#hear();
    });
  }

  catchUp(): void {
    if (!this.#isOver) osNative().readLinks(this.#watch);
  }

  close(): void {
    this.#isOver = true;
    clearTimeout(this.#timer);
    osNative().cancelLinks(this.#watch);
  }

  /** Also after a rest: what came meanwhile is told, and then listened on when that was nothing. */
  #hear(): void {
    if (this.#isOver) return;
    const { links, isComplete } = osNative().readLinks(this.#watch);
    if (isComplete && links.length === 0) {
      osNative().armLinks(this.#watch);
      return;
    }
    this.#timer = setTimeout(() => {
      this.#hear();
    }, this.#throttle.nextMs());
    this.#changed(isComplete ? links : "unknown");
  }
}

/** Watches links by netlink; works for namespaces that this process may enter. */
export function createLinkWatch(): LinkWatch {
  return {
    watch(netns, changed, signal): WatchedLinks {
      if (signal.aborted) return { catchUp: () => undefined };
      let watched: WatchedNamespace;
      try {
        watched = new WatchedNamespace(checkedFd(netns), changed);
      } catch (error) {
        throw toFileError(error, "watch", `network namespace ${netns.inode}`);
      }
      signal.addEventListener(
        "abort",
        () => {
          watched.close();
        },
        { once: true },
      );
      return watched;
    },
  };
}
