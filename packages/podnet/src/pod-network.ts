// SPDX-License-Identifier: Apache-2.0
// Makes and removes links in a pod by iproute2: read, plan, one batch.
import { AppError } from "@patchbay/core";
import type {
  Clock,
  Link,
  NetnsHandle,
  PodNetwork,
  ProcessRunner,
  TapWiring,
} from "@patchbay/ports";
import { parseForwarding, parseLinks } from "./links.ts";
import { runBatch, runIn } from "./run-in.ts";
import { watchLinks } from "./watch.ts";
import { canCarryVm, planForwarding, planUnwiring, planWiring } from "./wiring.ts";

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
    listLinks: (netns) => listLinks(deps, netns),
    wireTap: (netns, wiring) => wireTap(deps, netns, wiring),
    unwireTap: (netns, wiring) => unwireTap(deps, netns, wiring),
    watchLinks: (netns, changed, signal) => {
      watchLinks(deps, netns, { changed, signal });
    },
  };
}

async function listLinks(deps: PodNetworkDeps, netns: NetnsHandle): Promise<readonly Link[]> {
  return parseLinks(await runIn(deps.runner, netns, { program: "ip", args: ["-j", "-d", "link"] }));
}

async function indexLinks(
  deps: PodNetworkDeps,
  netns: NetnsHandle,
): Promise<ReadonlyMap<string, Link>> {
  return new Map((await listLinks(deps, netns)).map((link) => [link.name, link]));
}

async function wireTap(deps: PodNetworkDeps, netns: NetnsHandle, wiring: TapWiring): Promise<void> {
  const { podInterfaceName, bridgeName, tapName, mac } = wiring;
  assertWords([podInterfaceName, bridgeName, tapName, mac]);
  const links = await indexLinks(deps, netns);
  const nic = links.get(podInterfaceName);
  if (nic === undefined) throw new AppError("PODNET_LINK_MISSING", { link: podInterfaceName });
  if (!canCarryVm(nic)) {
    throw new AppError("PODNET_NETWORK_CANNOT_CARRY_VM", {
      kind: nic.kind,
      link: podInterfaceName,
    });
  }
  const isFresh = nic.master === undefined;
  await runBatch(deps.runner, netns, {
    program: "ip",
    commands: planWiring(nic, links, wiring),
  });
  const present = isFresh ? undefined : await listForwarding(deps, netns, bridgeName);
  await runBatch(deps.runner, netns, {
    program: "bridge",
    commands: planForwarding(wiring, present),
  });
}

async function listForwarding(
  deps: PodNetworkDeps,
  netns: NetnsHandle,
  bridgeName: string,
): Promise<ReturnType<typeof parseForwarding>> {
  const args = ["-j", "fdb", "show", "br", bridgeName];
  return parseForwarding(await runIn(deps.runner, netns, { program: "bridge", args }));
}

async function unwireTap(
  deps: PodNetworkDeps,
  netns: NetnsHandle,
  wiring: Pick<TapWiring, "tapName" | "bridgeName">,
): Promise<void> {
  assertWords([wiring.tapName, wiring.bridgeName]);
  const commands = planUnwiring(await indexLinks(deps, netns), wiring);
  try {
    await runBatch(deps.runner, netns, { program: "ip", commands });
  } catch (error) {
    // Somebody else may have removed one meanwhile: what counts is what is there now.
    const left = planUnwiring(await indexLinks(deps, netns), wiring);
    if (left.length === commands.length) throw error;
    await runBatch(deps.runner, netns, { program: "ip", commands: left });
  }
}
