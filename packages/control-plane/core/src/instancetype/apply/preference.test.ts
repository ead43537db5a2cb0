// SPDX-License-Identifier: Apache-2.0
// What a preference makes of a template. Source of the rows: KubeVirt pkg/instancetype/preference/apply.
import type { PreferenceSpec, VmiSpec } from "@patchbay/api";
import { describe, expect, test } from "vitest";
import { withPreference } from "./preference.ts";

type Devices = NonNullable<VmiSpec["domain"]["devices"]>;
type Likes = NonNullable<PreferenceSpec["devices"]>;

function domainOf(domain: VmiSpec["domain"], likes: PreferenceSpec): VmiSpec["domain"] {
  return withPreference({ spec: { domain } }, likes).spec.domain;
}

function devicesOf(devices: Devices, likes: Likes, more: Partial<VmiSpec> = {}): Devices {
  const { domain } = withPreference(
    { spec: { ...more, domain: { devices } } },
    { devices: likes },
  ).spec;
  return domain.devices ?? {};
}

describe("devices", () => {
  test("use the preference if the template does not set them", () => {
    const likes: Likes = {
      preferredAutoattachGraphicsDevice: false,
      preferredAutoattachInputDevice: true,
      preferredAutoattachMemBalloon: false,
      preferredAutoattachPodInterface: false,
      preferredAutoattachSerialConsole: false,
      preferredBlockMultiQueue: true,
      preferredNetworkInterfaceMultiQueue: true,
      preferredRng: {},
      preferredTPM: { persistent: true },
      preferredUseVirtioTransitional: true,
      preferredVideoType: "virtio",
    };
    const wanted = {
      autoattachGraphicsDevice: false,
      autoattachInputDevice: true,
      autoattachMemBalloon: false,
      autoattachPodInterface: false,
      autoattachSerialConsole: false,
      blockMultiQueue: true,
      networkInterfaceMultiqueue: true,
      rng: {},
      tpm: { persistent: true },
      useVirtioTransitional: true,
      video: { type: "virtio" },
    };
    expect(devicesOf({}, likes)).toEqual(wanted);
    const own: Devices = {
      autoattachGraphicsDevice: true,
      autoattachInputDevice: false,
      autoattachMemBalloon: true,
      autoattachPodInterface: true,
      autoattachSerialConsole: true,
      blockMultiQueue: false,
      networkInterfaceMultiqueue: false,
      rng: {},
      tpm: { enabled: false },
      useVirtioTransitional: false,
      video: { type: "vga" },
    };
    expect(devicesOf(own, likes)).toEqual(own);
  });

  test("takes hot-plug support only from the preference, as KubeVirt does", () => {
    const likes = { preferredDisableHotplug: true };
    expect(devicesOf({ disableHotplug: false }, likes).disableHotplug).toBe(true);
  });

  test.each<{ name: string; devices: Devices; likes: Likes; want: Devices }>([
    {
      name: "inputs",
      devices: {
        inputs: [
          { name: "a", type: "" },
          { name: "b", type: "tablet", bus: "usb" },
        ],
      },
      likes: { preferredInputBus: "virtio", preferredInputType: "tablet" },
      want: {
        inputs: [
          { name: "a", type: "tablet", bus: "virtio" },
          { name: "b", type: "tablet", bus: "usb" },
        ],
      },
    },
    {
      name: "an existing sound device",
      devices: { sound: { name: "s" } },
      likes: { preferredSoundModel: "ac97" },
      want: { sound: { name: "s", model: "ac97" } },
    },
    {
      name: "no sound device",
      devices: {},
      likes: { preferredSoundModel: "ac97" },
      want: {},
    },
    {
      name: "a missing panic device",
      devices: {},
      likes: { preferredPanicDeviceModel: "pvpanic" },
      want: { panicDevices: [{ model: "pvpanic" }] },
    },
    {
      name: "a panic device without a model",
      devices: { panicDevices: [{}, { model: "isa" }] },
      likes: { preferredPanicDeviceModel: "pvpanic" },
      want: { panicDevices: [{ model: "pvpanic" }, { model: "isa" }] },
    },
  ])("$name", ({ devices, likes, want }) => {
    expect(devicesOf(devices, likes)).toEqual(want);
  });
});

