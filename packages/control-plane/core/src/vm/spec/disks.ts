// SPDX-License-Identifier: Apache-2.0
import { withCurrentFieldNames, type Volume, type Disk, type VmiSpec } from "@patchbay/api";
import type { DownwardFile } from "@patchbay/api/kubernetes";
import { parseQuantity } from "@patchbay/api/values";
import { findOneOf } from "./guest-devices.ts";
import { findByName } from "../../nics/nics.ts";

export type TextSource =
  | { readonly kind: "inline"; readonly text: string }
  | { readonly kind: "base64"; readonly text: string }
  | { readonly kind: "secret"; readonly name: string };

export interface CloudInitData {
  readonly userData: TextSource | undefined;
  readonly networkData: TextSource | undefined;
}

interface SmallDisk {
  readonly label: string | undefined;
}

export type DiskSource =
  | {
      readonly kind: "containerDisk";
      readonly image: string;
      /** Path in the image. Undefined: the first file below `/disk`. */
      readonly path: string | undefined;
      readonly pullPolicy: string | undefined;
      readonly pullSecret: string | undefined;
    }
  | {
      readonly kind: "persistentVolumeClaim";
      readonly claimName: string;
      readonly readOnly: boolean;
    }
  | { readonly kind: "dataVolume"; readonly claimName: string; readonly readOnly: boolean }
  | { readonly kind: "ephemeral"; readonly claimName: string; readonly readOnly: boolean }
  | { readonly kind: "emptyDisk"; readonly bytes: number }
  | {
      readonly kind: "hostDisk";
      readonly path: string;
      /** Whether the file is created if it is missing. */
      readonly isCreated: boolean;
      readonly bytes: number | undefined;
      readonly shared: boolean;
    }
  | ({ readonly kind: "cloudInitNoCloud" } & CloudInitData)
  | ({ readonly kind: "cloudInitConfigDrive" } & CloudInitData)
  | ({ readonly kind: "configMap"; readonly name: string; readonly optional: boolean } & SmallDisk)
  | ({ readonly kind: "secret"; readonly name: string; readonly optional: boolean } & SmallDisk)
  | ({ readonly kind: "downwardAPI"; readonly files: readonly DownwardFile[] } & SmallDisk);

export type DiskSourceKind = DiskSource["kind"];

function nonEmpty(text: string | undefined): string | undefined {
  return text === "" ? undefined : text;
}

type CloudInitVolume = NonNullable<Volume["cloudInitNoCloud"]>;

function toTextSource(
  text: string | undefined,
  base64: string | undefined,
  secret: { readonly name?: string } | undefined,
): TextSource | undefined {
  const name = nonEmpty(secret?.name);
  if (name !== undefined) return { kind: "secret", name };
  if (nonEmpty(base64) !== undefined) return { kind: "base64", text: base64 ?? "" };
  return nonEmpty(text) === undefined ? undefined : { kind: "inline", text: text ?? "" };
}

/** Reads cloud-init data. If data has several forms, which admission refuses, prefers the Secret, then base64. */
function readCloudInit(volume: CloudInitVolume): CloudInitData {
  return {
    userData: toTextSource(volume.userData, volume.userDataBase64, volume.secretRef),
    networkData: toTextSource(
      volume.networkData,
      volume.networkDataBase64,
      volume.networkDataSecretRef,
    ),
  };
}

