// SPDX-License-Identifier: Apache-2.0
// Which disks, controllers and threads does a guest get, and from which disk does it boot?
import {
  type Disk,
  type Iface,
  type VirtualMachineInstance,
  type VmiSpec,
  networkConfigOf,
} from "@patchbay/api";
import type { DiskDefinition, Topology } from "@patchbay/domain";
import { aVmi } from "@patchbay/support";
import { describe, expect, test } from "vitest";
import { planVmiTopology } from "../../nics/pcie/topology.ts";
import { planBootOrder, buildControllers, buildDisks, planIoThreads } from "./disks.ts";

type Domain = VmiSpec["domain"];

interface Options {
  readonly machine?: string;
  readonly policy?: string;
  readonly cores?: number;
  readonly interfaces?: Iface[];
  readonly hasKernel?: true;
  readonly status?: VirtualMachineInstance["status"];
}

/** Each disk has the volume of its name: an empty disk, or what is given. */
function specOf(disks: readonly Disk[], more: Options = {}): VmiSpec {
  const { machine = "q35", policy, cores = 1, interfaces = [], hasKernel } = more;
  const domain: Domain = {
    machine: { type: machine },
    cpu: { cores },
    devices: { disks: [...disks], interfaces },
    ...(policy === undefined ? {} : { ioThreadsPolicy: policy }),
    ...(hasKernel === true ? { firmware: { kernelBoot: { container: { image: "k" } } } } : {}),
  };
  return { domain, volumes: disks.map(({ name }) => ({ name, emptyDisk: { capacity: "1Gi" } })) };
}

function vmiOf(spec: VmiSpec, status?: VirtualMachineInstance["status"]): VirtualMachineInstance {
  const vmi = { ...aVmi(), spec };
  return status === undefined ? vmi : { ...vmi, status };
}

function topologyOf(vmi: VirtualMachineInstance): Topology {
  const plan = planVmiTopology(vmi, networkConfigOf(undefined));
  if (!plan.ok) throw new Error(plan.problems.map(({ message }) => message).join("; "));
  return plan.topology;
}

function disksOfVmi(vmi: VirtualMachineInstance): readonly DiskDefinition[] {
  return buildDisks(vmi, topologyOf(vmi), planIoThreads(vmi.spec));
}

function on(bus: string, name: string, more: Partial<Disk> = {}): Disk {
  return { name, disk: { bus }, ...more };
}

test("a virtio disk is a separate PCI device, with KubeVirt's defaults", () => {
  expect(disksOfVmi(vmiOf(specOf([on("virtio", "root", { serial: "S1" })])))).toEqual([
    {
      alias: "ua-disk-root",
      source: { kind: "file", path: "/run/disks/root.qcow2", format: "qcow2" },
      device: "disk",
      bus: "virtio",
      target: "vda",
      address: { kind: "pci", address: { bus: 2, slot: 0, function: 0 } },
      readOnly: false,
      serial: "S1",
      cache: "none",
      errorPolicy: "stop",
      discard: "unmap",
      bootOrder: 1001,
    },
  ]);
});

test("disks on controllers have unit numbers per bus, and share names across buses", () => {
  const disks = [on("scsi", "a"), on("virtio", "b"), on("sata", "c"), on("scsi", "d")];
  const observed = disksOfVmi(vmiOf(specOf(disks))).map(({ target, address: place }) => [
    target,
    place,
  ]);
  expect(observed).toEqual([
    ["sda", { kind: "drive", controller: 0, unit: 0 }],
    ["vda", { kind: "pci", address: { bus: 3, slot: 0, function: 0 } }],
    ["sdb", { kind: "drive", controller: 0, unit: 0 }],
    ["sdc", { kind: "drive", controller: 0, unit: 1 }],
  ]);
});

test("uses two letters after sdz", () => {
  const disks = Array.from({ length: 28 }, (_unused, index) => on("scsi", `d${String(index)}`));
  const targets = disksOfVmi(vmiOf(specOf(disks))).map(({ target }) => target);
  expect(targets.slice(24)).toEqual(["sdy", "sdz", "sdaa", "sdab"]);
});

test("makes a CD-ROM read-only with the requested tray state, without discard", () => {
  const [disk] = disksOfVmi(vmiOf(specOf([{ name: "cd", cdrom: { tray: "open" } }])));
  expect(disk).toMatchObject({ device: "cdrom", bus: "sata", readOnly: true, isTrayOpen: true });
  expect(disk).not.toHaveProperty("discard");
});

test("a LUN from the node gets no serial number", () => {
  const [disk] = disksOfVmi(vmiOf(specOf([{ name: "a", lun: { bus: "scsi" }, serial: "S" }])));
  expect(disk).toMatchObject({ device: "lun", discard: "unmap" });
  expect(disk).not.toHaveProperty("serial");
});

describe("a claim", () => {
  const claimed = (volumeMode: string, more: Partial<Disk> = {}) => {
    const spec = specOf([on("virtio", "data", more)]);
    const volumes = [{ name: "data", persistentVolumeClaim: { claimName: "c" } }];
    const persistentVolumeClaimInfo = { volumeMode };
    const volumeStatus = [{ name: "data", target: "", persistentVolumeClaimInfo }];
    return disksOfVmi(vmiOf({ ...spec, volumes }, { volumeStatus }))[0];
  };

  test("of mode Block is a device with native I/O", () => {
    const source = { kind: "block", path: "/dev/volumes/data", format: "raw" };
    expect(claimed("Block")).toMatchObject({ source, io: "native" });
  });

  test.each([
    { mode: "Block", disk: { cache: "writeback" } },
    { mode: "Block", disk: { io: "default" } },
    { mode: "Filesystem", disk: {} },
  ])("of mode $mode with $disk uses QEMU's default I/O mode", ({ mode, disk }) => {
    expect(claimed(mode, disk)).not.toHaveProperty("io");
  });

  test("has the requested I/O mode", () => {
    expect(claimed("Filesystem", { io: "threads" })).toMatchObject({ io: "threads" });
  });
});

