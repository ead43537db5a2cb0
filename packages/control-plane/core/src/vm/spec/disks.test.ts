// SPDX-License-Identifier: Apache-2.0
// Which disks does a specification ask for, with which defaults, and where is their data?
import { expect, test } from "vitest";
import type { Disk, VirtualMachineInstance, Volume } from "@patchbay/api";
import { findClaimName, listDisks, isSmallDisk, type DiskSource, type GuestDisk } from "./disks.ts";
import { buildDiskFile, findVolumeMode, type DiskFile, type VolumeMode } from "./disk-files.ts";

const CLAIM: Volume = { name: "a", persistentVolumeClaim: { claimName: "c" } };

function read(disks: Disk[] | undefined, volumes: Volume[] | undefined): readonly GuestDisk[] {
  return listDisks({
    domain: { devices: disks === undefined ? {} : { disks } },
    ...(volumes === undefined ? {} : { volumes }),
  });
}

function theDisk(disk: Omit<Disk, "name">, volume: Volume = CLAIM): GuestDisk {
  const [only] = read([{ ...disk, name: "a" }], [volume]);
  if (only === undefined) throw new Error("no disk");
  return only;
}

const DEFAULTS: GuestDisk = {
  name: "a",
  index: 0,
  volumeIndex: 0,
  source: { kind: "persistentVolumeClaim", claimName: "c", readOnly: false },
  device: "disk",
  bus: "sata",
  readOnly: false,
  bootOrder: undefined,
  serial: undefined,
  cache: "none",
  io: undefined,
  discard: true,
  blockSize: undefined,
  errorPolicy: "stop",
  tray: "closed",
  hasOwnIoThread: false,
  shareable: false,
  pciAddress: undefined,
};

test.each<{ title: string; disk: Omit<Disk, "name">; changed: Partial<GuestDisk> }>([
  { title: "nothing", disk: {}, changed: {} },
  { title: "a kind", disk: { disk: {} }, changed: {} },
  {
    title: "empty values",
    disk: { disk: { bus: "" }, serial: "", cache: "", io: "" },
    changed: {},
  },
  { title: "other values", disk: { disk: { bus: "ide" }, cache: "x", io: "y" }, changed: {} },
  { title: "a bus", disk: { disk: { bus: "virtio" } }, changed: { bus: "virtio" } },
  { title: "read-only", disk: { disk: { readonly: true } }, changed: { readOnly: true } },
  {
    title: "a PCI address",
    disk: { disk: { pciAddress: "0000:02:00.0" } },
    changed: { pciAddress: "0000:02:00.0" },
  },
  { title: "a CD-ROM", disk: { cdrom: {} }, changed: { device: "cdrom", readOnly: true } },
  {
    title: "a writable CD-ROM with an open tray",
    disk: { cdrom: { bus: "scsi", readonly: false, tray: "open" } },
    changed: { device: "cdrom", bus: "scsi", tray: "open" },
  },
  { title: "a LUN", disk: { lun: { bus: "scsi" } }, changed: { device: "lun", bus: "scsi" } },
  {
    title: "all fields",
    disk: {
      bootOrder: 2,
      serial: "S1",
      cache: "writeback",
      io: "threads",
      errorPolicy: "report",
      dedicatedIOThread: true,
      shareable: true,
      blockSize: { custom: { logical: 4096, physical: 4096 } },
    },
    changed: {
      bootOrder: 2,
      serial: "S1",
      cache: "writeback",
      io: "threads",
      errorPolicy: "report",
      hasOwnIoThread: true,
      shareable: true,
      blockSize: { logical: 4096, physical: 4096, discardGranularity: undefined },
    },
  },
])("a disk with $title has KubeVirt's defaults for the rest", ({ disk, changed }) => {
  expect(theDisk(disk)).toEqual({ ...DEFAULTS, ...changed });
});

