// SPDX-License-Identifier: Apache-2.0
// NICs that are devices of resource claims: a VM starts with one, another is plugged, both survive a restart.
import { ClaimDriver, eventually, FEW_PORTS, vmManifest } from "@patchbay/support";
import type { VmiSpec, VirtualMachine } from "@patchbay/api";
import { afterAll, beforeAll, expect, test } from "vitest";
import { restart } from "../guest.ts";
import { linksOf } from "../inventory.ts";
import { CHANGE_MS, expectGone, expectReady, guestNic, machine, ping } from "../machine.ts";

const VM = "claimed";
const SUBNET = "10.87.9";
const GATES = "kubevirt";
const CLAIM = { name: "nics", resourceClaimTemplateName: "nic" };
const SLOT = { name: "network-slot-1", resourceClaimTemplateName: "nic" };

function device(name: string, claimName: string) {
  return { name, resourceClaim: { claimName, requestName: "nic" } };
}

function configure(featureGates: readonly string[], resourceClaimSlots: object | null): void {
  const configuration = {
    developerConfiguration: { featureGates },
    network: { resourceClaimSlots },
  };
  machine.patch("kubevirt", GATES, { spec: { configuration } });
}

let driver: ClaimDriver;

beforeAll(async () => {
  driver = await ClaimDriver.open(machine, { name: "pbt-claims", subnet: SUBNET });
  configure(["NetworkDevicesWithDRA"], { resourceClaimTemplateName: "nic", count: 1 });
  machine.apply({
    apiVersion: "resource.k8s.io/v1",
    kind: "ResourceClaimTemplate",
    metadata: { name: "nic", namespace: "default" },
    spec: {
      spec: { devices: { requests: [{ name: "nic", exactly: { deviceClassName: "nics" } }] } },
    },
  });
  const vm = vmManifest({ name: VM, nics: [], pcieRootPorts: FEW_PORTS }) as VirtualMachine;
  const { spec } = vm.spec.template;
  const claimed: VmiSpec = {
    ...spec,
    resourceClaims: [CLAIM],
    networks: [device("first", "nics")],
    domain: {
      ...spec.domain,
      devices: { ...spec.domain.devices, interfaces: [{ name: "first", bridge: {} }] },
    },
  };
  const template = { ...vm.spec.template, spec: claimed };
  await eventually(
    () =>
      machine.try(
        ["kubectl", "apply", "-f", "-"],
        JSON.stringify({ ...vm, spec: { ...vm.spec, template } }),
      ).code === 0,
    { withinMs: CHANGE_MS },
  );
  await machine.booted(VM);
});

afterAll(async () => {
  machine.deleteIfPresent("vm", VM);
  machine.kubectl("delete", "resourceclaimtemplate", "nic", "--ignore-not-found");
  configure([], null);
  await driver.close();
});

async function lease(name: string): Promise<string> {
  const { mac = "" } = await expectReady(VM, name);
  const nic = await guestNic(VM, mac);
  const { lines } = await machine.console(VM).run(`lease ${nic}`, { timeoutMs: CHANGE_MS });
  return lines.join("\n");
}

function podUid(): string {
  return machine.findPod(VM)?.metadata.uid ?? "";
}

test("the guest starts with the device: its MAC, its address by DHCP, and frames", async () => {
  expect(machine.findPod(VM)?.spec.resourceClaims).toEqual([CLAIM, SLOT]);
  const { mac = "", podInterfaceName = "" } = await expectReady(VM, "first");
  expect(mac).toMatch(/^02:00:00:dd:00:/);
  expect(podInterfaceName).toMatch(/^dra\d+$/);
  const attachment = machine.findVmi(VM)?.status?.attachments?.[0];
  expect(attachment).toMatchObject({ name: "first", podInterfaceName, mac, state: "Attached" });
  expect(await lease("first")).toContain(`lease ${attachment?.ips?.[0] ?? "?"}/24`);
  expect(await ping(VM, `${SUBNET}.1`)).toMatchObject({ received: 3 });
  expect(machine.findPod(VM)?.metadata.annotations?.["k8s.v1.cni.cncf.io/networks"] ?? "[]").toBe(
    "[]",
  );
});

test("the device of a slot is plugged into the running guest", async () => {
  const uid = podUid();
  machine.patch("vm", VM, [
    { op: "add", path: "/spec/template/spec/resourceClaims/-", value: SLOT },
    { op: "add", path: "/spec/template/spec/networks/-", value: device("second", SLOT.name) },
    {
      op: "add",
      path: "/spec/template/spec/domain/devices/interfaces/-",
      value: { name: "second", bridge: {} },
    },
  ]);
  const { mac = "" } = await expectReady(VM, "second");
  expect(await guestNic(VM, mac)).not.toBe("");
  expect(podUid()).toBe(uid);
  const conditions = machine.findVm(VM)?.status?.conditions ?? [];
  expect(conditions.filter(({ type }) => type === "RestartRequired")).toEqual([]);
});

test("after a restart both devices are in the guest again, of new claims", async () => {
  const before = machine.findVmi(VM)?.status?.attachments?.map(({ mac }) => mac) ?? [];
  await restart(VM);
  const { mac } = await expectReady(VM, "first");
  await expectReady(VM, "second");
  expect(before).not.toContain(mac);
  expect(await lease("first")).toContain(`lease ${SUBNET}.`);
  const slots = machine.findPod(VM)?.spec.resourceClaims?.map(({ name }) => name);
  expect(slots).toEqual(["nics", "network-slot-1", "network-slot-2"]);
});

test("an unplug removes bridge and tap, and leaves the device in the pod for the next plug", async () => {
  const { podInterfaceName = "" } = await expectReady(VM, "second");
  machine.patch("vm", VM, [
    { op: "add", path: "/spec/template/spec/domain/devices/interfaces/1/state", value: "absent" },
  ]);
  await expectGone(VM, "second");
  const links = linksOf(podUid());
  expect(links).toContain(podInterfaceName);
  expect(links.filter((link) => link.startsWith("k6t-"))).toHaveLength(1);
  expect(links.filter((link) => link.startsWith("tap"))).toHaveLength(1);
  expect(driver.failures).toEqual([]);
});

test("the claims of a deleted VM are deleted", async () => {
  machine.delete("vm", VM);
  await eventually(() => machine.kubectl("get", "resourceclaims", "-o", "name").trim() === "", {
    withinMs: CHANGE_MS,
  });
});
