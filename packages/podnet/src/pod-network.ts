// SPDX-License-Identifier: Apache-2.0
// Makes and removes links in a pod by iproute2: read, plan, one batch.
import { AppError, type LeftWiring, type PodWiring, type SeenWiring } from "@patchbay/core";
import type { NetnsHandle, PodNetwork, PodView, ProcessRunner } from "@patchbay/ports";
import { readAddresses } from "./addresses.ts";
import { parseForwarding, parseLinks, type WiredLink } from "./links.ts";
import { runBatch, runIn, type Iproute2 } from "./run-in.ts";
import { BRIDGE } from "./wiring/bridge.ts";
import { MASQUERADE } from "./wiring/masquerade.ts";
import { TAP } from "./wiring/tap.ts";
import type { Pod, Sight } from "./wiring/wirer.ts";

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
    wireTap: (netns, wiring) => wireTap(podOf(runner, netns), wiring),
    unwireTap: (netns, wiring) => unwireTap(podOf(runner, netns), wiring),
    readAddresses: async (netns, name) => {
      assertWords([name]);
      return readAddresses(runner, netns, name);
    },
    removeLink: (netns, name) => removeLink(runner, netns, name),
  };
}

async function listLinks(runner: ProcessRunner, netns: NetnsHandle): Promise<readonly WiredLink[]> {
  return parseLinks(await runIn(runner, netns, { program: "ip", args: ["-j", "-d", "addr"] }));
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

function podOf(runner: ProcessRunner, netns: NetnsHandle): Pod {
  return {
    see: () => see(runner, netns),
    listLinks: () => listLinks(runner, netns),
    ip: (commands) => runBatch(runner, netns, { program: "ip", commands }),
    bridge: (commands) => runBatch(runner, netns, { program: "bridge", commands }),
  };
}

async function look(runner: ProcessRunner, netns: NetnsHandle): Promise<PodView> {
  const sight = await see(runner, netns);
  return {
    links: [...sight.links.values()],
    isWired: (wiring) => isWired(sight, wiring),
  };
}

function isWired(sight: Sight, wiring: SeenWiring): boolean {
  switch (wiring.kind) {
    case "bridge":
      return BRIDGE.isWired(sight, wiring);
    case "masquerade":
      return MASQUERADE.isWired(sight, wiring);
    case "tap":
      return TAP.isWired(sight, wiring);
  }
}

async function wireTap(pod: Pod, wiring: PodWiring): Promise<void> {
  const { podInterfaceName, tapName, mac } = wiring;
  assertWords([podInterfaceName, tapName, mac]);
  switch (wiring.kind) {
    case "bridge":
      assertWords([wiring.bridgeName]);
      return BRIDGE.wire(pod, wiring);
    case "masquerade":
      assertWords([wiring.bridgeName]);
      return MASQUERADE.wire(pod, wiring);
    case "tap":
      return TAP.wire(pod, wiring);
  }
}

async function unwireTap(pod: Pod, wiring: LeftWiring): Promise<void> {
  assertWords([wiring.tapName]);
  switch (wiring.kind) {
    case "bridge":
      assertWords([wiring.bridgeName]);
      return BRIDGE.unwire(pod, wiring);
    case "masquerade":
      assertWords([wiring.bridgeName]);
      return MASQUERADE.unwire(pod, wiring);
    case "tap":
      return TAP.unwire(pod, wiring);
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
