// SPDX-License-Identifier: Apache-2.0
// Makes and removes links in a pod by iproute2: read, plan, one batch.
import { AppError } from "@patchbay/core";
import type {
  Clock,
  Link,
  NetnsHandle,
  PodNetwork,
  PodView,
  ProcessRunner,
  TapWiring,
} from "@patchbay/ports";
import { parseForwarding, parseLinks, type ForwardingEntry, type WiredLink } from "./links.ts";
import { runBatch, runIn } from "./run-in.ts";
import { watchLinks } from "./watch-links.ts";
import { canCarryVm, isWired, planForwarding, planUnwiring, planWiring } from "./wiring.ts";

/** What podnet needs. */
export interface PodNetworkDeps {
  readonly runner: ProcessRunner;
  /** Waits between two monitors of `watchLinks`. */
  readonly clock: Clock;
}

/** Names and MACs become words of a batch: nothing else may be in them. */
const WORD = /^[A-Za-z0-9][A-Za-z0-9_.:@-]*$/;

function assertWords(words: readonly string[]): void {
  const bad = words.find((word) => !WORD.test(word));
  if (bad !== undefined) {
    throw new AppError("PODNET_FAILED", { message: `${JSON.stringify(bad)} is no name of a link` });
  }
}

/** Links in a pod's network namespace, by iproute2. */
export function createPodNetwork(deps: PodNetworkDeps): PodNetwork {
  return {
    look: (netns) => look(deps, netns),
    listLinks: (netns) => listLinks(deps, netns),
    wireTap: (netns, wiring) => wireTap(deps, netns, wiring),
    unwireTap: (netns, wiring) => unwireTap(deps, netns, wiring),
    removeLink: (netns, name) => removeLink(deps, netns, name),
    watchLinks: (netns, changed, signal) => {
      watchLinks(deps, netns, { changed, signal });
    },
  };
}

async function listLinks(deps: PodNetworkDeps, netns: NetnsHandle): Promise<readonly Link[]> {
  return parseLinks(await runIn(deps.runner, netns, { program: "ip", args: ["-j", "-d", "addr"] }));
}

/** Everything in a namespace that wiring is about. */
interface Sight {
  readonly links: ReadonlyMap<string, WiredLink>;
  readonly forwarding: readonly ForwardingEntry[];
}

/** Both in one process: a look begins and ends every pass. Each prints one line of JSON. */
const LOOK = "ip -j -d addr && bridge -j fdb";

async function see(deps: PodNetworkDeps, netns: NetnsHandle): Promise<Sight> {
  const output = await runIn(deps.runner, netns, { program: "sh", args: ["-c", LOOK] });
  const [links = "", forwarding = ""] = output.split("\n");
  return {
    links: new Map(parseLinks(links).map((link) => [link.name, link])),
    forwarding: parseForwarding(forwarding),
  };
}

async function look(deps: PodNetworkDeps, netns: NetnsHandle): Promise<PodView> {
  const { links, forwarding } = await see(deps, netns);
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

async function wireTap(deps: PodNetworkDeps, netns: NetnsHandle, wiring: TapWiring): Promise<void> {
  const { podInterfaceName, bridgeName, tapName, mac } = wiring;
  assertWords([podInterfaceName, bridgeName, tapName, mac]);
  const before = await see(deps, netns);
  const nic = nicOf(before, podInterfaceName);
  const commands = planWiring(nic, before.links, wiring);
  await runBatch(deps.runner, netns, { program: "ip", commands });
  const present = await forwardingAfter(commands, { before, nic }, () => see(deps, netns));
  await runBatch(deps.runner, netns, {
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
  deps: PodNetworkDeps,
  netns: NetnsHandle,
  wiring: Pick<TapWiring, "tapName" | "bridgeName">,
): Promise<void> {
  assertWords([wiring.tapName, wiring.bridgeName]);
  const commands = planUnwiring(await listLinks(deps, netns), wiring);
  try {
    await runBatch(deps.runner, netns, { program: "ip", commands });
  } catch (error) {
    // Somebody else may have removed one meanwhile: what counts is what is there now.
    const left = planUnwiring(await listLinks(deps, netns), wiring);
    if (left.length === commands.length) throw error;
    await runBatch(deps.runner, netns, { program: "ip", commands: left });
  }
}

/** The process whose namespace is the machine's own: in a container that shares it, the container's first. */
const INIT_PID = "1";

async function removeLink(deps: PodNetworkDeps, netns: NetnsHandle, name: string): Promise<void> {
  const isThere = async (): Promise<boolean> =>
    (await listLinks(deps, netns)).some((link) => link.name === name);
  if (!(await isThere())) return;
  const ip = (...args: readonly string[]): Promise<string> =>
    runIn(deps.runner, netns, { program: "ip", args: ["link", ...args] });
  try {
    await ip("delete", "dev", name);
  } catch {
    // It has gone meanwhile, or it is hardware, which can only be moved.
    if (await isThere()) await ip("set", "dev", name, "netns", INIT_PID);
  }
}
