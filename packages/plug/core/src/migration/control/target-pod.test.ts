// SPDX-License-Identifier: Apache-2.0
// The target's pod has room for all that the guest has: its ports are its own, which it brings along, also where none is free.
import { networkConfigOf, type VirtualMachineInstance } from "@patchbay/api";
import { aVmi } from "@patchbay/support";
import { expect, test } from "vitest";
import { podNetworkElements } from "../../plan/vm/vmi.ts";
import { aGuestFacts, aMigration } from "../../testing/migration-facts.ts";
import { targetPodOf } from "./target-pod.ts";

interface Guest {
  readonly ports: { readonly total: number; readonly free: number };
  readonly model?: string;
  readonly machine?: string;
}

/** With two NICs, both of which it has. */
function aFullGuest({ ports: pciePorts, model, machine = "q35" }: Guest): VirtualMachineInstance {
  const nics = [{ name: "one" }, { name: "two", network: "red" }];
  const attachments = nics.map(({ name, network = "blue" }, index) => ({
    name,
    networkName: `default/${network}`,
    state: "Attached" as const,
    podInterfaceName: `pod${String(index)}`,
  }));
  const interfaces = nics.map(({ name }, index) => ({
    name,
    queueCount: 1,
    pciAddress: `0000:0${String(index + 1)}:00.0`,
    hotplug: { type: "Plug" as const, phase: "Ready" as const },
  }));
  const vmi = aVmi({ nics, status: { phase: "Running", attachments, interfaces, pciePorts } });
  const { domain } = vmi.spec;
  const ifaces = (domain.devices?.interfaces ?? []).map((iface) => ({
    ...iface,
    ...(model === undefined ? {} : { model }),
  }));
  const devices = { ...domain.devices, interfaces: ifaces };
  return {
    ...vmi,
    spec: { ...vmi.spec, domain: { ...domain, machine: { type: machine }, devices } },
  };
}

test.each<{ name: string } & Guest>([
  { name: "some ports are free", ports: { total: 34, free: 30 } },
  { name: "one port is free", ports: { total: 4, free: 1 } },
  { name: "no port is free", ports: { total: 3, free: 0 } },
  { name: "its NICs could not be plugged", ports: { total: 34, free: 32 }, model: "pcnet" },
])("it asks for each network of the guest: $name", (guest) => {
  const pod = targetPodOf(aGuestFacts(aFullGuest(guest)), aMigration());
  expect(podNetworkElements(pod).map(({ name }) => name)).toEqual(["blue", "red"]);
});

/** MiB that the launcher may take, where the cluster gives new guests so many ports. */
function limitOf(guest: Guest, pcieRootPorts: number): number {
  const facts = aGuestFacts(aFullGuest(guest));
  const network = { ...networkConfigOf(undefined), pcieRootPorts };
  const { spec } = targetPodOf({ ...facts, network }, aMigration());
  return Number.parseInt(spec.containers[0]?.resources?.limits?.["memory"] ?? "", 10);
}

test("it may take as much memory for the guest's ports as where it was started, whatever new guests get", () => {
  const guest = { ports: { total: 67, free: 60 } };
  expect(limitOf(guest, 0)).toBe(limitOf(guest, 64));
  expect(limitOf(guest, 128)).toBeGreaterThan(limitOf(guest, 64));
});

test("slots of a conventional bus are no ports", () => {
  const guest = { machine: "pc", ports: { total: 30, free: 20 } };
  expect(limitOf(guest, 0)).toBe(limitOf(guest, 128));
  expect(limitOf(guest, 0)).toBeLessThan(limitOf({ ports: { total: 67, free: 60 } }, 0));
});
