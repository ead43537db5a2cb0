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
      /** Path in the image. If undefined, the first file below `/disk` is used. */
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
      /** Whether `prepare-disks` creates a missing file. */
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

function omitEmptyText(text: string | undefined): string | undefined {
  return text === "" ? undefined : text;
}

type CloudInitVolume = NonNullable<Volume["cloudInitNoCloud"]>;

function toTextSource(
  text: string | undefined,
  base64: string | undefined,
  secret: { readonly name?: string } | undefined,
): TextSource | undefined {
  const name = omitEmptyText(secret?.name);
  if (name !== undefined) return { kind: "secret", name };
  if (omitEmptyText(base64) !== undefined) return { kind: "base64", text: base64 ?? "" };
  return omitEmptyText(text) === undefined ? undefined : { kind: "inline", text: text ?? "" };
}

/** Reads cloud-init data. If a volume has data in several forms, the order of preference is Secret, base64, text. */
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

const SOURCE_READERS: {
  readonly [K in DiskSourceKind]: (
    member: NonNullable<Volume[K]>,
  ) => Extract<DiskSource, { readonly kind: K }> | undefined;
} = {
  containerDisk: ({ image, path, imagePullPolicy, imagePullSecret }) => ({
    kind: "containerDisk",
    image,
    path: omitEmptyText(path),
    pullPolicy: omitEmptyText(imagePullPolicy),
    pullSecret: omitEmptyText(imagePullSecret),
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
  // An invalid capacity becomes 0, and validation prevents the start of the VM.
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
    label: omitEmptyText(volumeLabel),
  }),
  secret: ({ secretName = "", optional, volumeLabel }) => ({
    kind: "secret",
    name: secretName,
    optional: optional === true,
    label: omitEmptyText(volumeLabel),
  }),
  downwardAPI: ({ fields = [], volumeLabel }) => ({
    kind: "downwardAPI",
    files: fields,
    label: omitEmptyText(volumeLabel),
  }),
};

const SOURCE_KIND_NAMES = Object.keys(SOURCE_READERS) as readonly DiskSourceKind[];

function readAs(kind: DiskSourceKind, volume: Volume): DiskSource | undefined {
  // The type assertion is safe, because each function of SOURCE_READERS reads the volume member with the same key.
  const read = SOURCE_READERS[kind] as (member: unknown) => DiskSource | undefined;
  const member = volume[kind];
  return member === undefined ? undefined : read(member);
}

function readSource(volume: Volume): DiskSource | undefined {
  for (const kind of SOURCE_KIND_NAMES) {
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
type DiskCache = (typeof CACHES)[number];
const IO_MODES = ["native", "threads", "default"] as const;
type DiskIo = (typeof IO_MODES)[number];
const ERROR_POLICIES = ["stop", "ignore", "report", "enospace"] as const;
/** Effect of a disk error on the guest. Source: KubeVirt DiskErrorPolicy. */
type DiskErrorPolicy = (typeof ERROR_POLICIES)[number];

/** Default bus. Most guests have a driver for it. Source: KubeVirt defaults of amd64. */
const DEFAULT_BUS: DiskBus = "sata";
/** Default cache mode, which bypasses the host's page cache. KubeVirt uses it if the file system supports O_DIRECT. */
const DEFAULT_CACHE: DiskCache = "none";
const DEFAULT_ERROR_POLICY: DiskErrorPolicy = "stop";

interface DiskBlockSize {
  readonly logical: number | undefined;
  readonly physical: number | undefined;
  readonly discardGranularity: number | undefined;
}

export interface GuestDisk {
  readonly name: string;
  /** Index in the list of disks. Disks that were added for volumes without a disk are at the end. */
  readonly index: number;
  readonly volumeIndex: number;
  readonly source: DiskSource;
  readonly device: "disk" | "cdrom" | "lun";
  readonly bus: DiskBus;
  readonly readOnly: boolean;
  /** Position in the boot order of disks and NICs, from 1. */
  readonly bootOrder: number | undefined;
  readonly serial: string | undefined;
  readonly cache: DiskCache;
  /** I/O engine. If undefined, the engine is native for a block device without a cache, and threads for any other disk. */
  readonly io: DiskIo | undefined;
  /** Whether the host frees blocks that the guest discards. False for {@link SMALL_SOURCES}, such as cloud-init data and ConfigMaps. */
  readonly discard: boolean;
  readonly blockSize: DiskBlockSize | undefined;
  readonly errorPolicy: DiskErrorPolicy;
  readonly tray: "open" | "closed";
  readonly hasOwnIoThread: boolean;
  readonly shareable: boolean;
  /** Requested PCI address, for example 0000:02:00.0. If undefined, Patchbay assigns an address. */
  readonly pciAddress: string | undefined;
}

/** Sources of disks that are rebuilt from a few small files at each start. */
const SMALL_SOURCES: ReadonlySet<DiskSource["kind"]> = new Set([
  "cloudInitNoCloud",
  "cloudInitConfigDrive",
  "configMap",
  "secret",
  "downwardAPI",
]);

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

/** Reads the device type of the disk. The default is a hard disk. Source: KubeVirt SetDefaults_DiskDevice. */
function readDevice({ disk, cdrom, lun }: Disk): Device {
  const defaults = { tray: "closed", pciAddress: undefined } as const;
  const findBus = (bus: string | undefined): DiskBus => findOneOf(BUSES, bus) ?? DEFAULT_BUS;
  if (cdrom !== undefined) {
    const tray = cdrom.tray === "open" ? "open" : "closed";
    const readOnly = cdrom.readonly !== false;
    return { ...defaults, device: "cdrom", bus: findBus(cdrom.bus), readOnly, tray };
  }
  if (lun !== undefined) {
    return { ...defaults, device: "lun", bus: findBus(lun.bus), readOnly: lun.readonly === true };
  }
  const pciAddress = omitEmptyText(disk?.pciAddress);
  const readOnly = disk?.readonly === true;
  return { ...defaults, device: "disk", bus: findBus(disk?.bus), readOnly, pciAddress };
}

function readBlockSize({ blockSize }: Disk): DiskBlockSize | undefined {
  const customSizes = blockSize?.custom;
  if (customSizes === undefined) return undefined;
  const { logical, physical, discardGranularity } = customSizes;
  return { logical, physical, discardGranularity };
}

function isReadOnlySource(source: DiskSource): boolean {
  // A read-only claim does not make an ephemeral disk read-only, because the guest writes to an overlay.
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
      serial: omitEmptyText(disk.serial),
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

/** Adds a disk for each volume that no disk references. Source: KubeVirt SetDefaultVolumeDisk. */
export function withDisksOfVolumes(
  disks: readonly Disk[],
  volumes: readonly Volume[],
): readonly Disk[] {
  const diskNames = new Set(disks.map(({ name }) => name));
  return [
    ...disks,
    ...volumes.filter(({ name }) => !diskNames.has(name)).map(({ name }) => ({ name })),
  ];
}

/** Lists the spec's disks that have a volume, then the volumes without a disk. An unknown bus or cache mode becomes the default. */
export function listDisks(spec: VmiSpec): readonly GuestDisk[] {
  const { domain, volumes = [] } = withCurrentFieldNames(spec);
  return withDisksOfVolumes(domain.devices?.disks ?? [], volumes).flatMap((disk, index) =>
    toGuestDisks(disk, index, volumes),
  );
}