describe("disks", () => {
  const LIKES: Likes = {
    preferredDiskBus: "virtio",
    preferredCdromBus: "scsi",
    preferredLunBus: "scsi",
    preferredDiskCache: "writeback",
    preferredDiskIO: "threads",
    preferredDiskBlockSize: { custom: { logical: 4096, physical: 4096 } },
    preferredDiskDedicatedIoThread: true,
  };
  const LIKED = {
    cache: "writeback",
    io: "threads",
    blockSize: { custom: { logical: 4096, physical: 4096 } },
  };
  type Disks = NonNullable<Devices["disks"]>;

  test.each<{ name: string; disks: Disks; want: unknown }>([
    {
      name: "a disk without settings",
      disks: [{ name: "a" }],
      want: [{ name: "a", disk: { bus: "virtio" }, ...LIKED, dedicatedIOThread: true }],
    },
    {
      name: "a hard disk on a different bus gets no dedicated I/O thread",
      disks: [{ name: "a", disk: { bus: "sata" } }],
      want: [{ name: "a", disk: { bus: "sata" }, ...LIKED }],
    },
    {
      name: "a disk with all settings",
      disks: [
        {
          name: "a",
          disk: { bus: "virtio" },
          cache: "none",
          io: "native",
          blockSize: {},
          dedicatedIOThread: false,
        },
      ],
      want: [
        {
          name: "a",
          disk: { bus: "virtio" },
          cache: "none",
          io: "native",
          blockSize: {},
          dedicatedIOThread: false,
        },
      ],
    },
    {
      name: "a CD-ROM and a LUN get only their bus",
      disks: [
        { name: "a", cdrom: {} },
        { name: "b", lun: { bus: "" } },
        { name: "c", cdrom: { bus: "sata" } },
      ],
      want: [
        { name: "a", cdrom: { bus: "scsi" } },
        { name: "b", lun: { bus: "scsi" } },
        { name: "c", cdrom: { bus: "sata" } },
      ],
    },
    {
      name: "a floppy is unchanged",
      disks: [{ name: "a", floppy: {} }],
      want: [{ name: "a", floppy: {} }],
    },
  ])("$name", ({ disks, want }) => {
    expect(devicesOf({ disks }, LIKES).disks).toEqual(want);
  });

  test("of volumes without a disk entry also follow the preference", () => {
    const volumes = [{ name: "root", containerDisk: { image: "debian" } }];
    expect(devicesOf({}, { preferredDiskBus: "virtio" }, { volumes }).disks).toEqual([
      { name: "root", disk: { bus: "virtio" } },
    ]);
  });
});

describe("NICs", () => {
  const networks = [
    { name: "default", pod: {} },
    { name: "blue", multus: { networkName: "blue" } },
  ];
  const LIKES: Likes = { preferredInterfaceModel: "e1000e", preferredInterfaceMasquerade: {} };

  test("have the preferred model, and use masquerade on the pod network if they set no binding", () => {
    const interfaces = [{ name: "default" }, { name: "blue" }];
    expect(devicesOf({ interfaces }, LIKES, { networks }).interfaces).toEqual([
      { name: "default", model: "e1000e", masquerade: {} },
      { name: "blue", model: "e1000e" },
    ]);
  });

  test("use explicit values", () => {
    const interfaces = [
      { name: "default", model: "virtio", bridge: {} },
      { name: "blue", model: "rtl8139", bridge: {} },
    ];
    expect(devicesOf({ interfaces }, LIKES, { networks }).interfaces).toEqual(interfaces);
  });

  test("stay empty", () => {
    expect(devicesOf({}, LIKES)).toEqual({});
  });
});

