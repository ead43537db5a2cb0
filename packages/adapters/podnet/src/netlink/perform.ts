// SPDX-License-Identifier: Apache-2.0
// Carries the commands of a plan out, in order, without a program. It stops at the first that the kernel refuses.
import { AppError } from "@patchbay/core";
import type { Netlink, NetnsHandle } from "@patchbay/core/ports";
import { askIndexes, askLinks } from "./ask.ts";
import { deedOf, removalOf, type Deed } from "./commands.ts";

/** The address is gone already: one that depended on another goes with it. Source: errno(3), EADDRNOTAVAIL */
const GONE = 99;

function indexIn(links: ReadonlyMap<string, number>, command: string): (name: string) => number {
  return (name) => {
    const index = links.get(name);
    if (index !== undefined) return index;
    throw new AppError("PODNET_FAILED", { message: `${command}: there is no link ${name}` });
  };
}

function refusal(command: string, errno: number): AppError {
  return new AppError("PODNET_FAILED", { message: `${command}: error ${String(errno)}` });
}

/** A command with what is done for it. */
interface Step {
  readonly command: string;
  readonly deed: Deed;
}

/** Says messages in one conversation. */
async function say(netlink: Netlink, netns: NetnsHandle, steps: readonly Step[]): Promise<void> {
  const messages = steps.flatMap(({ deed }) => (deed.kind === "message" ? [deed.message] : []));
  if (messages.length === 0) return;
  const answers = await netlink.talk(netns, "route", messages);
  const refused = answers.findIndex(({ errno }) => errno !== 0);
  if (refused < 0) return;
  throw refusal(steps[refused]?.command ?? "", answers[refused]?.errno ?? 0);
}

/** Addresses as they are now. */
async function flush(netlink: Netlink, netns: NetnsHandle, name: string): Promise<void> {
  const link = (await askLinks(netlink, netns)).find((each) => each.name === name);
  if (link === undefined) return;
  for (const address of link.addresses) {
    const message = removalOf(address, link.index);
    const [answer] = message === undefined ? [] : await netlink.talk(netns, "route", [message]);
    const errno = answer?.errno ?? 0;
    if (errno !== 0 && errno !== GONE) throw refusal(`addr flush dev ${name}`, errno);
  }
}

/** Whether a command names a link that an earlier one makes. */
function makesLink(command: string): boolean {
  return command.startsWith("link add ") || command.startsWith("tuntap add ");
}

/** Performs commands none of which names a link that another of them makes. */
async function performSome(
  netlink: Netlink,
  netns: NetnsHandle,
  commands: readonly string[],
): Promise<void> {
  const links = await askIndexes(netlink, netns);
  let waiting: Step[] = [];
  for (const command of commands) {
    const deed = deedOf(command, indexIn(links, command));
    if (deed.kind === "message") {
      waiting.push({ command, deed });
      continue;
    }
    await say(netlink, netns, waiting);
    waiting = [];
    if (deed.kind === "flush") await flush(netlink, netns, deed.name);
    else await netlink.makeTap(netns, deed);
  }
  await say(netlink, netns, waiting);
}

/**
 * Performs commands in order. Equivalent to: `ip -batch -` and `bridge -batch -`
 * @throws AppError with PODNET_FAILED, OS_FILE_FAILED
 */
export async function perform(
  netlink: Netlink,
  netns: NetnsHandle,
  commands: readonly string[],
): Promise<void> {
  let rest = commands;
  while (rest.length > 0) {
    // What is made is asked for its index before anything is said of it.
    const last = rest.findIndex(makesLink);
    const count = last < 0 ? rest.length : last + 1;
    await performSome(netlink, netns, rest.slice(0, count));
    rest = rest.slice(count);
  }
}
