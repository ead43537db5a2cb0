// SPDX-License-Identifier: Apache-2.0
// Speaks netlink in network namespaces, by the addon: no program runs.
import type { Netlink, NetlinkProtocol, NetnsHandle } from "@patchbay/core/ports";
import { checkedFd } from "../checked-descriptor.ts";
import { toFileError } from "../files/file-errors.ts";
import { osNative } from "../native.ts";

/** Source: linux/netlink.h */
const PROTOCOLS: Readonly<Record<NetlinkProtocol, number>> = { route: 0, netfilter: 12 };

/** Asks in the namespace; whatever keeps the kernel from answering is an error of its descriptor. */
async function ask<T>(netns: NetnsHandle, call: (fd: number) => Promise<T>): Promise<T> {
  const fd = checkedFd(netns);
  try {
    return await call(fd);
  } catch (error) {
    throw toFileError(error, "netlink", `net:[${netns.inode}]`);
  }
}

/** Netlink of this machine's kernel; works for namespaces that this process may enter. */
export function createNetlink(): Netlink {
  return {
    talk: (netns, protocol, messages) =>
      ask(netns, async (fd) => osNative().talkNetlink(fd, PROTOCOLS[protocol], messages)),
    makeTap: (netns, { name, owner, takesMany }) =>
      ask(netns, async (fd) => osNative().makeTap(fd, name, owner, takesMany)),
    sendFrames: (netns, link, frames) =>
      ask(netns, async (fd) => osNative().sendFrames(fd, link, frames)),
    exchangeFrames: async ({ ports, sends, tests, ms }) => {
      try {
        const opened = ports.map(({ netns, link }) => ({ netnsFd: checkedFd(netns), link }));
        return await osNative().exchangeFrames(opened, sends, tests, ms);
      } catch (error) {
        throw toFileError(error, "netlink", "frames");
      }
    },
    readSettings: (netns, patterns) =>
      ask(netns, async (fd) => osNative().readSettings(fd, patterns)),
  };
}
