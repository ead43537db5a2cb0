// SPDX-License-Identifier: Apache-2.0
import { AppError } from "@patchbay/base";
import type {
  NetnsHandle,
  Netlink,
  NetlinkAnswer,
  NetlinkProtocol,
  NewTap,
} from "@patchbay/core/interfaces";

/** Returns the answer to one message; undefined for an empty answer without an error. */
export type NetlinkScript = (
  protocol: NetlinkProtocol,
  message: Uint8Array,
) => Partial<NetlinkAnswer> | undefined;

/** {@link Netlink} in memory, which answers by a script. */
export interface FakeNetlink extends Netlink {
  readonly sent: readonly { readonly protocol: NetlinkProtocol; readonly message: Uint8Array }[];
  readonly taps: readonly NewTap[];
  readonly frames: readonly { readonly link: string; readonly frame: Uint8Array }[];
  /** Makes all later calls in this namespace fail. */
  closeNetns(netnsInode: string): void;
}

function matching(settings: readonly string[], patterns: readonly string[]): string {
  const found = patterns.map((pattern) => new RegExp(`^${pattern.replaceAll("*", "[^/]*")}:`));
  return settings
    .filter((line) => found.some((path) => path.test(line)))
    .map((line) => `${line}\n`)
    .join("");
}

/** Creates a fake; `settings` are lines of PATH:VALUE, the same in each namespace. */
export function createFakeNetlink(
  script: NetlinkScript,
  settings: readonly string[] = [],
): FakeNetlink {
  const sent: { protocol: NetlinkProtocol; message: Uint8Array }[] = [];
  const taps: NewTap[] = [];
  const frames: { link: string; frame: Uint8Array }[] = [];
  const ended = new Set<string>();
  const enter = ({ fd, inode }: NetnsHandle): void => {
    if (ended.has(inode)) throw new AppError("OS_DESCRIPTOR_STALE", { fd });
  };
  const answersTo = (
    protocol: NetlinkProtocol,
    messages: readonly Uint8Array[],
  ): NetlinkAnswer[] => {
    const answers: NetlinkAnswer[] = [];
    for (const message of messages) {
      sent.push({ protocol, message });
      const answer = { data: new Uint8Array(), errno: 0, ...script(protocol, message) };
      answers.push(answer);
      if (answer.errno !== 0) break;
    }
    return answers;
  };
  return {
    sent,
    taps,
    frames,
    closeNetns: (inode) => void ended.add(inode),
    exchangeMessages: async (netns, protocol, messages) => {
      await Promise.resolve();
      enter(netns);
      return answersTo(protocol, messages);
    },
    makeTap: async (netns, tap) => {
      await Promise.resolve();
      enter(netns);
      const known = taps.some(({ name }) => name === tap.name);
      const details = { call: "TUNSETIFF", path: tap.name, reason: "it is there", errno: "EBUSY" };
      if (known) throw new AppError("OS_FILE_FAILED", details);
      taps.push(tap);
    },
    sendFrames: async (netns, link, sent) => {
      await Promise.resolve();
      enter(netns);
      frames.push(...sent.map((frame) => ({ link, frame })));
    },
    exchangeFrames: async ({ ports, sends }) => {
      await Promise.resolve();
      for (const { netns } of ports) enter(netns);
      frames.push(...sends.map(({ port, frame }) => ({ link: ports[port]?.link ?? "", frame })));
      return { frames: [], unheard: ports.map(() => 0), unsent: sends.map(() => 0) };
    },
    readSettings: async (netns, patterns) => {
      await Promise.resolve();
      enter(netns);
      return matching(settings, patterns);
    },
  };
}
