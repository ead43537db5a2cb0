// SPDX-License-Identifier: Apache-2.0
// Watched links in memory.
import type { ChangedLink, LinkChanges, LinkWatch, WatchedLinks } from "@patchbay/core/interfaces";

/** A {@link LinkWatch} in memory, to which a test tells what changes. */
export interface FakeLinkWatch extends LinkWatch {
  /** The link has changed. */
  emit(netnsInode: string, link: ChangedLink): void;
  /** More has changed than can be told. */
  overflow(netnsInode: string): void;
  /** How many watches of a namespace there are. */
  count(netnsInode: string): number;
  /** The next `watch` throws the error instead. */
  failNext(error: unknown): void;
}

class MemoryWatch implements WatchedLinks {
  readonly #changed: (links: LinkChanges) => void;
  #pending: ChangedLink[] = [];
  #isLost = false;

  constructor(changed: (links: LinkChanges) => void) {
    this.#changed = changed;
  }

  catchUp(): void {
    this.#pending = [];
    this.#isLost = false;
  }

  /** Told later, as by a socket. */
  note(link: ChangedLink | undefined): void {
    if (link === undefined) this.#isLost = true;
    else this.#pending.push(link);
    queueMicrotask(() => {
      this.#tell();
    });
  }

  #tell(): void {
    const links = new Map(this.#pending.map((link) => [link.index, link]));
    const isLost = this.#isLost;
    this.catchUp();
    if (isLost) this.#changed("unknown");
    else if (links.size > 0) this.#changed([...links.values()]);
  }
}

/** Whoever has links, for example the links of pods in memory. */
interface HasLinks {
  onChange(listener: (netnsInode: string, link: ChangedLink) => void): void;
}

/** No namespace is watched yet; `links` tell of their changes by themselves. */
export function createFakeLinkWatch(links?: HasLinks): FakeLinkWatch {
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
    count: (inode) => watches.get(inode)?.size ?? 0,
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
