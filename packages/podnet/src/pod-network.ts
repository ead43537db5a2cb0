// SPDX-License-Identifier: Apache-2.0
// Makes and removes links in a pod by iproute2: read, plan, one batch.
import { AppError } from "@patchbay/core";
import type {
  Link,
  NetnsHandle,
  PodNetwork,
  PodView,
  ProcessRunner,
  TapWiring,
} from "@patchbay/ports";
import { parseForwarding, parseLinks, type ForwardingEntry, type WiredLink } from "./links.ts";
import { runBatch, runIn, type Iproute2 } from "./run-in.ts";
import { canCarryVm, isWired, planForwarding, planUnwiring, planWiring } from "./wiring.ts";

/** Names and MACs become words of a batch: nothing else may be in them. */
const WORD = /^[A-Za-z0-9][A-Za-z0-9_.:@-]*$/;

function assertWords(words: readonly string[]): void {
  const bad = words.find((word) => !WORD.test(word));
  if (bad !== undefined) {
    throw new AppError("PODNET_FAILED", { message: `${JSON.stringify(bad)} is no name of a link` });
  }
}

/** Links in a pod's network namespace, by iproute2. */
export function createPodNetwork({ runner }: Iproute2): PodNetwork {
  return {
    look: (netns) => look(runner, netns),
    listLinks: (netns) => listLinks(runner, netns),
    wireTap: (netns, wiring) => wireTap(runner, netns, wiring),
    unwireTap: (netns, wiring) => unwireTap(runner, netns, wiring),
    removeLink: (netns, name) => removeLink(runner, netns, name),
  };
}

async function listLinks(runner: ProcessRunner, netns: NetnsHandle): Promise<readonly Link[]> {
  return parseLinks(await runIn(runner, netns, { program: "ip", args: ["-j", "-d", "addr"] }));
}

/** Everything in a namespace that wiring is about. */
interface Sight {
  readonly links: ReadonlyMap<string, WiredLink>;
  readonly forwarding: readonly ForwardingEntry[];
}

/** Both in one process: a look begins and ends every pass. Each prints one line of JSON. */
const LOOK = "ip -j -d addr && bridge -j fdb";

async function see(runner: ProcessRunner, netns: NetnsHandle): Promise<Sight> {
  const output = await runIn(runner, netns, { program: "sh", args: ["-c", LOOK] });
  const [links = "", forwarding = ""] = output.split("\n");
  return {
    links: new Map(parseLinks(links).map((link) => [link.name, link])),
    forwarding: parseForwarding(forwarding),
  };
}

async function look(runner: ProcessRunner, netns: NetnsHandle): Promise<PodView> {
  const { links, forwarding } = await see(runner, netns);
  return {
    links: [...links.values()],
    isWired: (wiring) => isWired(links, forwarding, wiring),
  };
}

function nicOf({ links }: Sight, name: string): WiredLink {
  const nic = links.get(name);
  if (nic === undefined) throw new AppError("PODNET_LINK_MISSING", { link: name });
  if (canCarryVm(nic)) return nic;
  throw new AppError("PODNET_NETWORK_CANNOT_CARRY_VM", { kind: nic.kind, link: name });
}

async function wireTap(
  runner: ProcessRunner,
  netns: NetnsHandle,
  wiring: TapWiring,
): Promise<void> {
  const { podInterfaceName, bridgeName, tapName, mac } = wiring;
  assertWords([podInterfaceName, bridgeName, tapName, mac]);
  const before = await see(runner, netns);
  const nic = nicOf(before, podInterfaceName);
  const commands = planWiring(nic, before.links, wiring);
  await runBatch(runner, netns, { program: "ip", commands });
  const present = await forwardingAfter(commands, { before, nic }, () => see(runner, netns));
  await runBatch(runner, netns, {
    program: "bridge",
    commands: planForwarding(wiring, present),
  });
}

/** What is forwarded after the links were set; undefined when the NIC was enslaved just now. */
async function forwardingAfter(
  commands: readonly string[],
  { before, nic }: { readonly before: Sight; readonly nic: WiredLink },
  seeAgain: () => Promise<Sight>,
): Promise<readonly ForwardingEntry[] | undefined> {
  if (commands.length === 0) return before.forwarding;
  return nic.master === undefined ? undefined : (await seeAgain()).forwarding;
}

async function unwireTap(
  runner: ProcessRunner,
  netns: NetnsHandle,
  wiring: Pick<TapWiring, "tapName" | "bridgeName">,
): Promise<void> {
  assertWords([wiring.tapName, wiring.bridgeName]);
  const commands = planUnwiring(await listLinks(runner, netns), wiring);
  try {
    await runBatch(runner, netns, { program: "ip", commands });
  } catch (error) {
    // Somebody else may have removed one meanwhile: what counts is what is there now.
    const left = planUnwiring(await listLinks(runner, netns), wiring);
    if (left.length === commands.length) throw error;
    await runBatch(runner, netns, { program: "ip", commands: left });
  }
}

/** The process whose namespace is the machine's own: in a container that shares it, the container's first. */
const INIT_PID = "1";

async function removeLink(runner: ProcessRunner, netns: NetnsHandle, name: string): Promise<void> {
  const isThere = async (): Promise<boolean> =>
    (await listLinks(runner, netns)).some((link) => link.name === name);
  if (!(await isThere())) return;
  const ip = (...args: readonly string[]): Promise<string> =>
    runIn(runner, netns, { program: "ip", args: ["link", ...args] });
  try {
    await ip("delete", "dev", name);
  } catch {
    // It has gone meanwhile, or it is hardware, which can only be moved.
    if (await isThere()) await ip("set", "dev", name, "netns", INIT_PID);
  }
}