test("adds a disk for a volume without one, and omits a disk without a volume", () => {
  const volumes: Volume[] = [
    { name: "data", emptyDisk: { capacity: "1Gi" } },
    CLAIM,
    { name: "account", serviceAccount: { serviceAccountName: "x" } },
  ];
  const disks = read([{ name: "gone" }, { name: "a", bootOrder: 1 }], volumes);
  expect(disks.map(({ name, index, volumeIndex }) => [name, index, volumeIndex])).toEqual([
    ["a", 1, 1],
    ["data", 2, 0],
  ]);
  expect(read(undefined, undefined)).toEqual([]);
});

test("replaces older field names with the current ones", () => {
  const disks = read(
    [{ name: "registrydisk", volumeName: "v", disk: { bus: "virtio" } }],
    [{ name: "v", registryDisk: { image: "i" } }],
  );
  expect(disks).toMatchObject([{ name: "v", bus: "virtio", source: { kind: "containerDisk" } }]);
});

interface SourceCase {
  readonly volume: Omit<Volume, "name">;
  readonly source: DiskSource;
  readonly files: Readonly<Partial<Record<VolumeMode, DiskFile>>>;
}

const OVERLAY: DiskFile = { kind: "file", path: "/run/disks/a.qcow2", format: "qcow2" };
const ISO: DiskFile = { kind: "file", path: "/run/disks/a.iso", format: "raw" };
const IN_CLAIM: DiskFile = { kind: "file", path: "/run/volumes/a/disk.img", format: "raw" };
const ON_HOST: DiskFile = { kind: "file", path: "/run/volumes/a/d.img", format: "raw" };
const DEVICE: DiskFile = { kind: "block", path: "/dev/volumes/a", format: "raw" };
const NO_DATA = { userData: undefined, networkData: undefined };

test.each<SourceCase>([
  {
    volume: { containerDisk: { image: "i" } },
    source: {
      kind: "containerDisk",
      image: "i",
      path: undefined,
      pullPolicy: undefined,
      pullSecret: undefined,
    },
    files: { Filesystem: OVERLAY, Block: OVERLAY },
  },
  {
    volume: {
      containerDisk: {
        image: "i",
        path: "/d.img",
        imagePullPolicy: "Never",
        imagePullSecret: "s",
      },
    },
    source: {
      kind: "containerDisk",
      image: "i",
      path: "/d.img",
      pullPolicy: "Never",
      pullSecret: "s",
    },
    files: { Filesystem: OVERLAY },
  },
  {
    volume: { persistentVolumeClaim: { claimName: "c", readOnly: true } },
    source: { kind: "persistentVolumeClaim", claimName: "c", readOnly: true },
    files: { Filesystem: IN_CLAIM, Block: DEVICE },
  },
  {
    volume: { dataVolume: { name: "d" } },
    source: { kind: "dataVolume", claimName: "d", readOnly: false },
    files: { Filesystem: IN_CLAIM, Block: DEVICE },
  },
  {
    volume: { ephemeral: { persistentVolumeClaim: { claimName: "c", readOnly: true } } },
    source: { kind: "ephemeral", claimName: "c", readOnly: true },
    files: { Filesystem: OVERLAY, Block: OVERLAY },
  },
  {
    volume: { emptyDisk: { capacity: "1Gi" } },
    source: { kind: "emptyDisk", bytes: 2 ** 30 },
    files: { Filesystem: OVERLAY },
  },
  {
    volume: { hostDisk: { path: "/data/d.img", type: "Disk" } },
    source: {
      kind: "hostDisk",
      path: "/data/d.img",
      isCreated: false,
      bytes: undefined,
      shared: false,
    },
    files: { Filesystem: ON_HOST },
  },
  {
    volume: {
      hostDisk: { path: "/data/d.img", type: "DiskOrCreate", capacity: "1Mi", shared: true },
    },
    source: {
      kind: "hostDisk",
      path: "/data/d.img",
      isCreated: true,
      bytes: 2 ** 20,
      shared: true,
    },
    files: { Filesystem: ON_HOST },
  },
  {
    volume: { cloudInitNoCloud: { userData: "#cloud-config", networkDataBase64: "bjo=" } },
    source: {
      kind: "cloudInitNoCloud",
      userData: { kind: "inline", text: "#cloud-config" },
      networkData: { kind: "base64", text: "bjo=" },
    },
    files: { Filesystem: ISO, Block: ISO },
  },
  {
    volume: {
      cloudInitConfigDrive: { secretRef: { name: "s" }, networkDataSecretRef: { name: "n" } },
    },
    source: {
      kind: "cloudInitConfigDrive",
      userData: { kind: "secret", name: "s" },
      networkData: { kind: "secret", name: "n" },
    },
    files: { Filesystem: ISO },
  },
  {
    volume: { cloudInitNoCloud: { userData: "", secretRef: {} } },
    source: { kind: "cloudInitNoCloud", ...NO_DATA },
    files: { Filesystem: ISO },
  },
  {
    volume: { configMap: { name: "m", optional: true, volumeLabel: "cfg" } },
    source: { kind: "configMap", name: "m", optional: true, label: "cfg" },
    files: { Filesystem: ISO },
  },
  {
    volume: { secret: { secretName: "s" } },
    source: { kind: "secret", name: "s", optional: false, label: undefined },
    files: { Filesystem: ISO },
  },
  {
    volume: { downwardAPI: { fields: [{ path: "p", fieldRef: { fieldPath: "metadata.name" } }] } },
    source: {
      kind: "downwardAPI",
      files: [{ path: "p", fieldRef: { fieldPath: "metadata.name" } }],
      label: undefined,
    },
    files: { Filesystem: ISO },
  },
])("finds the source and the files of $volume", ({ volume, source, files }) => {
  const disk = theDisk({}, { ...volume, name: "a" });
  expect(disk.source).toEqual(source);
  expect(disk.discard).toBe(!isSmallDisk(disk));
  const modes = Object.keys(files) as readonly VolumeMode[];
  expect(Object.fromEntries(modes.map((mode) => [mode, buildDiskFile(disk, mode)]))).toEqual(files);
});

