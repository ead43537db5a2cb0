// SPDX-License-Identifier: Apache-2.0
// A NIC that speaks vhost-user, as it is written and as it is read again.
import { describe, expect, test } from "vitest";
import type { NicDefinition } from "../definition.ts";
import { PLAIN_MACHINE } from "../testing/plain-machine.ts";
import { parseDomain, type DomainFacts } from "./parse.ts";
import { printDomain, printNic } from "./print/domain.ts";

function aNic(queues: number): NicDefinition {
  return {
    alias: "ua-fast",
    mac: "02:00:00:00:00:01",
    model: "virtio",
    queues,
    socketPath: "/run/launcher/vhost-pod1",
    mtu: 0,
    linkUp: true,
    pciAddress: { bus: 3, slot: 0, function: 0 },
  };
}

function parsed(more: { readonly hasNoNicVectors?: true }): DomainFacts {
  const parse = parseDomain(
    printDomain({
      ...PLAIN_MACHINE,
      name: "default_vm1",
      uuid: "6f1c1a52-7f0c-4c0e-8d36-0a2b1d5b7c11",
      accelerator: "qemu",
      machine: "q35",
      vcpus: 2,
      memoryMiB: 128,
      sharesMemory: true,
      nics: [aNic(2)],
      ports: [],
      ...more,
    }),
  );
  if (!parse.ok) throw new Error(parse.reason);
  return parse.domain;
}

test("prints the socket with maximum ring sizes, and no MTU if unknown", () => {
  expect(printNic(aNic(1))).toBe(`<interface type="vhostuser">
  <mac address="02:00:00:00:00:01"/>
  <source type="unix" path="/run/launcher/vhost-pod1" mode="client"/>
  <model type="virtio-non-transitional"/>
  <driver rx_queue_size="1024" tx_queue_size="1024"/>
  <rom enabled="no"/>
  <alias name="ua-fast"/>
  <address type="pci" domain="0x0000" bus="0x03" slot="0x00" function="0x0"/>
</interface>
`);
  expect(printNic(aNic(2))).toContain(
    '<driver queues="2" rx_queue_size="1024" tx_queue_size="1024"/>',
  );
});

test("parses a NIC by its socket", () => {
  const [nic] = parsed({}).nics;
  expect(nic).toEqual({
    alias: "ua-fast",
    mac: "02:00:00:00:00:01",
    socketPath: "/run/launcher/vhost-pod1",
    pciAddress: { bus: 3, slot: 0, function: 0 },
    linkUp: true,
    model: "virtio-non-transitional",
    queues: 2,
  });
});

describe("a domain whose NICs have no interrupt vectors", () => {
  test("is detected", () => {
    expect(parsed({ hasNoNicVectors: true }).hasNoNicVectors).toBe(true);
    expect(parsed({}).hasNoNicVectors).toBeUndefined();
  });

  test.each([
    "<qemu:commandline/>",
    '<qemu:commandline><qemu:arg value="-global"/></qemu:commandline>',
    "<qemu:commandline><qemu:arg>virtio-net-pci-base.vectors=0</qemu:arg></qemu:commandline>",
  ])("is not detected from %s", (text) => {
    const parse = parseDomain(`<domain>${text}</domain>`);
    expect(parse.ok && parse.domain.hasNoNicVectors).toBeUndefined();
  });
});
