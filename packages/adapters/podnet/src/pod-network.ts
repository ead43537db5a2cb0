// SPDX-License-Identifier: Apache-2.0
// Makes and removes links in a pod: read, plan, perform.
import { AppError, type LeftWiring, type PodWiring, type SeenWiring } from "@patchbay/core";
import type { NetnsHandle, PodNetwork, PodView } from "@patchbay/core/ports";
import { readAddresses } from "./addresses.ts";
import { askLinks } from "./netlink/ask.ts";
import { announcementsOf } from "./announcements.ts";
import { perform } from "./netlink/perform.ts";
import { giveBack } from "./give-back.ts";
import { createStateReader, type StateSources } from "./netlink/netns-state.ts";
import { removeLink, restoreName } from "./pod-nic.ts";
import { runIn } from "./run-in.ts";
import { placesOfSettings, settingsText, WRITE_SETTINGS } from "./settings.ts";
import { BRIDGE, removeBridge, wireWithoutTap } from "./wiring/bridge.ts";
import { MASQUERADE } from "./wiring/masquerade.ts";
import { TAP } from "./wiring/plugin-tap.ts";
import { isGuarded, putGuard, removeGuard, removeRules } from "./wiring/rules.ts";
import type { Pod, NetnsState } from "./wiring/wirer.ts";

/** Names and MACs become words of rules and settings: nothing else may be in them. */
const WORD = /^[A-Za-z0-9][A-Za-z0-9_.:@-]*$/;

function assertWords(words: readonly string[]): void {
  const bad = words.find((word) => !WORD.test(word));
  if (bad !== undefined) {
    throw new AppError("PODNET_ARGUMENT_INVALID", {
      reason: `${JSON.stringify(bad)} is not a valid link name`,
    });
  }
}

function namesIn(wiring: LeftWiring): readonly string[] {
  const { podInterfaceName, tapName } = wiring;
  return [podInterfaceName, tapName, ...(wiring.kind === "tap" ? [] : [wiring.bridgeName])];
}

/** What looks at a namespace, and the machine that it is on. */
export interface PodNetworkOptions extends StateSources {
  /** A process whose mounts are the host's; absent: ours are. */
  readonly hostProcess?: number;
}

/** What reads a namespace, and changes it. */
interface NetnsAccess extends PodNetworkOptions {
  readonly see: (netns: NetnsHandle) => Promise<NetnsState>;
}

/** Links in a pod's network namespace: seen and made by netlink. */
export function createPodNetwork(options: PodNetworkOptions): PodNetwork {
  const { netlink } = options;
  const access: NetnsAccess = { ...options, see: createStateReader(options) };
  return {
    look: async (netns) => viewOf(await access.see(netns)),
    listLinks: (netns) => askLinks(netlink, netns),
    wireTap: async (netns, wiring) => {
      assertWords([...namesIn(wiring), wiring.mac]);
      const pod = podOf(access, netns);
      const before = await pod.see();
      await wireTap(pod, wiring, before);
      await putGuard(pod, wiring, before);
    },
    makeBridge: async (netns, wiring) => {
      assertWords([wiring.podInterfaceName, wiring.bridgeName, wiring.mac]);
      await wireWithoutTap(podOf(access, netns), wiring);
    },
    removeBridge: async (netns, bridgeName) => {
      assertWords([bridgeName]);
      const pod = podOf(access, netns);
      await removeBridge(pod, bridgeName, await pod.see());
    },
    unwireTap: async (netns, wiring) => {
      assertWords(namesIn(wiring));
      const pod = podOf(access, netns);
      const before = await pod.see();
      await removeRules(pod, wiring, before);
      await unwireTap(pod, wiring, before);
      await removeGuard(pod, wiring, before);
    },
    readAddresses: async (netns, name) => {
      assertWords([name]);
      return readAddresses(access, netns, name);
    },
    announce: async (netns, nic) => {
      assertWords([nic.podInterfaceName, nic.mac]);
      await netlink.sendFrames(netns, nic.podInterfaceName, announcementsOf(nic));
    },
    giveBack: (netns, lent) => giveBack(podOf(access, netns), lent),
    removeLink: (netns, name) => removeLink(access, netns, name),
    restoreName: async (netns, nic) => {
      assertWords([nic.name, nic.before, ...(nic.mac === undefined ? [] : [nic.mac])]);
      await restoreName(access, netns, nic);
    },
  };
}

function podOf({ runner, netlink, see, hostProcess }: NetnsAccess, netns: NetnsHandle): Pod {
  return {
    see: () => see(netns),
    listLinks: () => askLinks(netlink, netns),
    change: (changes) => perform(netlink, netns, changes),
    nft: async (commands) => {
      if (commands === "") return;
      await runIn(runner, netns, { program: "nft", args: ["-f", "-"], stdin: commands });
    },
    set: async (settings) => {
      if (settings.length === 0) return;
      const stdin = settingsText(settings);
      const args = ["-c", WRITE_SETTINGS, "sh", ...placesOfSettings(hostProcess)];
      await runIn(runner, netns, { program: "sh", args, stdin });
    },
  };
}

function viewOf(state: NetnsState): PodView {
  return {
    links: [...state.links.values()],
    isWired: (wiring) => isWired(state, wiring) && isGuarded(state, wiring),
  };
}

function isWired(state: NetnsState, wiring: SeenWiring): boolean {
  switch (wiring.kind) {
    case "bridge":
      return BRIDGE.isWired(state, wiring);
    case "masquerade":
      return MASQUERADE.isWired(state, wiring);
    case "tap":
      return TAP.isWired(state, wiring);
  }
}

async function wireTap(pod: Pod, wiring: PodWiring, before: NetnsState): Promise<void> {
  switch (wiring.kind) {
    case "bridge":
      return BRIDGE.wire(pod, wiring, before);
    case "masquerade":
      return MASQUERADE.wire(pod, wiring, before);
    case "tap":
      return TAP.wire(pod, wiring, before);
  }
}

async function unwireTap(pod: Pod, wiring: LeftWiring, before: NetnsState): Promise<void> {
  if (wiring.kind === "tap") return TAP.unwire(pod, wiring, before);
  return wiring.kind === "bridge"
    ? BRIDGE.unwire(pod, wiring, before)
    : MASQUERADE.unwire(pod, wiring, before);
}
