// SPDX-License-Identifier: Apache-2.0
import type { ChangedLink, LinkChanges, LinkWatch, WatchedLinks } from "@patchbay/core/interfaces";

/** A {@link LinkWatch} in memory, whose changes tests emit. */
export interface FakeLinkWatch extends LinkWatch {
  /** Reports a change of the link. */
  emit(netnsInode: string, link: ChangedLink): void;
  /** Reports lost events, as after a buffer overflow. */
  overflow(netnsInode: string): void;
  /** Returns the number of watches of a namespace. */
  countWatches(netnsInode: string): number;
  /** Makes the next `watch` fail with the error. */
  failNext(error: unknown): void;
}

class MemoryWatch implements WatchedLinks {
  readonly #onChange: (links: LinkChanges) => void;
  #pending: ChangedLink[] = [];
  #isLost = false;

  constructor(onChange: (links: LinkChanges) => void) {
    this.#onChange = onChange;
  }

  discardEvents(): void {
    this.#pending = [];
    this.#isLost = false;
  }

  /** Reports the change asynchronously, as a socket does; undefined is a lost event. */
  note(link: ChangedLink | undefined): void {
    if (link === undefined) this.#isLost = true;
    else this.#pending.push(link);
    queueMicrotask(() => {
      this.#report();
    });
  }

  #report(): void {
    const links = new Map(this.#pending.map((link) => [link.index, link]));
    const isLost = this.#isLost;
    this.discardEvents();
    if (isLost) this.#onChange("unknown");
    else if (links.size > 0) this.#onChange([...links.values()]);
  }
}

/** A source of link changes, for example a fake pod network. */
interface LinkChangeSource {
  onChange(listener: (netnsInode: string, link: ChangedLink) => void): void;
}

/** Creates a fake that also reports the changes of `links`. */
export function createFakeLinkWatch(links?: LinkChangeSource): FakeLinkWatch {
  const watches = new Map<string, Set<MemoryWatch>>();
  const failures: unknown[] = [];
  const note = (inode: string, link?: ChangedLink): void => {
    for (const watch of watches.get(inode) ?? []) watch.note(link);
  };
  links?.onChange(note);
  return {
    emit: note,
    overflow: (inode) => {
      note(inode);
    },
    countWatches: (inode) => watches.get(inode)?.size ?? 0,
    failNext: (error) => {
      failures.push(error);
    },
    watch({ inode }, changed, signal): WatchedLinks {
      if (failures.length > 0) throw failures.shift();
      const watch = new MemoryWatch((links) => {
        if (!signal.aborted) changed(links);
      });
      if (signal.aborted) return watch;
      const known = watches.get(inode) ?? new Set();
      watches.set(inode, known.add(watch));
      signal.addEventListener("abort", () => known.delete(watch), { once: true });
      return watch;
    },
  };
}
