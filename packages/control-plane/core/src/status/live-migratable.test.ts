// SPDX-License-Identifier: Apache-2.0
import type { Iface, VmiSpec } from "@patchbay/api";
import type { PersistentVolumeClaim } from "@patchbay/api/kubernetes";
import { aVmi } from "@patchbay/support";
import { expect, test } from "vitest";
import { withNics } from "../nics/nics.ts";
import { buildLiveMigratableCondition } from "./live-migratable.ts";

type Volume = NonNullable<VmiSpec["volumes"]>[number];

const CLAIM = { persistentVolumeClaim: { claimName: "data" } };
const DISKS = "DisksNotLiveMigratable";
const IFACES = "InterfaceNotLiveMigratable";
const NAT = { name: "default", masquerade: {} };

function claimWith(accessModes: readonly string[]): PersistentVolumeClaim {
  return {
    apiVersion: "v1",
    kind: "PersistentVolumeClaim",
    metadata: { name: "data" },
    spec: { accessModes: [...accessModes] },
  };
}

interface Row {
  readonly name: string;
  readonly volume?: Omit<Volume, "name">;
  readonly modes?: readonly string[];
  /** On the pod network. */
  readonly iface?: Iface;
  /** On another one. */
  readonly second?: Iface;
  /** Whether the other network is a device of a resource claim. */
  readonly isClaimed?: true;
  readonly annotations?: Readonly<Record<string, string>>;
  /** Absent: nothing stands in the way. */
  readonly why?: readonly [reason: string, message: string];
}

const NOT_SHARED =
  "cannot migrate VMI: PVC data is not shared, live migration requires that all PVCs must be shared (using ReadWriteMany access mode)";
const ALLOWED = "kubevirt.io/allow-pod-bridge-network-live-migration";
const NO_NAT =
  "cannot migrate VMI which does not use masquerade or a migratable plugin to connect to the pod network";
const NO_PLUGIN =
  "cannot migrate VMI: interface two has binding still, which is registered without migration";
const BINDINGS = {
  goes: { domainAttachmentType: "tap", migration: {} },
  still: { domainAttachmentType: "tap" },
};

/** As several are told. */
function several(...reported: readonly [string, string][]): string {
  return reported.map((row) => row.join(": ")).join(", ");
}

test.each<Row>([
  { name: "only masquerade", iface: NAT },
  { name: "no pod network" },
  {
    name: "a bridge on the pod network",
    iface: { name: "default", bridge: {} },
    why: [IFACES, NO_NAT],
  },
  {
    name: "a bridge on the pod network with permission to migrate",
    iface: { name: "default", bridge: {} },
    annotations: { [ALLOWED]: "" },
  },
  {
    name: "a plugin on the pod network that supports migration",
    iface: { name: "default", binding: { name: "goes" } },
  },
  {
    name: "a plugin on the pod network that does not support migration",
    iface: { name: "default", binding: { name: "still" } },
    annotations: { [ALLOWED]: "" },
    why: [IFACES, NO_NAT],
  },
  {
    name: "an unregistered plugin",
    iface: { name: "default", binding: { name: "toString" } },
    why: [IFACES, NO_NAT],
  },
  {
    name: "a bridge on a secondary network",
    second: { name: "two", bridge: {} },
  },
  {
    name: "a plugin on a secondary network that supports migration",
    second: { name: "two", binding: { name: "goes" } },
  },
  {
    name: "a plugin on a secondary network that does not support migration",
    second: { name: "two", binding: { name: "still" } },
    why: [IFACES, NO_PLUGIN],
  },
  {
    name: "a device of a resource claim",
    iface: NAT,
    second: { name: "two", bridge: {} },
    isClaimed: true,
    why: [
      IFACES,
      "cannot migrate VMI: interface two is a device of a resource claim, which stays on its node",
    ],
  },
  {
    name: "a claim with access from one node",
    volume: CLAIM,
    modes: ["ReadWriteOnce"],
    why: [DISKS, NOT_SHARED],
  },
  {
    name: "all these blockers at once",
    volume: CLAIM,
    modes: ["ReadWriteOnce"],
    iface: { name: "default", bridge: {} },
    second: { name: "two", binding: { name: "still" } },
    why: [IFACES, several([IFACES, NO_NAT], [IFACES, NO_PLUGIN], [DISKS, NOT_SHARED])],
  },
  {
    name: "a claim that is not observed",
    volume: CLAIM,
    why: [DISKS, NOT_SHARED],
  },
  {
    name: "a shared claim",
    volume: CLAIM,
    modes: ["ReadWriteMany"],
    iface: NAT,
  },
  {
    name: "a copy of a claim",
    volume: { ephemeral: CLAIM },
    modes: ["ReadOnlyMany"],
  },
  {
    name: "a file on the node",
    volume: { hostDisk: { path: "/disks/a", type: "Disk" } },
    why: [DISKS, "cannot migrate VMI with non-shared HostDisk"],
  },
  {
    name: "a file that nodes share",
    volume: { hostDisk: { path: "/disks/a", type: "Disk", shared: true } },
  },
])("$name: $why.0", (row) => {
  const { volume, modes, iface, second, annotations = {}, why } = row;
  const vmi = aVmi();
  const disks = volume === undefined ? [] : [{ name: "root", disk: { bus: "virtio" } }];
  const volumes = volume === undefined ? [] : [{ name: "root", ...volume }];
  const nics = [iface ?? [], second ?? []].flat();
  const otherNetwork = row.isClaimed
    ? { resourceClaim: { claimName: "nics", requestName: "nic" } }
    : { multus: { networkName: "blue" } };
  const networks = nics.map(({ name }) =>
    name === "two" ? { name, ...otherNetwork } : { name, pod: {} },
  );
  const { domain, ...others } = vmi.spec;
  const withDisks = { ...others, volumes, domain: { ...domain, devices: { disks } } };
  const spec = withNics(withDisks, networks, nics);
  const claims = new Map(modes === undefined ? [] : [["data", claimWith(modes)] as const]);
  const input = { ...vmi, metadata: { ...vmi.metadata, annotations }, spec };
  const [reason, message] = why ?? [];
  const blocked = { status: "False", reason, message };
  expect(buildLiveMigratableCondition({ vmi: input, claims, bindings: BINDINGS })).toEqual({
    type: "LiveMigratable",
    ...(why === undefined ? { status: "True" } : blocked),
  });
});