test.each(["none", "writethrough", "writeback", "directsync"])(
  "a disk has the cache mode %s",
  (cache) => {
    expect(disksOfVmi(vmiOf(specOf([on("virtio", "a", { cache })])))[0]).toMatchObject({ cache });
  },
);

test("passes on the disk's identity", () => {
  const custom = { logical: 4096, discardGranularity: 65536 };
  const disk = on("virtio", "a", {
    cache: "writethrough",
    errorPolicy: "report",
    shareable: true,
    blockSize: { custom },
  });
  expect(disksOfVmi(vmiOf(specOf([disk])))[0]).toMatchObject({
    cache: "writethrough",
    errorPolicy: "report",
    isShareable: true,
    blockSize: { logical: 4096, physical: 4096, discardGranularity: 65536 },
  });
});

describe("controllers", () => {
  const sata = (count: number): readonly Disk[] =>
    Array.from({ length: count }, (_unused, index) => on("sata", `d${String(index)}`));
  const printed = (disks: readonly Disk[], more: Options = {}) => {
    const vmi = vmiOf(specOf(disks, more));
    const controllers = buildControllers(vmi, topologyOf(vmi), planIoThreads(vmi.spec));
    return controllers.map(({ type, index, ioThread }) => [type, index, ioThread]);
  };

  test.each([
    { name: "none for q35's built-in SATA controller", disks: sata(6), want: [] },
    {
      name: "a second SATA controller for the seventh disk",
      disks: sata(7),
      want: [["sata", 1, undefined]],
    },
    {
      name: "all SATA controllers of a pc machine",
      disks: sata(7),
      more: { machine: "pc" },
      want: [
        ["sata", 0, undefined],
        ["sata", 1, undefined],
      ],
    },
    {
      name: "one for all SCSI disks, with an I/O thread if configured",
      disks: [on("scsi", "a"), on("scsi", "b")],
      more: { policy: "shared" },
      want: [["scsi", 0, 1]],
    },
  ])("include $name", ({ disks, more, want }) => {
    expect(printed(disks, more)).toEqual(want);
  });

  test("the seventh SATA disk is the first of the second controller", () => {
    const places = disksOfVmi(vmiOf(specOf(sata(7)))).map(({ address: place }) => place);
    expect(places.at(-1)).toEqual({ kind: "drive", controller: 1, unit: 0 });
  });
});

describe("boot order", () => {
  const two = [on("virtio", "a"), on("virtio", "b")];
  test.each<{ name: string; disks: readonly Disk[]; more?: Options; want: object }>([
    { name: "is the list's by default", disks: two, want: { a: 1001, b: 1002 } },
    {
      name: "is explicit if set, and other disks are not tried",
      disks: [on("virtio", "a"), on("virtio", "b", { bootOrder: 3 })],
      want: { b: 3 },
    },
    {
      name: "is only that of NICs if only NICs have one",
      disks: two,
      more: { interfaces: [{ name: "n", bootOrder: 1 }] },
      want: {},
    },
    { name: "is unset with a kernel", disks: two, more: { hasKernel: true }, want: {} },
  ])("$name", ({ disks, more, want }) => {
    expect(Object.fromEntries(planBootOrder(specOf(disks, more)))).toEqual(want);
  });
});

describe("I/O threads of disks", () => {
  const own = { dedicatedIOThread: true };
  const three = [on("virtio", "a"), on("virtio", "b"), on("virtio", "c")];
  test.each<{ name: string; disks: readonly Disk[]; more?: Options; count: number; of: object }>([
    { name: "do not exist by default", disks: three, count: 0, of: {} },
    {
      name: "are one for all disks with policy shared",
      disks: three,
      more: { policy: "shared" },
      count: 1,
      of: { a: 1, b: 1, c: 1 },
    },
    {
      name: "are one for each disk, at most twice the vCPUs",
      disks: three,
      more: { policy: "auto" },
      count: 2,
      of: { a: 1, b: 2, c: 1 },
    },
    {
      name: "are one for each disk with more vCPUs",
      disks: three,
      more: { policy: "auto", cores: 2 },
      count: 3,
      of: { a: 1, b: 2, c: 3 },
    },
    {
      name: "are a dedicated thread for a disk that requests one, and a thread for the others",
      disks: [on("virtio", "a", own), on("virtio", "b")],
      count: 2,
      of: { a: 2, b: 1 },
    },
    {
      name: "include a shared thread, however many disks have their own",
      disks: [on("virtio", "a", own), on("virtio", "b", own), on("virtio", "c")],
      more: { policy: "auto" },
      count: 3,
      of: { a: 2, b: 3, c: 1 },
    },
    {
      name: "do not exist for SATA disks",
      disks: [on("sata", "a")],
      more: { policy: "shared" },
      count: 0,
      of: {},
    },
  ])("$name", ({ disks, more, count, of }) => {
    const threads = planIoThreads(specOf(disks, more));
    expect({ count: threads.threadCount, of: Object.fromEntries(threads.ofDisks) }).toEqual({
      count,
      of,
    });
  });
});
