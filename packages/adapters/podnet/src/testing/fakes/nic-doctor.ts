// SPDX-License-Identifier: Apache-2.0
// Ways of NICs in memory: whole, until a test says otherwise.
import type { ObservedPath, PathLink } from "@patchbay/core/doctor";
import type { ExaminedNic, NicDoctor } from "@patchbay/core/interfaces";

/** {@link NicDoctor} in memory. */
export interface FakeNicDoctor extends NicDoctor {
  /** NICs that were looked at, in order. */
  readonly examined: readonly ExaminedNic[];
  /** CNI has taken all NICs away. */
  nicsGone: boolean;
  /** Nobody is told anything until it is called; absent: at once. */
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
    filtersVlans: false,
    vlans: [],
    ...more,
  };
}

function buildIntactPath(
  { wiring, addresses, target }: ExaminedNic,
  nicsGone: boolean,
): ObservedPath {
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
    ...(target === undefined ? {} : { target: { address: target.address, at: "port" } }),
  };
}

/** Guests that answer, on ways that are whole. */
export function createFakeNicDoctor(): FakeNicDoctor {
  const examined: ExaminedNic[] = [];
  let held = Promise.resolve();
  const doctor: FakeNicDoctor = {
    examined,
    nicsGone: false,
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
      return buildIntactPath(nic, doctor.nicsGone);
    },
  };
  return doctor;
}
