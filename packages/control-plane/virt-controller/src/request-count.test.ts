// SPDX-License-Identifier: Apache-2.0
// Requests of virt-controller for a plug and an unplug, by kind. virt-api adds one for each.
import type { IfaceStatus } from "@patchbay/api";
import type { JsonPatchOperation } from "@patchbay/api/json";
import { eventually } from "@patchbay/support";
import { expect, test } from "vitest";
import { useStage } from "./testing/component-environment.ts";

const SOON = { withinMs: 5000 };
const stage = useStage();

const IFACES = "/spec/template/spec/domain/devices/interfaces";
const NIC = { name: "one", bridge: {}, macAddress: "02:00:00:00:00:01" };
const PLUG: readonly JsonPatchOperation[] = [
  { op: "add", path: IFACES, value: [NIC] },
  {
    op: "add",
    path: "/spec/template/spec/networks",
    value: [{ name: "one", multus: { networkName: "blue" } }],
  },
];
const UNPLUG: readonly JsonPatchOperation[] = [
  { op: "add", path: `${IFACES}/0/state`, value: "absent" },
];

/** virt-handler's report of the NIC. */
function told(type: "Plug" | "Unplug", phase: "Ready" | "Detaching" | "PodDetaching"): IfaceStatus {
  return { name: "one", pciAddress: "0000:02:00.0", hotplug: { type, phase } };
}

async function settled(isSo: (attachment: string | undefined) => boolean): Promise<void> {
  await stage.scene.vmiWhen(({ status }) => isSo(status?.attachments?.[0]?.state));
}

async function vmSeen(): Promise<void> {
  await stage.scene.vmWhen(
    ({ metadata, status }) => status?.observedGeneration === metadata.generation,
  );
}

/** All requests during `scenario`, sorted. */
async function requestsOf(scenario: () => Promise<void>): Promise<readonly string[]> {
  const before = stage.controller.calls.length;
  await scenario();
  return stage.controller.calls.slice(before).toSorted();
}

async function plug(): Promise<void> {
  await stage.scene.patchVm(PLUG);
  await eventually(async () => (await stage.scene.elements()).length === 1, SOON);
  await stage.scene.attachAll();
  await settled((state) => state === "Attached");
  await stage.scene.reportVmi({ interfaces: [told("Plug", "Ready")] });
  await vmSeen();
}

async function unplug(): Promise<void> {
  await stage.scene.patchVm(UNPLUG);
  await stage.scene.vmiWhen(({ spec }) => spec.domain.devices?.interfaces?.[0]?.state === "absent");
  await stage.scene.reportVmi({ interfaces: [told("Unplug", "Detaching")] });
  await stage.scene.reportVmi({ interfaces: [told("Unplug", "PodDetaching")] });
  await eventually(async () => (await stage.scene.elements()).length === 0, SOON);
  await stage.scene.attachAll();
  await settled((state) => state === undefined);
  await stage.scene.reportVmi({ interfaces: [] });
  await stage.scene.vmWhen(({ spec }) => spec.template.spec.networks?.length === 0);
  await vmSeen();
}

test("a plug takes four requests, an unplug seven", async () => {
  await stage.scene.createVm([]);
  await stage.scene.boot();
  await vmSeen();
  expect(await requestsOf(plug)).toEqual([
    "patch pods",
    "patch virtualmachineinstances",
    "patch virtualmachineinstances/status",
    "patch virtualmachines/status",
  ]);
  expect(await requestsOf(unplug)).toEqual([
    "patch pods",
    "patch virtualmachineinstances",
    "patch virtualmachineinstances",
    "patch virtualmachineinstances/status",
    "patch virtualmachineinstances/status",
    "patch virtualmachines",
    "patch virtualmachines/status",
  ]);
});
