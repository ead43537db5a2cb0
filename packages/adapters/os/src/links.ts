// SPDX-License-Identifier: Apache-2.0
// Sends netlink requests, and watches links and their frames in network namespaces, with the native addon.
import type {
  FrameFilter,
  FrameWatch,
  LinkChanges,
  LinkWatch,
  Netlink,
  NetlinkProtocol,
  NetnsHandle,
  WatchedFrame,
  WatchedFrames,
  WatchedLinks,
} from "@patchbay/core/interfaces";
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
