// SPDX-License-Identifier: Apache-2.0
import { AppError } from "@patchbay/base";
import type {
  ChangedLink,
  FrameFilter,
  FrameTest,
  FrameWatch,
  LinkChanges,
  LinkWatch,
  NetnsHandle,
  WatchedFrame,
  WatchedFrames,
  WatchedLinks,
} from "@patchbay/core/interfaces";

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

/** A {@link FrameWatch} in memory, whose frames tests emit. */
export interface FakeFrameWatch extends FrameWatch {
  /** Passes a frame over the link, if the link's filter accepts it. */
  emit(netns: Pick<NetnsHandle, "inode">, link: string, frame: WatchedFrame): void;
  /** Lists the watched links as NETNS_INODE/LINK. */
  listWatched(): readonly string[];
  /** Makes watches of the link fail until it is set to exist. */
  setMissing(link: string, isMissing: boolean): void;
}

/** Frames of the fake have no VLAN tag, and all other facts of the kernel are 0 too. Source: linux/filter.h, SKF_AD_OFF */
const KERNEL_FACTS_AT = 0xfffff000;
const FRAME_BYTES_MAX = 400;
const FRAMES_MAX = 64;

function passes(frame: Uint8Array, { offset, size, value }: FrameTest): boolean {
  if (offset >= KERNEL_FACTS_AT) return value === 0;
  const bytes = Buffer.from(frame);
  return offset + size <= bytes.length && bytes.readUIntBE(offset, size) === value;
}

class MemoryFrames implements WatchedFrames {
  readonly link: string;
  readonly #onFrames: (frames: readonly WatchedFrame[]) => void;
  #filter: FrameFilter;
  #pending: WatchedFrame[] = [];

  constructor(
    link: string,
    filter: FrameFilter,
    onFrames: (frames: readonly WatchedFrame[]) => void,
  ) {
    this.link = link;
    this.#filter = filter;
    this.#onFrames = onFrames;
  }

  setFilter(filter: FrameFilter): void {
    this.#filter = filter;
  }

  /** Reports the frame asynchronously, as a socket does. */
  note({ isOutgoing, frame }: WatchedFrame): void {
    const lists = isOutgoing ? this.#filter.outgoing : this.#filter.incoming;
    if (!lists.some((tests) => tests.every((each) => passes(frame, each)))) return;
    if (this.#pending.length === FRAMES_MAX) return;
    this.#pending.push({ isOutgoing, frame: frame.slice(0, FRAME_BYTES_MAX) });
    queueMicrotask(() => {
      const frames = this.#pending.splice(0);
      if (frames.length > 0) this.#onFrames(frames);
    });
  }
}

export function createFakeFrameWatch(): FakeFrameWatch {
  const watches = new Set<MemoryFrames>();
  const missing = new Set<string>();
  return {
    emit: ({ inode }, link, frame) => {
      for (const watch of watches) if (watch.link === `${inode}/${link}`) watch.note(frame);
    },
    listWatched: () => [...watches].map(({ link }) => link),
    setMissing: (link, isMissing) => {
      if (isMissing) missing.add(link);
      else missing.delete(link);
    },
    watch({ netns, name, filter }, onFrames, signal): WatchedFrames {
      const watch = new MemoryFrames(`${netns.inode}/${name}`, filter, (frames) => {
        if (!signal.aborted) onFrames(frames);
      });
      if (signal.aborted) return watch;
      if (missing.has(name)) {
        const reason = "no such device";
        throw new AppError("OS_FILE_FAILED", {
          call: "watch",
          path: name,
          reason,
          errno: "ENODEV",
        });
      }
      watches.add(watch);
      signal.addEventListener("abort", () => watches.delete(watch), { once: true });
      return watch;
    },
  };
}