const READERS: {
  readonly [K in DiskSourceKind]: (
    member: NonNullable<Volume[K]>,
  ) => Extract<DiskSource, { readonly kind: K }> | undefined;
} = {
  containerDisk: ({ image, path, imagePullPolicy, imagePullSecret }) => ({
    kind: "containerDisk",
    image,
    path: nonEmpty(path),
    pullPolicy: nonEmpty(imagePullPolicy),
    pullSecret: nonEmpty(imagePullSecret),
  }),
  persistentVolumeClaim: ({ claimName, readOnly }) => ({
    kind: "persistentVolumeClaim",
    claimName,
    readOnly: readOnly === true,
  }),
  dataVolume: ({ name }) => ({ kind: "dataVolume", claimName: name, readOnly: false }),
  ephemeral: ({ persistentVolumeClaim: claim }) =>
    claim === undefined
      ? undefined
      : { kind: "ephemeral", claimName: claim.claimName, readOnly: claim.readOnly === true },
  // An unreadable capacity becomes 0, and the VM is not started.
  emptyDisk: ({ capacity }) => ({ kind: "emptyDisk", bytes: parseQuantity(capacity) ?? 0 }),
  hostDisk: ({ path, type, capacity, shared }) => ({
    kind: "hostDisk",
    path,
    isCreated: type === "DiskOrCreate",
    bytes: capacity === undefined ? undefined : parseQuantity(capacity),
    shared: shared === true,
  }),
  cloudInitNoCloud: (member) => ({ kind: "cloudInitNoCloud", ...readCloudInit(member) }),
  cloudInitConfigDrive: (member) => ({ kind: "cloudInitConfigDrive", ...readCloudInit(member) }),
  configMap: ({ name = "", optional, volumeLabel }) => ({
    kind: "configMap",
    name,
    optional: optional === true,
    label: nonEmpty(volumeLabel),
  }),
  secret: ({ secretName = "", optional, volumeLabel }) => ({
    kind: "secret",
    name: secretName,
    optional: optional === true,
    label: nonEmpty(volumeLabel),
  }),
  downwardAPI: ({ fields = [], volumeLabel }) => ({
    kind: "downwardAPI",
    files: fields,
    label: nonEmpty(volumeLabel),
  }),
};

const KINDS = Object.keys(READERS) as readonly DiskSourceKind[];

function readAs(kind: DiskSourceKind, volume: Volume): DiskSource | undefined {
  // The compiler cannot see that a reader and its member share one key.
  const read = READERS[kind] as (member: unknown) => DiskSource | undefined;
  const member = volume[kind];
  return member === undefined ? undefined : read(member);
}

function readSource(volume: Volume): DiskSource | undefined {
  for (const kind of KINDS) {
    const source = readAs(kind, volume);
    if (source !== undefined) return source;
  }
  return undefined;
}

export function findClaimName(source: DiskSource): string | undefined {
  return "claimName" in source ? source.claimName : undefined;
}

const BUSES = ["virtio", "sata", "scsi"] as const;
type DiskBus = (typeof BUSES)[number];
const CACHES = ["none", "writethrough", "writeback", "directsync"] as const;
/** Host page cache mode. Source: KubeVirt DriverCache. */
type DiskCache = (typeof CACHES)[number];
const IO_MODES = ["native", "threads", "default"] as const;
/** I/O engine of QEMU. Source: KubeVirt DriverIO. */
type DiskIo = (typeof IO_MODES)[number];
const ERROR_POLICIES = ["stop", "ignore", "report", "enospace"] as const;
/** What happens to the guest when its disk fails. Source: KubeVirt DiskErrorPolicy. */
type DiskErrorPolicy = (typeof ERROR_POLICIES)[number];

/** Default bus, for which most guests have a driver. Source: KubeVirt defaults of amd64. */
const DEFAULT_BUS: DiskBus = "sata";
/** Default cache mode, which bypasses the host's page cache. Source: KubeVirt, if the file system supports it. */
const DEFAULT_CACHE: DiskCache = "none";
/** Default reaction to a disk error. Source: KubeVirt. */
const DEFAULT_ERROR_POLICY: DiskErrorPolicy = "stop";

/** Block sizes in bytes. Unset: 512 or the device's own size. */
interface DiskBlockSize {
  readonly logical: number | undefined;
  readonly physical: number | undefined;
  readonly discardGranularity: number | undefined;
}

export interface GuestDisk {
  readonly name: string;
  /** Index in the list of disks, which is followed by disks for volumes without one. */
  readonly index: number;
  readonly volumeIndex: number;
  readonly source: DiskSource;
  readonly device: "disk" | "cdrom" | "lun";
  readonly bus: DiskBus;
  readonly readOnly: boolean;
  /** Boot order among disks and NICs, 1 or more. */
  readonly bootOrder: number | undefined;
  readonly serial: string | undefined;
  readonly cache: DiskCache;
  /** I/O engine. Undefined: native on a block device without a cache, threads otherwise. */
  readonly io: DiskIo | undefined;
  /** Whether blocks that the guest discards are freed on the host. They are not for small disks. */
  readonly discard: boolean;
  readonly blockSize: DiskBlockSize | undefined;
  readonly errorPolicy: DiskErrorPolicy;
  readonly tray: "open" | "closed";
  readonly hasOwnIoThread: boolean;
  readonly shareable: boolean;
  /** Requested address, for example 0000:02:00.0. Undefined: assigned automatically. */
  readonly pciAddress: string | undefined;
}

