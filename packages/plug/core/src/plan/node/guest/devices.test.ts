// SPDX-License-Identifier: Apache-2.0
// Which devices beside NICs and disks does a guest get?
import { names, networkConfigOf, printPcieTopology, type VmiSpec } from "@patchbay/api";
import type { DomainDefinition } from "@patchbay/domain";
import { aVmi } from "@patchbay/support";
import { describe, expect, test } from "vitest";
import { planVmiTopology } from "../../../pcie/topology.ts";
import { guestDevicesOf } from "./devices.ts";

type Devices = NonNullable<VmiSpec["domain"]["devices"]>;

function devicesOf(devices: Devices, version = 3): Partial<DomainDefinition> {
  const bare = aVmi();
  const annotation = printPcieTopology({ version, interfaces: [] });
  const annotations = { [names.PCIE_TOPOLOGY_ANNOTATION]: annotation };
  const spec = { ...bare.spec, domain: { ...bare.spec.domain, devices } };
  const vmi = { ...bare, metadata: { ...bare.metadata, annotations }, spec };
  const plan = planVmiTopology(vmi, networkConfigOf(undefined));
  if (!plan.ok) throw new Error("no layout");
  return guestDevicesOf(vmi, plan.topology);
}

const SOCKET = "/run/launcher/vnc.sock";
const SLOT_1 = { bus: 0, slot: 1, function: 0 };

describe("the display", () => {
  test.each<{ name: string; devices: Devices; version?: number; want: object | undefined }>([
    {
      name: "is VGA where nothing is said",
      devices: {},
      want: { socketPath: SOCKET, model: "vga", memoryKiB: 16384, pciAddress: SLOT_1 },
    },
    {
      name: "is of the model that is named",
      devices: { video: { type: "virtio" } },
      want: { socketPath: SOCKET, model: "virtio", pciAddress: SLOT_1 },
    },
    { name: "can be left out", devices: { autoattachGraphicsDevice: false }, want: undefined },
    { name: "is not there on a machine of older rules", devices: {}, version: 2, want: undefined },
    {
      name: "is there on a machine of older rules that asks for it",
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
    { name: "are none where none is asked for", devices: {}, want: [] },
    {
      name: "are a tablet on USB where one is to be there anyway",
      devices: { autoattachInputDevice: true },
      want: [{ alias: "ua-input-0", type: "tablet", bus: "usb", port: 1 }],
    },
    {
      name: "are those of the list",
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

test("randomness and a watchdog have a place each", () => {
  const { rng, watchdog } = devicesOf({ rng: {}, watchdog: { name: "w", i6300esb: {} } });
  expect(rng).toEqual({ pciAddress: { bus: 2, slot: 0, function: 0 } });
  expect(watchdog).toEqual({
    alias: "ua-watchdog",
    action: "reset",
    pciAddress: { bus: 0, slot: 30, function: 0 },
  });
});

test("a watchdog does what it is told", () => {
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

test("a guest may go without a serial console", () => {
  expect(devicesOf({ autoattachSerialConsole: false })).not.toHaveProperty("console");
  expect(devicesOf({})).toHaveProperty("console");
});
