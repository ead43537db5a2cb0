// SPDX-License-Identifier: Apache-2.0
import type { Iface, PersistentVolumeClaim, VmiSpec } from "@patchbay/api";
import { aVmi } from "@patchbay/support";
import { expect, test } from "vitest";
import { withNics } from "../spec/nics.ts";
import { liveMigratableCondition } from "./live-migratable.ts";

type Volume = NonNullable<VmiSpec["volumes"]>[number];

const CLAIM = { persistentVolumeClaim: { claimName: "data" } };
const NOT_BUILT = "MigrationNotBuilt";
const DISKS = "DisksNotLiveMigratable";
const IFACES = "InterfaceNotLiveMigratable";
const NAT = { name: "default", masquerade: {} };

function claimWith(accessModes: readonly string[]): PersistentVolumeClaim {
  return {
    ...{ apiVersion: "v1", kind: "PersistentVolumeClaim", metadata: { name: "data" } },
    spec: { accessModes: [...accessModes] },
  };
}

interface Row {
  readonly name: string;
  readonly volume?: Omit<Volume, "name">;
  readonly modes?: readonly string[];
  readonly iface?: Iface;
  readonly reason: string;
  readonly message: string;
}

const NOT_SHARED =
  "cannot migrate VMI: PVC data is not shared, live migration requires that all PVCs must be shared (using ReadWriteMany access mode)";
const BUILT = "live migration is not built yet";

test.each<Row>([
  { name: "nothing but a NAT", iface: NAT, reason: NOT_BUILT, message: BUILT },
  { name: "no pod network", reason: NOT_BUILT, message: BUILT },
  {
    name: "a bridge on the pod network",
    iface: { name: "default", bridge: {} },
    reason: IFACES,
    message:
      "cannot migrate VMI which does not use masquerade or a migratable plugin to connect to the pod network",
  },
  {
    name: "a claim for one node",
    volume: CLAIM,
    modes: ["ReadWriteOnce"],
    iface: { name: "default", bridge: {} },
    reason: DISKS,
    message: NOT_SHARED,
  },
  { name: "a claim that is not seen", volume: CLAIM, reason: DISKS, message: NOT_SHARED },
  {
    name: "a shared claim",
    volume: CLAIM,
    modes: ["ReadWriteMany"],
    iface: NAT,
    reason: NOT_BUILT,
    message: BUILT,
  },
  {
    name: "a copy of a claim",
    volume: { ephemeral: CLAIM },
    modes: ["ReadOnlyMany"],
    reason: NOT_BUILT,
    message: BUILT,
  },
  {
    name: "a file of the node",
    volume: { hostDisk: { path: "/disks/a", type: "Disk" } },
    reason: DISKS,
    message: "cannot migrate VMI with non-shared HostDisk",
  },
  {
    name: "a file that nodes share",
    volume: { hostDisk: { path: "/disks/a", type: "Disk", shared: true } },
    reason: NOT_BUILT,
    message: BUILT,
  },
])("$name: $reason", ({ volume, modes, iface, reason, message }) => {
  const vmi = aVmi();
  const disks = volume === undefined ? [] : [{ name: "root", disk: { bus: "virtio" } }];
  const volumes = volume === undefined ? [] : [{ name: "root", ...volume }];
  const nics = iface === undefined ? [] : [iface];
  const networks = nics.map(({ name }) => ({ name, pod: {} }));
  const { domain } = vmi.spec;
  const withDisks = { ...vmi.spec, volumes, domain: { ...domain, devices: { disks } } };
  const spec = withNics(withDisks, networks, nics);
  const claims = new Map(modes === undefined ? [] : [["data", claimWith(modes)] as const]);
  expect(liveMigratableCondition({ vmi: { ...vmi, spec }, claims, bindings: {} })).toEqual({
    ...{ type: "LiveMigratable", status: "False", reason, message },
  });
});
