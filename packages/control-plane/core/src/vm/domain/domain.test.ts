// SPDX-License-Identifier: Apache-2.0
// Which domain does a VMI get?
import { names, networkConfigOf, type VmiSpec, type VirtualMachineInstance } from "@patchbay/api";
import { printPcieTopology } from "@patchbay/api/annotations";
import type { DomainDefinition } from "@patchbay/domain";
import { aVmi, type NicSketch } from "@patchbay/support";
import { describe, expect, test } from "vitest";
import { planVmiTopology } from "../../nics/pcie/topology.ts";
import { buildGuestDevices, buildMachineUuid, planDomain, type DomainSettings } from "./domain.ts";
import { NO_LINKS, type IfaceFacts } from "../../nics/facts.ts";

type Devices = NonNullable<VmiSpec["domain"]["devices"]>;

function devicesOf(devices: Devices, version = 3): Partial<DomainDefinition> {
  const bare = aVmi();
  const annotation = printPcieTopology({ version, interfaces: [] });
  const annotations = { [names.PCIE_TOPOLOGY_ANNOTATION]: annotation };
  const spec = { ...bare.spec, domain: { ...bare.spec.domain, devices } };
  const vmi = { ...bare, metadata: { ...bare.metadata, annotations }, spec };
  const plan = planVmiTopology(vmi, networkConfigOf(undefined));
  if (!plan.ok) throw new Error("no layout");
  return buildGuestDevices(vmi, plan.topology);
}

const SOCKET = "/run/launcher/vnc.sock";
const SLOT_1 = { bus: 0, slot: 1, function: 0 };

describe("the display", () => {
  test.each<{ name: string; devices: Devices; version?: number; want: object | undefined }>([
    {
      name: "is VGA by default",
      devices: {},
      want: { socketPath: SOCKET, model: "vga", memoryKiB: 16384, pciAddress: SLOT_1 },
    },
    {
      name: "has the requested model",
      devices: { video: { type: "virtio" } },
      want: { socketPath: SOCKET, model: "virtio", pciAddress: SLOT_1 },
    },
    { name: "can be disabled", devices: { autoattachGraphicsDevice: false }, want: undefined },
    { name: "does not exist with an older layout", devices: {}, version: 2, want: undefined },
    {
      name: "exists with an older layout if requested",
      devices: { autoattachGraphicsDevice: true },
      version: 2,
      want: { socketPath: SOCKET, model: "vga", memoryKiB: 16384, pciAddress: SLOT_1 },
    },
  ])("$name", ({ devices, version, want }) => {
    expect(devicesOf(devices, version).display).toEqual(want);
  });
});

describe("input devices", () => {
  test.each<{ name: string; devices: Devices; want: object }>([
    { name: "do not exist by default", devices: {}, want: [] },
    {
      name: "are a USB tablet if a tablet is always added",
      devices: { autoattachInputDevice: true },
      want: [{ alias: "ua-input-0", type: "tablet", bus: "usb", port: 1 }],
    },
    {
      name: "are those of the specification",
      devices: {
        autoattachInputDevice: true,
        inputs: [
          { name: "a", type: "tablet", bus: "virtio" },
          { name: "b", type: "tablet" },
        ],
      },
      want: [
        {
          alias: "ua-input-0",
          type: "tablet",
          bus: "virtio",
          pciAddress: { bus: 3, slot: 0, function: 0 },
        },
        { alias: "ua-input-1", type: "tablet", bus: "usb", port: 2 },
      ],
    },
  ])("$name", ({ devices, want }) => {
    expect(devicesOf(devices).inputs).toEqual(want);
  });
});

test("the random number generator and the watchdog have their own addresses", () => {
  const { rng, watchdog } = devicesOf({ rng: {}, watchdog: { name: "w", i6300esb: {} } });
  expect(rng).toEqual({ pciAddress: { bus: 2, slot: 0, function: 0 } });
  expect(watchdog).toEqual({
    alias: "ua-watchdog",
    action: "reset",
    pciAddress: { bus: 0, slot: 30, function: 0 },
  });
});

test("a watchdog has the requested action", () => {
  const i6300esb = { action: "poweroff" };
  expect(devicesOf({ watchdog: { name: "w", i6300esb } }).watchdog?.action).toBe("poweroff");
});

describe("the TPM", () => {
  test.each<{ tpm: NonNullable<Devices["tpm"]>; want: object | undefined }>([
    { tpm: {}, want: { model: "tpm-tis", isPersistent: false } },
    { tpm: { persistent: true }, want: { model: "tpm-crb", isPersistent: true } },
    { tpm: { enabled: false, persistent: true }, want: undefined },
  ])("$tpm", ({ tpm, want }) => {
    expect(devicesOf({ tpm }).tpm).toEqual(want);
  });
});

test("omits the serial console on request", () => {
  expect(devicesOf({ autoattachSerialConsole: false })).not.toHaveProperty("console");
  expect(devicesOf({})).toHaveProperty("console");
});

const SETTINGS: DomainSettings = {
  useEmulation: false,
  uuid: "6f1c1a52-7f0c-8c0e-8d36-0a2b1d5b7c11",
  network: { ...networkConfigOf(undefined), pcieRootPorts: 1 },
};
const AGENT = { socketPath: "/run/launcher/agent.sock" };

type Domain = VmiSpec["domain"];

function aVmiWith(change: Partial<Domain>, nics: readonly NicSketch[] = []) {
  const vmi = aVmi({ nics });
  return { ...vmi, spec: { ...vmi.spec, domain: { ...vmi.spec.domain, ...change } } };
}

