// SPDX-License-Identifier: Apache-2.0
// Netlink and link changes in network namespaces, through the addon.
import type {
  LinkChanges,
  LinkWatch,
  Netlink,
  NetlinkProtocol,
  NetnsHandle,
  WatchedLinks,
} from "@patchbay/core/interfaces";
import { checkedFd } from "./descriptors.ts";
import { toFileError } from "./files/file-errors.ts";
import { osNative } from "./native.ts";
import { Throttle } from "./throttle.ts";

class WatchedNamespace implements WatchedLinks {
  readonly #changed: (links: LinkChanges) => void;
  readonly #watch: number;
  readonly #throttle = new Throttle();
  #timer: NodeJS.Timeout | undefined;
  #isClosed = false;

  constructor(netnsFd: number, changed: (links: LinkChanges) => void) {
    this.#changed = changed;
    this.#watch = osNative().watchLinks(netnsFd, () => {
      this.#onReadable();
    });
  }

  catchUp(): void {
    if (!this.#isClosed) osNative().readLinks(this.#watch);
  }

  close(): void {
    this.#isClosed = true;
    clearTimeout(this.#timer);
    osNative().cancelLinks(this.#watch);
  }

  /** Also called after a pause: reports what changed meanwhile, or listens again if nothing did. */
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
    this.#changed(isComplete ? links : "unknown");
  }
}

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

/** Source: linux/netlink.h */
const PROTOCOLS: Readonly<Record<NetlinkProtocol, number>> = { route: 0, netfilter: 12 };

async function withNetns<T>(netns: NetnsHandle, call: (fd: number) => Promise<T>): Promise<T> {
  const fd = checkedFd(netns);
  try {
    return await call(fd);
  } catch (error) {
    throw toFileError(error, "netlink", `net:[${netns.inode}]`);
  }
}

export function createNetlink(): Netlink {
  return {
    talk: (netns, protocol, messages) =>
      withNetns(netns, async (fd) => osNative().talkNetlink(fd, PROTOCOLS[protocol], messages)),
    makeTap: (netns, { name, owner, isMultiQueue }) =>
      withNetns(netns, async (fd) => osNative().makeTap(fd, name, owner, isMultiQueue)),
    sendFrames: (netns, link, frames) =>
      withNetns(netns, async (fd) => osNative().sendFrames(fd, link, frames)),
    exchangeFrames: async ({ ports, sends, tests, ms }) => {
      try {
        const opened = ports.map(({ netns, link }) => ({ netnsFd: checkedFd(netns), link }));
        return await osNative().exchangeFrames(opened, sends, tests, ms);
      } catch (error) {
        throw toFileError(error, "netlink", "frames");
      }
    },
    readSettings: (netns, patterns) =>
      withNetns(netns, async (fd) => osNative().readSettings(fd, patterns)),
  };
}
