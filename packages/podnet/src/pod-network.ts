// SPDX-License-Identifier: Apache-2.0
// Makes and removes links in a pod by iproute2: read, plan, one batch.
import { AppError, type LeftWiring, type PodWiring, type SeenWiring } from "@patchbay/core";
import type { NetnsHandle, PodNetwork, PodView, ProcessRunner } from "@patchbay/ports";
import { readAddresses } from "./addresses.ts";
import { parseForwarding, parseLinks, type WiredLink } from "./links.ts";
import { parseRuleset } from "./nft/table.ts";
import { runBatch, runIn, type Iproute2 } from "./run-in.ts";
import { parseSettings, READ_SETTINGS, settingsText, WRITE_SETTINGS } from "./settings.ts";
import { BRIDGE, unwireBridge, wireWithoutTap } from "./wiring/bridge.ts";
import { MASQUERADE } from "./wiring/masquerade.ts";
import { TAP } from "./wiring/tap.ts";
import { isGuarded, putGuard, removeRules } from "./wiring/rules.ts";
import type { Pod, Sight } from "./wiring/wirer.ts";

/** Names and MACs become words of a batch: nothing else may be in them. */
const WORD = /^[A-Za-z0-9][A-Za-z0-9_.:@-]*$/;

function assertWords(words: readonly string[]): void {
  const bad = words.find((word) => !WORD.test(word));
  if (bad !== undefined) {
    throw new AppError("PODNET_FAILED", { message: `${JSON.stringify(bad)} is no name of a link` });
  }
}

function namesIn(wiring: LeftWiring): readonly string[] {
  const { podInterfaceName, tapName } = wiring;
  return [podInterfaceName, tapName, ...(wiring.kind === "tap" ? [] : [wiring.bridgeName])];
}

/** Links in a pod's network namespace, by iproute2. */
export function createPodNetwork({ runner }: Iproute2): PodNetwork {
  return {
    look: (netns) => look(runner, netns),
    listLinks: (netns) => listLinks(runner, netns),
    wireTap: async (netns, wiring) => {
      assertWords([...namesIn(wiring), wiring.mac]);
      const pod = podOf(runner, netns);
      const before = await pod.see();
      await wireTap(pod, wiring, before);
      await putGuard(pod, wiring, before);
    },
    makeBridge: async (netns, wiring) => {
      assertWords([wiring.podInterfaceName, wiring.bridgeName, wiring.mac]);
      await wireWithoutTap(podOf(runner, netns), wiring);
    },
    removeBridge: async (netns, bridgeName) => {
      assertWords([bridgeName]);
      const pod = podOf(runner, netns);
      await unwireBridge(pod, { tapName: "", bridgeName }, await pod.see());
    },
    unwireTap: async (netns, wiring) => {
      assertWords(namesIn(wiring));
      const pod = podOf(runner, netns);
      const before = await pod.see();
      await unwireTap(pod, wiring, before);
      await removeRules(pod, wiring, before);
    },
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

/** Begins the settings; nft prints no such line. */
const SETTINGS = "-- settings";
/**
 * All in one process: a look begins and ends every pass. The first two print one line of JSON each. nft's JSON does not
 * tell which device a chain is at, its text does. Source: nftables 1.0.6
 */
const LOOK = `ip -j -d addr && bridge -j fdb && nft -s list ruleset && echo "${SETTINGS}" && ${READ_SETTINGS}`;

async function see(runner: ProcessRunner, netns: NetnsHandle): Promise<Sight> {
  const output = await runIn(runner, netns, { program: "sh", args: ["-c", LOOK] });
  const [links = "", forwarding = "", ...rest] = output.split("\n");
  const end = rest.indexOf(SETTINGS);
  return {
    links: new Map(parseLinks(links).map((link) => [link.name, link])),
    forwarding: parseForwarding(forwarding),
    tables: parseRuleset(rest.slice(0, end).join("\n")),
    settings: parseSettings(rest.slice(end + 1).join("\n")),
  };
}

function podOf(runner: ProcessRunner, netns: NetnsHandle): Pod {
  return {
    see: () => see(runner, netns),
    listLinks: () => listLinks(runner, netns),
    ip: (commands) => runBatch(runner, netns, { program: "ip", commands }),
    bridge: (commands) => runBatch(runner, netns, { program: "bridge", commands }),
    nft: async (commands) => {
      if (commands === "") return;
      await runIn(runner, netns, { program: "nft", args: ["-f", "-"], stdin: commands });
    },
    set: async (settings) => {
      if (settings.length === 0) return;
      const stdin = settingsText(settings);
      await runIn(runner, netns, { program: "sh", args: ["-c", WRITE_SETTINGS], stdin });
    },
  };
}

async function look(runner: ProcessRunner, netns: NetnsHandle): Promise<PodView> {
  const sight = await see(runner, netns);
  return {
    links: [...sight.links.values()],
    isWired: (wiring) => isWired(sight, wiring) && isGuarded(sight, wiring),
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

async function wireTap(pod: Pod, wiring: PodWiring, before: Sight): Promise<void> {
  switch (wiring.kind) {
    case "bridge":
      return BRIDGE.wire(pod, wiring, before);
    case "masquerade":
      return MASQUERADE.wire(pod, wiring, before);
    case "tap":
      return TAP.wire(pod, wiring, before);
  }
}

async function unwireTap(pod: Pod, wiring: LeftWiring, before: Sight): Promise<void> {
  if (wiring.kind === "tap") return TAP.unwire(pod, wiring, before);
  return wiring.kind === "bridge"
    ? BRIDGE.unwire(pod, wiring, before)
    : MASQUERADE.unwire(pod, wiring, before);
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
