// SPDX-License-Identifier: Apache-2.0
import type { VirtualMachineInstance, VmiStatus } from "@patchbay/api";
import {
  evictionAnswer,
  ifacesWithoutPort,
  launcherNamesOf,
  migrationProblem,
  targetProblem,
} from "@patchbay/core";
import { expect, test } from "vitest";
import { seenVmi } from "./seen-vmi.ts";
import { BLUE, POD, POD_IFACE } from "./testing/admission.ts";
import { aVmi } from "./testing/objects.ts";

function vmiOf(status?: VmiStatus): VirtualMachineInstance {
  const late = { name: "late", bridge: {} };
  const spec = {
    domain: { devices: { interfaces: [POD_IFACE, { name: "nic1", bridge: {} }, late] } },
    networks: [POD, BLUE, { name: "late", multus: { networkName: "blue" } }],
  };
  const { apiVersion, kind, metadata } = aVmi("vm");
  return { apiVersion, kind, metadata, spec, ...(status !== undefined && { status }) };
}

const PCI = { name: "nic1", pciAddress: "0000:02:00.0" };

test.each<{ name: string; status?: VmiStatus }>([
  { name: "has no status yet" },
  { name: "does not run yet", status: { phase: "Scheduling" } },
  { name: "has no port left", status: { phase: "Running", pciePorts: { total: 1, free: 0 } } },
  {
    name: "has a device and a port",
    status: { phase: "Running", pciePorts: { total: 2, free: 1 }, interfaces: [PCI] },
  },
  {
    name: "came by a migration, and may leave",
    status: {
      phase: "Running",
      nodeName: "b",
      evacuationNodeName: "b",
      conditions: [{ type: "LiveMigratable", status: "True" }],
      migrationState: { migrationUid: "m1", targetNode: "b", completed: true },
    },
  },
])("a VMI that $name is judged by what is seen of it as by the whole", ({ status }) => {
  const vmi = vmiOf(status);
  const seen = seenVmi(vmi);
  const judged = (it: VirtualMachineInstance): unknown => [
    ifacesWithoutPort(it, it.spec, {}),
    targetProblem({ kind: "vmi", vmi: it }),
    launcherNamesOf(it),
    migrationProblem(it, { namespace: "ns", name: "vm" }),
    evictionAnswer(it, launcherNamesOf(it)[0] ?? "", "LiveMigrate"),
  ];
  expect(judged(seen)).toEqual(judged(vmi));
  expect({ ...seen, status: undefined }).toEqual({ ...vmi, status: undefined });
});

test("what others look at is not kept", () => {
  const seen = seenVmi(
    vmiOf({
      phase: "Running",
      activePods: { uid: "node" },
      conditions: [{ type: "Ready", status: "True" }],
      interfaces: [{ ...PCI, mac: "02:00:00:00:00:01", ipAddresses: ["10.0.0.1"] }, { mac: "x" }],
    }),
  );
  expect(seen.status).toEqual({ phase: "Running", interfaces: [PCI, {}] });
});