function laidOutBy(version: number, vmi: VirtualMachineInstance): VirtualMachineInstance {
  const annotation = printPcieTopology({ version, interfaces: [] });
  const annotations = { [names.PCIE_TOPOLOGY_ANNOTATION]: annotation };
  return { ...vmi, metadata: { ...vmi.metadata, annotations } };
}

function wired(name: string): IfaceFacts {
  return {
    name,
    iface: { name, macAddress: "02-00-00-00-00-0A" },
    binding: { kind: "bridge" },
    podInterfaceName: `pod0${name}`,
    links: { ...NO_LINKS, mtu: 1450 },
  };
}

function domainOf(vmi: VirtualMachineInstance, change: Partial<DomainSettings> = {}) {
  return planDomain(vmi, [], { ...SETTINGS, ...change });
}

test("builds a domain from its VMI, with an address for each NIC and free ports", () => {
  const vmi = aVmiWith({ cpu: { cores: 2, threads: 2 } }, [{ name: "late" }, { name: "a" }]);
  const { ports, ...definition } = planDomain(vmi, [wired("a")], SETTINGS);
  expect(ports.map(({ index }) => index)).toEqual([1, 2, 3, 4]);
  expect(definition).toStrictEqual({
    name: "default_vm1",
    uuid: SETTINGS.uuid,
    accelerator: "kvm",
    machine: "q35",
    vcpus: 4,
    memoryMiB: 128,
    sharesMemory: true,
    firmware: { kind: "bios", usesSerial: false },
    identity: {},
    features: { acpi: true, apic: true },
    clock: { offset: { kind: "utc" }, timers: [] },
    ioThreads: 0,
    controllers: [],
    disks: [],
    inputs: [],
    cpu: {
      model: { mode: "host-model" },
      topology: { sockets: 1, cores: 2, threads: 2 },
      features: [],
    },
    display: {
      socketPath: "/run/launcher/vnc.sock",
      model: "vga",
      memoryKiB: 16384,
      pciAddress: { bus: 0, slot: 1, function: 0 },
    },
    kernel: { path: "/run/kernel-boot/vmlinuz", initrdPath: "/run/kernel-boot/initrd" },
    nics: [
      {
        alias: "ua-a",
        mac: "02:00:00:00:00:0a",
        model: "virtio",
        tapName: "tap0a",
        mtu: 1450,
        linkUp: true,
        pciAddress: { bus: 3, slot: 0, function: 0 },
        queues: 1,
      },
    ],
    bridges: [],
    agent: { ...AGENT, pciAddress: { bus: 1, slot: 0, function: 0 } },
    console: {
      socketPath: "/run/launcher/serial0.sock",
      logPath: "/run/launcher/serial0.log",
    },
  });
});

test("limits a NIC's requested queues to the cluster's maximum", () => {
  const vmi = aVmiWith({
    cpu: { cores: 4 },
    devices: { interfaces: [{ name: "a" }], networkInterfaceMultiqueue: true },
  });
  const network = { ...SETTINGS.network, maxQueues: 3 };
  const { nics } = planDomain(vmi, [wired("a")], { ...SETTINGS, network });
  expect(nics.map(({ queues }) => queues)).toEqual([3]);
});

test("omits a NIC that the VMI does not declare", () => {
  expect(planDomain(aVmiWith({}), [wired("a")], SETTINGS).nics).toEqual([]);
});

test("omits all devices if they have no addresses; this VMI is never started", () => {
  const interfaces = [{ name: "a", pciAddress: "0000:01:01.0" }];
  const { nics, ports, agent } = planDomain(
    aVmiWith({ devices: { interfaces } }),
    [wired("a")],
    SETTINGS,
  );
  expect({ nics, ports, agent }).toEqual({ nics: [], ports: [], agent: undefined });
});

test("emulates the guest without KVM", () => {
  expect(domainOf(aVmiWith({}), { useEmulation: true }).accelerator).toBe("qemu");
});

describe("the kernel", () => {
  const boot = (firmware: NonNullable<Domain["firmware"]>) =>
    domainOf(aVmiWith({ firmware })).kernel;

  test("uses the default kernel path, without initrd and arguments", () => {
    const container = { image: "guest" };
    expect(boot({ kernelBoot: { container } })).toEqual({ path: "/run/kernel-boot/vmlinuz" });
  });

  test("is unset without an image, so that firmware boots a disk", () => {
    expect(boot({ kernelBoot: { kernelArgs: "quiet" } })).toBeUndefined();
  });

  test("is found by its path in the image, with its initial disk and arguments", () => {
    const container = { image: "guest", kernelPath: "//boot/linux", initrdPath: "/boot/initrd" };
    expect(boot({ kernelBoot: { container, kernelArgs: "console=ttyS0" } })).toEqual({
      path: "/run/kernel-boot/boot/linux",
      initrdPath: "/run/kernel-boot/boot/initrd",
      args: "console=ttyS0",
    });
  });
});

describe("shared memory and the agent's channel", () => {
  test("exist with the newest layout", () => {
    const { sharesMemory, agent } = domainOf(aVmiWith({}));
    expect(sharesMemory).toBe(true);
    expect(agent).toMatchObject(AGENT);
  });

  test("omit shared memory if the cluster disables it", () => {
    const network = { ...SETTINGS.network, sharedMemory: false };
    expect(domainOf(aVmiWith({}), { network }).sharesMemory).toBe(false);
  });

  test("have no channel with an older layout", () => {
    const definition = domainOf(laidOutBy(1, aVmiWith({})));
    expect(definition.sharesMemory).toBe(true);
    expect(definition).not.toHaveProperty("agent");
  });
});

test("derives a version 8 UUID from the hash of the machine's name", () => {
  // printf default_vm1 | sha256sum
  expect(buildMachineUuid(aVmi())).toBe("ec1cbf85-ad13-81e1-8b83-911ac4fe650a");
});