/** Sources whose disks are built from a few small files at each start. */
const SMALL_SOURCES: ReadonlySet<DiskSource["kind"]> = new Set([
  "cloudInitNoCloud",
  "cloudInitConfigDrive",
  "configMap",
  "secret",
  "downwardAPI",
]);

/** Whether the disk is an ISO 9660 image of a few small files. */
export function isSmallDisk({ source }: GuestDisk): boolean {
  return SMALL_SOURCES.has(source.kind);
}

/** Whether QEMU bypasses the host's page cache. Source: QEMU cache modes, cache.direct. */
export function isDirect({ cache }: Pick<GuestDisk, "cache">): boolean {
  return cache === "none" || cache === "directsync";
}

interface Device {
  readonly device: GuestDisk["device"];
  readonly bus: DiskBus;
  readonly readOnly: boolean;
  readonly tray: GuestDisk["tray"];
  readonly pciAddress: string | undefined;
}

/** Reads the disk's device, which is a hard disk by default. Source: KubeVirt SetDefaults_DiskDevice. */
function readDevice({ disk, cdrom, lun }: Disk): Device {
  const plain = { tray: "closed", pciAddress: undefined } as const;
  const findBus = (bus: string | undefined): DiskBus => findOneOf(BUSES, bus) ?? DEFAULT_BUS;
  if (cdrom !== undefined) {
    const tray = cdrom.tray === "open" ? "open" : "closed";
    const readOnly = cdrom.readonly !== false;
    return { ...plain, device: "cdrom", bus: findBus(cdrom.bus), readOnly, tray };
  }
  if (lun !== undefined) {
    return { ...plain, device: "lun", bus: findBus(lun.bus), readOnly: lun.readonly === true };
  }
  const pciAddress = nonEmpty(disk?.pciAddress);
  const readOnly = disk?.readonly === true;
  return { ...plain, device: "disk", bus: findBus(disk?.bus), readOnly, pciAddress };
}

function readBlockSize({ blockSize }: Disk): DiskBlockSize | undefined {
  const custom = blockSize?.custom;
  if (custom === undefined) return undefined;
  const { logical, physical, discardGranularity } = custom;
  return { logical, physical, discardGranularity };
}

function isReadOnlySource(source: DiskSource): boolean {
  // The guest writes to an overlay, so a read-only claim does not matter.
  return source.kind !== "ephemeral" && "readOnly" in source && source.readOnly;
}

function toGuestDisks(disk: Disk, index: number, volumes: readonly Volume[]): readonly GuestDisk[] {
  const volume = findByName(volumes, disk.name);
  const source = volume === undefined ? undefined : readSource(volume);
  if (volume === undefined || source === undefined) return [];
  const device = readDevice(disk);
  return [
    {
      ...device,
      name: disk.name,
      index,
      volumeIndex: volumes.indexOf(volume),
      source,
      readOnly: device.readOnly || isReadOnlySource(source),
      bootOrder: disk.bootOrder,
      serial: nonEmpty(disk.serial),
      cache: findOneOf(CACHES, disk.cache) ?? DEFAULT_CACHE,
      io: findOneOf(IO_MODES, disk.io),
      discard: !SMALL_SOURCES.has(source.kind),
      blockSize: readBlockSize(disk),
      errorPolicy: findOneOf(ERROR_POLICIES, disk.errorPolicy) ?? DEFAULT_ERROR_POLICY,
      hasOwnIoThread: disk.dedicatedIOThread === true,
      shareable: disk.shareable === true || (source.kind === "hostDisk" && source.shared),
    },
  ];
}

/** Adds a disk for each volume that no disk names. Source: KubeVirt SetDefaultVolumeDisk. */
export function withDisksOfVolumes(
  disks: readonly Disk[],
  volumes: readonly Volume[],
): readonly Disk[] {
  const named = new Set(disks.map(({ name }) => name));
  return [
    ...disks,
    ...volumes.filter(({ name }) => !named.has(name)).map(({ name }) => ({ name })),
  ];
}

/** Lists the disks in spec order. Unknown values become the default, and disks without a volume are omitted, but such a VM is not started. */
export function listDisks(spec: VmiSpec): readonly GuestDisk[] {
  const { domain, volumes = [] } = withCurrentFieldNames(spec);
  return withDisksOfVolumes(domain.devices?.disks ?? [], volumes).flatMap((disk, index) =>
    toGuestDisks(disk, index, volumes),
  );
}
