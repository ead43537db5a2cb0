// SPDX-License-Identifier: Apache-2.0
import type { ObservedPath, PathLink } from "@patchbay/core/doctor";
import type { ExaminedNic, NicDoctor } from "@patchbay/core/interfaces";

/** {@link NicDoctor} in memory: guests answer, and paths are intact unless a test changes that. */
export interface FakeNicDoctor extends NicDoctor {
  readonly examined: readonly ExaminedNic[];
  /** Whether all pod NICs are deleted. */
  hasNoPodNics: boolean;
  /** Delays all results until the returned function is called. */
  hold(): () => void;
}

function buildLink(name: string, more: Partial<PathLink> = {}): PathLink {
  return {
    name,
    kind: "veth",
    mac: "02:00:00:00:5e:fe",
    mtu: 1500,
    up: true,
    carrier: true,
    addresses: [],
    isBlocked: false,
    canFilterVlans: false,
    vlans: [],
    ...more,
  };
}

function buildIntactPath(
  { wiring, addresses, gateway, neighbor }: ExaminedNic,
  nicsGone: boolean,
): ObservedPath {
  const address = gateway?.address ?? neighbor;
  const bridge =
    wiring.kind === "tap" ? undefined : buildLink(wiring.bridgeName, { kind: "bridge" });
  const master = bridge === undefined ? {} : { master: bridge.name };
  const inPod = {
    tap: buildLink(wiring.tapName, master),
    ...(bridge === undefined ? {} : { podBridge: bridge }),
  };
  const beyond = {
    podNic: buildLink(wiring.podInterfaceName, master),
    nodePeer: buildLink("peer1", { master: "br0" }),
    nodeBridge: buildLink("br0", { kind: "bridge" }),
    uplinks: [],
    onNode: "peer",
  } as const;
  const inward = {
    probe: "inward",
    probeSeenAt: ["nodePeer", "podNic", "tap"],
    replySeenAt: ["tap", "podNic", "nodePeer"],
    repliedFrom: [wiring.mac],
    repliedTo: [],
  } as const;
  return {
    isBridged: wiring.kind === "bridge",
    links: { ...inPod, ...(nicsGone ? { uplinks: [], onNode: "unseen" } : beyond) },
    wiringFaults: [],
    refused: [],
    traces: addresses.length === 0 || nicsGone ? [] : [inward],
    ...(address === undefined ? {} : { target: { address, at: "port" } }),
  };
}

export function createFakeNicDoctor(): FakeNicDoctor {
  const examined: ExaminedNic[] = [];
  let held = Promise.resolve();
  const doctor: FakeNicDoctor = {
    examined,
    hasNoPodNics: false,
    hold: () => {
      const { promise, resolve } = Promise.withResolvers<undefined>();
      held = promise.then(() => undefined);
      return () => {
        resolve(undefined);
      };
    },
    examine: async (nic) => {
      examined.push(nic);
      await held;
      return buildIntactPath(nic, doctor.hasNoPodNics);
    },
  };
  return doctor;
}