test("a claim that is mounted read-only is read-only for the guest, but its overlay is not", () => {
  const claim = { claimName: "c", readOnly: true };
  expect(theDisk({}, { name: "a", persistentVolumeClaim: claim }).readOnly).toBe(true);
  expect(theDisk({}, { name: "a", ephemeral: { persistentVolumeClaim: claim } }).readOnly).toBe(
    false,
  );
});

test("a volume without a source, or an ephemeral one without a claim, is not a disk", () => {
  expect(read([{ name: "a" }], [{ name: "a" }])).toEqual([]);
  expect(read([{ name: "a" }], [{ name: "a", ephemeral: {} }])).toEqual([]);
});

test("finds the claim's name of sources that have a claim", () => {
  expect(findClaimName(theDisk({}).source)).toBe("c");
  expect(
    findClaimName(theDisk({}, { name: "a", emptyDisk: { capacity: 1 } }).source),
  ).toBeUndefined();
});

test("treats a claim as a file system unless virt-controller reported a block volume", () => {
  const vmi = (volumeMode?: string): VirtualMachineInstance => ({
    apiVersion: "kubevirt.io/v1",
    kind: "VirtualMachineInstance",
    metadata: { name: "vm" },
    spec: { domain: {} },
    status: {
      volumeStatus: [
        {
          name: "a",
          target: "",
          ...(volumeMode === undefined ? {} : { persistentVolumeClaimInfo: { volumeMode } }),
        },
      ],
    },
  });
  expect(findVolumeMode(vmi("Block"), "a")).toBe("Block");
  expect(findVolumeMode(vmi("Filesystem"), "a")).toBe("Filesystem");
  expect(findVolumeMode(vmi("Block"), "b")).toBe("Filesystem");
  expect(findVolumeMode(vmi(), "a")).toBe("Filesystem");
});
