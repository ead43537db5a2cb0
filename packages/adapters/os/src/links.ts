// SPDX-License-Identifier: Apache-2.0
// Sends netlink requests, watches links and their frames, and reads counters of links in network namespaces, with the native addon.
import type {
  FrameFilter,
  FrameWatch,
  LinkChanges,
  LinkCounters,
  LinkWatch,
  Netlink,
  NetlinkProtocol,
  NetnsHandle,
  WatchedFrame,
  WatchedFrames,
  WatchedLinks,
} from "@patchbay/core/interfaces";
import type { DirectionCounts, LinkCounts } from "@patchbay/core/metrics";
import { checkedFd } from "./descriptors.ts";
import { toFileError } from "./files/file-errors.ts";
import { osNative } from "./native.ts";
import { Throttle } from "./throttle.ts";

class WatchedNamespace implements WatchedLinks {
  readonly #onChange: (links: LinkChanges) => void;
  readonly #watch: number;
  readonly #throttle = new Throttle();
  #timer: NodeJS.Timeout | undefined;
  #isClosed = false;

  constructor(netnsFd: number, onChange: (links: LinkChanges) => void) {
    this.#onChange = onChange;
    this.#watch = osNative().watchLinks(netnsFd, () => {
      this.#onReadable();
    });
  }

  discardEvents(): void {
    if (!this.#isClosed) osNative().readLinks(this.#watch);
  }

  close(): void {
    this.#isClosed = true;
    clearTimeout(this.#timer);
    osNative().cancelLinks(this.#watch);
  }

  /** Reports changed links, and reads again after a pause. If no link has changed, waits for the next event instead. */
  #onReadable(): void {
    if (this.#isClosed) return;
    const { links, isComplete } = osNative().readLinks(this.#watch);
    if (isComplete && links.length === 0) {
      osNative().armLinks(this.#watch);
      return;
    }
    this.#timer = setTimeout(() => {
      this.#onReadable();
    }, this.#throttle.nextMs());
    this.#onChange(isComplete ? links : "unknown");
  }
}

export function createLinkWatch(): LinkWatch {
  return {
    watch(netns, onChange, signal): WatchedLinks {
      if (signal.aborted) return { discardEvents: () => undefined };
      let watched: WatchedNamespace;
      try {
        watched = new WatchedNamespace(checkedFd(netns), onChange);
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

class WatchedLink implements WatchedFrames {
  readonly #onFrames: (frames: readonly WatchedFrame[]) => void;
  readonly #watch: number;
  readonly #throttle = new Throttle();
  #timer: NodeJS.Timeout | undefined;
  #isClosed = false;

  constructor(
    { netns, name, filter: { incoming, outgoing } }: Parameters<FrameWatch["watch"]>[0],
    onFrames: (frames: readonly WatchedFrame[]) => void,
  ) {
    this.#onFrames = onFrames;
    const readable = (): void => {
      this.#onReadable();
    };
    this.#watch = osNative().watchFrames(checkedFd(netns), name, incoming, outgoing, readable);
  }

  setFilter({ incoming, outgoing }: FrameFilter): void {
    if (this.#isClosed) return;
    try {
      osNative().filterFrames(this.#watch, incoming, outgoing);
    } catch (error) {
      throw toFileError(error, "watch", "frames");
    }
  }

  close(): void {
    this.#isClosed = true;
    clearTimeout(this.#timer);
    osNative().cancelFrames(this.#watch);
  }

  /** Reports frames, and reads again after a pause. The socket's buffer limits a flood. If there are no frames, waits for the next one. */
  #onReadable(): void {
    if (this.#isClosed) return;
    const frames = osNative().readFrames(this.#watch);
    if (frames.length === 0) {
      osNative().armFrames(this.#watch);
      return;
    }
    this.#timer = setTimeout(() => {
      this.#onReadable();
    }, this.#throttle.nextMs());
    this.#onFrames(frames);
  }
}

export function createFrameWatch(): FrameWatch {
  return {
    watch(link, onFrames, signal): WatchedFrames {
      if (signal.aborted) return { setFilter: () => undefined };
      let watched: WatchedLink;
      try {
        watched = new WatchedLink(link, onFrames);
      } catch (error) {
        throw toFileError(error, "watch", `link ${link.name} of net:[${link.netns.inode}]`);
      }
      const close = (): void => {
        watched.close();
      };
      signal.addEventListener("abort", close, { once: true });
      return watched;
    },
  };
}

/** Source: linux/netlink.h */
const PROTOCOLS: Readonly<Record<NetlinkProtocol, number>> = { route: 0, netfilter: 12 };

async function withNetns<T>(netns: NetnsHandle, operation: (fd: number) => Promise<T>): Promise<T> {
  const fd = checkedFd(netns);
  try {
    return await operation(fd);
  } catch (error) {
    throw toFileError(error, "netlink", `net:[${netns.inode}]`);
  }
}

export function createNetlink(): Netlink {
  return {
    exchangeMessages: (netns, protocol, messages) =>
      withNetns(netns, async (fd) => osNative().talkNetlink(fd, PROTOCOLS[protocol], messages)),
    makeTap: (netns, { name, owner, isMultiQueue }) =>
      withNetns(netns, async (fd) => osNative().makeTap(fd, name, owner, isMultiQueue)),
    sendFrames: (netns, link, frames) =>
      withNetns(netns, async (fd) => osNative().sendFrames(fd, link, frames)),
    exchangeFrames: async ({ ports, sends, tests, ms }) => {
      try {
        const portFds = ports.map(({ netns, link }) => ({ netnsFd: checkedFd(netns), link }));
        return await osNative().exchangeFrames(portFds, sends, tests, ms);
      } catch (error) {
        throw toFileError(error, "netlink", "frames");
      }
    },
    readSettings: (netns, patterns) =>
      withNetns(netns, async (fd) => osNative().readSettings(fd, patterns)),
  };
}

/** Maximum number of links to return, far above the few links per NIC of a pod. */
const LINKS_MAX = 1000;
/** Columns of /proc/net/dev, counted from the column after the link's name. Source: linux net/core/net-procfs.c */
const RECEIVED_COLUMN = 0;
const TRANSMITTED_COLUMN = 8;
const COLUMN_COUNT = 16;

function parseDirection(numbers: readonly number[], firstColumn: number): DirectionCounts {
  const [bytes = 0, packets = 0, errors = 0, dropped = 0] = numbers.slice(firstColumn);
  return { bytes, packets, errors, dropped };
}

/** Parses a line of /proc/net/dev. The name of an interface alias may contain colons, so the last colon ends the name. */
function parseLine(line: string): LinkCounts | undefined {
  const end = line.lastIndexOf(":");
  const numbers = line
    .slice(end + 1)
    .trim()
    .split(/\s+/)
    .map(Number);
  if (end < 0 || numbers.length !== COLUMN_COUNT || numbers.some(Number.isNaN)) return undefined;
  return {
    name: line.slice(0, end).trim(),
    received: parseDirection(numbers, RECEIVED_COLUMN),
    transmitted: parseDirection(numbers, TRANSMITTED_COLUMN),
  };
}

export function parseLinkCounters(text: string): readonly LinkCounts[] {
  return text
    .split("\n")
    .flatMap((line) => parseLine(line) ?? [])
    .slice(0, LINKS_MAX);
}

export function createLinkCounters(): LinkCounters {
  return {
    async read(netns: NetnsHandle): Promise<readonly LinkCounts[]> {
      const fd = checkedFd(netns);
      try {
        return parseLinkCounters(await osNative().readLinkCounters(fd));
      } catch (error) {
        throw toFileError(error, "setns", `net:[${netns.inode}]`);
      }
    },
  };
}
