// SPDX-License-Identifier: Apache-2.0
import { AppError } from "@patchbay/base";
import type { RemovableWiring, PodWiring, ObservedWiring } from "@patchbay/core/nics";
import type { NetnsHandle, PodNetwork, PodView } from "@patchbay/core/interfaces";
import { restoreNic, readAddresses, removeLink, restoreName } from "./pod-nic.ts";
import { queryLinks } from "./netlink/queries.ts";
import { buildAnnouncements } from "./announcements.ts";
import { applyLinkChanges } from "./netlink/apply-link-changes.ts";
import { createStateReader, type NetnsState, type StateSources } from "./netlink/netns-state.ts";
import { runIn } from "./run-in.ts";
import { sysctlDirectories, printSysctls, WRITE_SYSCTLS_SCRIPT } from "./sysctls.ts";
import {
  BRIDGE,
  isGuarded,
  MASQUERADE,
  type Pod,
  addGuard,
  removeBridge,
  removeGuard,
  removeRules,
  TAP,
  wireWithoutTap,
} from "./wiring/wirers.ts";

/** Names and MACs become part of rules and sysctl paths, so other characters are rejected. */
const VALID_NAME = /^[A-Za-z0-9][A-Za-z0-9_.:@-]*$/;

function assertValidNames(names: readonly string[]): void {
  const bad = names.find((name) => !VALID_NAME.test(name));
  if (bad !== undefined) {
    throw new AppError("PODNET_ARGUMENT_INVALID", {
      reason: `${JSON.stringify(bad)} is not a valid link name`,
    });
  }
}

function listNames(wiring: RemovableWiring): readonly string[] {
  const { podInterfaceName, tapName } = wiring;
  return [podInterfaceName, tapName, ...(wiring.kind === "tap" ? [] : [wiring.bridgeName])];
}

export interface PodNetworkOptions extends StateSources {
  /** A process whose mounts are the host's; unset if those of this process are. */
  readonly hostProcess?: number;
}

interface NetnsAccess extends PodNetworkOptions {
  readonly readState: (netns: NetnsHandle) => Promise<NetnsState>;
}

export function createPodNetwork(options: PodNetworkOptions): PodNetwork {
  const { netlink } = options;
  const access: NetnsAccess = { ...options, readState: createStateReader(options) };
  return {
    observe: async (netns) => toPodView(await access.readState(netns)),
    listLinks: (netns) => queryLinks(netlink, netns),
    wireTap: async (netns, wiring) => {
      assertValidNames([...listNames(wiring), wiring.mac]);
      const pod = toPod(access, netns);
      const before = await pod.readState();
      await wireTap(pod, wiring, before);
      await addGuard(pod, wiring, before);
    },
    makeBridge: async (netns, wiring) => {
      assertValidNames([wiring.podInterfaceName, wiring.bridgeName, wiring.mac]);
      await wireWithoutTap(toPod(access, netns), wiring);
    },
    removeBridge: async (netns, bridgeName) => {
      assertValidNames([bridgeName]);
      const pod = toPod(access, netns);
      await removeBridge(pod, bridgeName, await pod.readState());
    },
    unwireTap: async (netns, wiring) => {
      assertValidNames(listNames(wiring));
      const pod = toPod(access, netns);
      const before = await pod.readState();
      await removeRules(pod, wiring, before);
      await unwireTap(pod, wiring, before);
      await removeGuard(pod, wiring, before);
    },
    readAddresses: async (netns, name) => {
      assertValidNames([name]);
      return readAddresses(access, netns, name);
    },
    announce: async (netns, nic) => {
      assertValidNames([nic.podInterfaceName, nic.mac]);
      await netlink.sendFrames(netns, nic.podInterfaceName, buildAnnouncements(nic));
    },
    restoreNic: (netns, nic) => restoreNic(toPod(access, netns), nic),
    removeLink: (netns, name) => removeLink(access, netns, name),
    restoreName: async (netns, nic) => {
      assertValidNames([nic.name, nic.before, ...(nic.mac === undefined ? [] : [nic.mac])]);
      await restoreName(access, netns, nic);
    },
  };
}

function toPod({ runner, netlink, readState, hostProcess }: NetnsAccess, netns: NetnsHandle): Pod {
  return {
    readState: () => readState(netns),
    listLinks: () => queryLinks(netlink, netns),
    applyChanges: (changes) => applyLinkChanges(netlink, netns, changes),
    applyRules: async (commands) => {
      if (commands === "") return;
      await runIn(runner, netns, { program: "nft", args: ["-f", "-"], stdin: commands });
    },
    setSysctls: async (sysctls) => {
      if (sysctls.length === 0) return;
      const stdin = printSysctls(sysctls);
      const args = ["-c", WRITE_SYSCTLS_SCRIPT, "sh", ...sysctlDirectories(hostProcess)];
      await runIn(runner, netns, { program: "sh", args, stdin });
    },
  };
}

function toPodView(state: NetnsState): PodView {
  return {
    links: [...state.links.values()],
    isWired: (wiring) => isWired(state, wiring) && isGuarded(state, wiring),
  };
}

function isWired(state: NetnsState, wiring: ObservedWiring): boolean {
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

async function unwireTap(pod: Pod, wiring: RemovableWiring, before: NetnsState): Promise<void> {
  if (wiring.kind === "tap") return TAP.unwire(pod, wiring, before);
  return wiring.kind === "bridge"
    ? BRIDGE.unwire(pod, wiring, before)
    : MASQUERADE.unwire(pod, wiring, before);
}
