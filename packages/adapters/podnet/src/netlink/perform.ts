// SPDX-License-Identifier: Apache-2.0
// Carries changes of links out, in order, without a program. It stops at the first that the kernel refuses.
import { AppError } from "@patchbay/core";
import type { Netlink, NetnsHandle } from "@patchbay/core/ports";
import { printLinkChange, type LinkChange } from "../link-change.ts";
import { askIndexes, askLinks } from "./ask.ts";
import { changeMessageOf, removalOf, type OneMessage } from "./change-messages.ts";
import { sayErrno } from "./errno.ts";

/** The address is gone already: one that depended on another goes with it. Source: errno(3), EADDRNOTAVAIL */
const GONE = 99;

function indexIn(links: ReadonlyMap<string, number>, change: LinkChange): (name: string) => number {
  return (name) => {
    const index = links.get(name);
    if (index !== undefined) return index;
    const message = `${printLinkChange(change)}: there is no link ${name}`;
    throw new AppError("PODNET_FAILED", { message });
  };
}

function refusal(change: LinkChange, errno: number): AppError {
  const message = `the kernel refused "${printLinkChange(change)}": ${sayErrno(errno)}`;
  return new AppError("PODNET_FAILED", { message });
}

/** A change with its message. */
interface Said {
  readonly change: OneMessage;
  readonly message: Uint8Array;
}

/** Says messages in one conversation. */
async function say(netlink: Netlink, netns: NetnsHandle, all: readonly Said[]): Promise<void> {
  if (all.length === 0) return;
  const messages = all.map(({ message }) => message);
  const answers = await netlink.talk(netns, "route", messages);
  const refused = answers.findIndex(({ errno }) => errno !== 0);
  const said = all[refused];
  if (said !== undefined) throw refusal(said.change, answers[refused]?.errno ?? 0);
}

type Flush = Extract<LinkChange, { readonly op: "flushAddresses" }>;

/** Removes the addresses that are there now. */
async function flush(netlink: Netlink, netns: NetnsHandle, change: Flush): Promise<void> {
  const link = (await askLinks(netlink, netns)).find(({ name }) => name === change.link);
  if (link === undefined) return;
  for (const address of link.addresses) {
    const [answer] = await netlink.talk(netns, "route", [removalOf(address, link.index)]);
    const errno = answer?.errno ?? 0;
    if (errno !== 0 && errno !== GONE) throw refusal(change, errno);
  }
}

/** Performs changes none of which is about a link that another of them makes. */
async function performSome(
  netlink: Netlink,
  netns: NetnsHandle,
  changes: readonly LinkChange[],
): Promise<void> {
  const links = await askIndexes(netlink, netns);
  let waiting: Said[] = [];
  const sayAll = async (): Promise<void> => {
    const all = waiting;
    waiting = [];
    await say(netlink, netns, all);
  };
  for (const change of changes) {
    if (change.op === "addTap") {
      await sayAll();
      const { link: name, owner, takesMany } = change;
      await netlink.makeTap(netns, { name, owner, takesMany });
    } else if (change.op === "flushAddresses") {
      await sayAll();
      await flush(netlink, netns, change);
    } else {
      waiting.push({ change, message: changeMessageOf(change, indexIn(links, change)) });
    }
  }
  await sayAll();
}

function makesLink({ op }: LinkChange): boolean {
  return op === "addBridge" || op === "addTap";
}

/**
 * Performs changes in order. Equivalent to: `ip -batch -` and `bridge -batch -`
 * @throws AppError with PODNET_FAILED, OS_FILE_FAILED
 */
export async function perform(
  netlink: Netlink,
  netns: NetnsHandle,
  changes: readonly LinkChange[],
): Promise<void> {
  let rest = changes;
  while (rest.length > 0) {
    // What is made is asked for its index before anything is said of it.
    const last = rest.findIndex(makesLink);
    const count = last < 0 ? rest.length : last + 1;
    await performSome(netlink, netns, rest.slice(0, count));
    rest = rest.slice(count);
  }
}