describe("the machine", () => {
  type Domain = VmiSpec["domain"];
  const secure = { secureBoot: false };

  test.each<{ name: string; given: Domain; likes: PreferenceSpec; want: Domain }>([
    {
      name: "its machine type",
      given: { machine: { type: "" } },
      likes: { machine: { preferredMachineType: "pc" } },
      want: { machine: { type: "pc" } },
    },
    {
      name: "its machine type, set explicitly",
      given: { machine: { type: "q35" } },
      likes: { machine: { preferredMachineType: "pc" } },
      want: { machine: { type: "q35" } },
    },
    {
      name: "its CPU features",
      given: { cpu: { features: [{ name: "apic", policy: "disable" }] } },
      likes: { cpu: { preferredCPUFeatures: [{ name: "apic" }, { name: "avx" }] } },
      want: { cpu: { features: [{ name: "apic", policy: "disable" }, { name: "avx" }] } },
    },
    {
      name: "EFI",
      given: {},
      likes: { firmware: { preferredEfi: secure } },
      want: { firmware: { bootloader: { efi: secure } } },
    },
    {
      name: "EFI in the old field",
      given: {},
      likes: { firmware: { preferredUseEfi: true, preferredUseSecureBoot: false } },
      want: { firmware: { bootloader: { efi: secure } } },
    },
    {
      name: "the VM's own EFI, with secure boot in the old field",
      given: { firmware: { bootloader: { efi: { persistent: true } } } },
      likes: { firmware: { preferredUseSecureBoot: false } },
      want: { firmware: { bootloader: { efi: { persistent: true, secureBoot: false } } } },
    },
    {
      name: "the VM's own BIOS",
      given: { firmware: { bootloader: { bios: {} } } },
      likes: { firmware: { preferredEfi: secure, preferredUseBiosSerial: true } },
      want: { firmware: { bootloader: { bios: { useSerial: true } } } },
    },
    {
      name: "BIOS before EFI",
      given: { firmware: { serial: "1" } },
      likes: { firmware: { preferredUseBios: true, preferredEfi: secure } },
      want: { firmware: { serial: "1", bootloader: { bios: {} } } },
    },
    {
      name: "firmware without a preference",
      given: {},
      likes: { firmware: { preferredUseBios: false } },
      want: {},
    },
    {
      name: "its clock",
      given: {},
      likes: {
        clock: { preferredClockOffset: { utc: {} }, preferredTimer: { hpet: { present: false } } },
      },
      want: { clock: { utc: {}, timer: { hpet: { present: false } } } },
    },
    {
      name: "the VM's own clock, which is not merged",
      given: { clock: { timezone: "Europe/Berlin", timer: {} } },
      likes: {
        clock: { preferredClockOffset: { utc: {} }, preferredTimer: { hpet: { present: false } } },
      },
      want: { clock: { timezone: "Europe/Berlin", timer: {} } },
    },
    {
      name: "its features, with ACPI from the VM",
      given: { features: { acpi: { enabled: false }, apic: { enabled: false } } },
      likes: { features: { preferredAcpi: {}, preferredApic: {}, preferredSmm: {} } },
      want: { features: { acpi: {}, apic: { enabled: false }, smm: {} } },
    },
    {
      name: "Hyper-V features merged one by one",
      given: { features: { hyperv: { relaxed: { enabled: false } } } },
      likes: { features: { preferredHyperv: { relaxed: {}, vapic: {} } } },
      want: { features: { hyperv: { relaxed: { enabled: false }, vapic: {} } } },
    },
    {
      name: "all Hyper-V features",
      given: { features: { hypervPassthrough: { enabled: true } } },
      likes: { features: { preferredHyperv: { vapic: {} } } },
      want: { features: { hypervPassthrough: { enabled: true } } },
    },
  ])("$name", ({ given: input, likes, want }) => {
    expect(domainOf(input, likes)).toEqual(want);
  });
});

test("template settings outside the domain take precedence", () => {
  const likes: PreferenceSpec = {
    annotations: { a: "liked", b: "liked" },
    preferredSubdomain: "liked",
    preferredTerminationGracePeriodSeconds: 5,
    preferredArchitecture: "arm64",
  };
  const open = withPreference({ spec: { domain: {} } }, likes);
  expect(open).toEqual({
    metadata: { annotations: { a: "liked", b: "liked" } },
    spec: {
      domain: {},
      subdomain: "liked",
      terminationGracePeriodSeconds: 5,
      architecture: "arm64",
    },
  });
  const own = {
    domain: {},
    subdomain: "own",
    terminationGracePeriodSeconds: 0,
    architecture: "amd64",
  };
  const message = withPreference({ metadata: { annotations: { a: "own" } }, spec: own }, likes);
  expect(message).toEqual({ metadata: { annotations: { a: "own", b: "liked" } }, spec: own });
});
