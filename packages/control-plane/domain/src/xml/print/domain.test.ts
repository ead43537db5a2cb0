// SPDX-License-Identifier: Apache-2.0
import { describe, expect, test } from "vitest";
import type { DomainDefinition, NicDefinition } from "../../definition.ts";
import { PLAIN_MACHINE } from "../../testing/plain-machine.ts";
import { printDomain, printNic } from "./domain.ts";

function aNic(more: Partial<NicDefinition> = {}): NicDefinition {
  return {
    alias: "ua-blue",
    mac: "02:00:00:00:00:01",
    model: "virtio",
    queues: 1,
    tapName: "tap1",
    mtu: 1500,
    linkUp: true,
    pciAddress: { bus: 3, slot: 0, function: 0 },
    ...more,
  };
}

function aDomain(more: Partial<DomainDefinition> = {}): DomainDefinition {
  return {
    name: "default_vm1",
    uuid: "6f1c1a52-7f0c-4c0e-8d36-0a2b1d5b7c11",
    accelerator: "qemu",
    machine: "q35",
    vcpus: 1,
    memoryMiB: 128,
    ...PLAIN_MACHINE,
    kernel: { path: "/run/kernel-boot/vmlinuz" },
    nics: [],
    ports: [],
    sharesMemory: false,
    console: { socketPath: "/run/launcher/serial0.sock", logPath: "/run/launcher/serial0.log" },
    ...more,
  };
}

test("prints a plugged NIC like the domain's element for it", () => {
  expect(printNic(aNic())).toBe(`<interface type="ethernet">
  <mac address="02:00:00:00:00:01"/>
  <target dev="tap1" managed="no"/>
  <model type="virtio-non-transitional"/>
  <mtu size="1500"/>
  <rom enabled="no"/>
  <alias name="ua-blue"/>
  <address type="pci" domain="0x0000" bus="0x03" slot="0x00" function="0x0"/>
</interface>
`);
});

describe("the model of a NIC", () => {
  const onBus0 = { bus: 0, slot: 5, function: 0 };
  test.each([
    { model: "virtio", pciAddress: onBus0, type: "virtio" },
    { model: "virtio", pciAddress: aNic().pciAddress, type: "virtio-non-transitional" },
    { model: "e1000e", pciAddress: aNic().pciAddress, type: "e1000e" },
  ])("$model on bus $pciAddress.bus is $type", ({ type, ...more }) => {
    expect(printNic(aNic(more))).toContain(`<model type="${type}"/>`);
  });
});

describe("the queues of a NIC", () => {
  test.each([
    { model: "virtio", queues: 4, driver: ['<driver name="qemu" queues="4"/>'] },
    { model: "virtio", queues: 1, driver: null },
    { model: "e1000", queues: 4, driver: null },
    { model: "a model of tomorrow", queues: 4, driver: null },
  ])("of model $model with $queues queues: $driver", ({ driver, ...more }) => {
    expect(
      printNic(aNic(more))
        .match(/<driver.*>/)
        ?.slice() ?? null,
    ).toEqual(driver);
  });
});

describe("a domain", () => {
  test("with KVM has no cache of translated code", () => {
    expect(printDomain(aDomain({ accelerator: "kvm" }))).not.toContain("tcg");
  });

  test("without KVM bounds the cache of translated code, and has libvirt's CPU", () => {
    const xml = printDomain(aDomain());
    expect(xml).toContain('<tb-cache unit="MiB">96</tb-cache>');
    expect(xml).not.toContain("<cpu");
  });

  test.each([
    { kernel: { path: "/k" }, lines: ["<kernel>/k</kernel>"] },
    {
      kernel: { path: "/k", initrdPath: "/i" },
      lines: ["<kernel>/k</kernel>", "<initrd>/i</initrd>"],
    },
    {
      kernel: { path: "/k", args: "quiet" },
      lines: ["<kernel>/k</kernel>", "<cmdline>quiet</cmdline>"],
    },
  ])("boots $lines", ({ kernel, lines }) => {
    expect(printDomain(aDomain({ kernel })).match(/<(kernel|initrd|cmdline)>.*/g)).toEqual(lines);
  });

  test("with private memory has no memory backing", () => {
    expect(printDomain(aDomain())).not.toContain("memoryBacking");
  });
});
