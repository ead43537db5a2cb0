// SPDX-License-Identifier: Apache-2.0
// The disks of a VMI, each joined with its volume, with KubeVirt's defaults filled in.
import {
  parseQuantity,
  inCurrentWords,
  type DownwardFile,
  type Volume,
  type Disk,
  type VmiSpec,
} from "@patchbay/api";
import { findByName } from "./nics.ts";

/** Text that a VM says itself, or that a Secret holds. */
export type GivenText =
  | { readonly kind: "inline"; readonly text: string }
  | { readonly kind: "base64"; readonly text: string }
  | { readonly kind: "secret"; readonly name: string };

/** What cloud-init is given. */
export interface CloudInitData {
  readonly userData: GivenText | undefined;
  readonly networkData: GivenText | undefined;
}

/** Files that become a small disk with this label; undefined: the label of its kind. */
interface SmallDisk {
  readonly label: string | undefined;
}

/** Where a disk's data comes from, by the volume's member. */
export type DiskSource =
  | {
      readonly kind: "containerDisk";
      readonly image: string;
      /** In the image, as the VM says it; undefined: the first file below `/disk`. */
      readonly path: string | undefined;
      /** As the VM says it. */
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
      /** Of the file on the node. */
      readonly path: string;
      /** Whether it is made where it is not there. */
      readonly isMade: boolean;
      /** Of a file that is made. */
      readonly bytes: number | undefined;
      readonly shared: boolean;
    }
  | ({ readonly kind: "cloudInitNoCloud" } & CloudInitData)
  | ({ readonly kind: "cloudInitConfigDrive" } & CloudInitData)
  | ({ readonly kind: "configMap"; readonly name: string; readonly optional: boolean } & SmallDisk)
  | ({ readonly kind: "secret"; readonly name: string; readonly optional: boolean } & SmallDisk)
  | ({ readonly kind: "downwardAPI"; readonly files: readonly DownwardFile[] } & SmallDisk);

/** The name of a kind of source. */
export type DiskSourceKind = DiskSource["kind"];

/** Empty means the same as absent. */
function given(text: string | undefined): string | undefined {
  return text === "" ? undefined : text;
}

type CloudInitVolume = NonNullable<Volume["cloudInitNoCloud"]>;

function givenText(
  text: string | undefined,
  base64: string | undefined,
  secret: { readonly name?: string } | undefined,
): GivenText | undefined {
  const name = given(secret?.name);
  if (name !== undefined) return { kind: "secret", name };
  if (given(base64) !== undefined) return { kind: "base64", text: base64 ?? "" };
  return given(text) === undefined ? undefined : { kind: "inline", text: text ?? "" };
}

/** Where data is given in more than one form, which admission refuses: the Secret's, then base64. */
function cloudInitOf(volume: CloudInitVolume): CloudInitData {
  return {
    userData: givenText(volume.userData, volume.userDataBase64, volume.secretRef),
    networkData: givenText(
      volume.networkData,
      volume.networkDataBase64,
      volume.networkDataSecretRef,
    ),
  };
}

/** How each member of a volume is read, in the order in which they are looked for. */
const READERS: {
  readonly [K in DiskSourceKind]: (
    member: NonNullable<Volume[K]>,
  ) => Extract<DiskSource, { readonly kind: K }> | undefined;
} = {
  containerDisk: ({ image, path, imagePullPolicy, imagePullSecret }) => ({
    kind: "containerDisk",
    image,
    path: given(path),
    pullPolicy: given(imagePullPolicy),
    pullSecret: given(imagePullSecret),
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
  // What cannot be read keeps the VM from being started.
  emptyDisk: ({ capacity }) => ({ kind: "emptyDisk", bytes: parseQuantity(capacity) ?? 0 }),
  hostDisk: ({ path, type, capacity, shared }) => ({
    kind: "hostDisk",
    path,
    isMade: type === "DiskOrCreate",
    bytes: capacity === undefined ? undefined : parseQuantity(capacity),
    shared: shared === true,
  }),
  cloudInitNoCloud: (member) => ({ kind: "cloudInitNoCloud", ...cloudInitOf(member) }),
  cloudInitConfigDrive: (member) => ({ kind: "cloudInitConfigDrive", ...cloudInitOf(member) }),
  configMap: ({ name = "", optional, volumeLabel }) => ({
    kind: "configMap",
    name,
    optional: optional === true,
    label: given(volumeLabel),
  }),
  secret: ({ secretName = "", optional, volumeLabel }) => ({
    kind: "secret",
    name: secretName,
    optional: optional === true,
    label: given(volumeLabel),
  }),
  downwardAPI: ({ fields = [], volumeLabel }) => ({
    kind: "downwardAPI",
    files: fields,
    label: given(volumeLabel),
  }),
};

// The keys are those that the type lists, and only they.
const KINDS = Object.keys(READERS) as readonly DiskSourceKind[];

function readAs(kind: DiskSourceKind, volume: Volume): DiskSource | undefined {
  // Each reader takes the member of its own key, which the compiler cannot follow through a variable key.
  const read = READERS[kind] as (member: unknown) => DiskSource | undefined;
  const member = volume[kind];
  return member === undefined ? undefined : read(member);
}

/** Where the data of a volume comes from; undefined for a volume of no kind, or of one that no disk is made of. */
function sourceOf(volume: Volume): DiskSource | undefined {
  for (const kind of KINDS) {
    const source = readAs(kind, volume);
    if (source !== undefined) return source;
  }
  return undefined;
}

/** The claim of a source; undefined for one without. */
export function claimNameOf(source: DiskSource): string | undefined {
  return "claimName" in source ? source.claimName : undefined;
}

const BUSES = ["virtio", "sata", "scsi"] as const;
/** How a disk is joined to the machine. */
type DiskBus = (typeof BUSES)[number];
const CACHES = ["none", "writethrough", "writeback", "directsync"] as const;
/** How the host's memory is between a disk and its file. Source: KubeVirt DriverCache. */
type DiskCache = (typeof CACHES)[number];
const IO_MODES = ["native", "threads", "default"] as const;
/** Who does the reading and writing. Source: KubeVirt DriverIO. */
type DiskIo = (typeof IO_MODES)[number];
const ERROR_POLICIES = ["stop", "ignore", "report", "enospace"] as const;
/** What becomes of a guest whose disk fails. Source: KubeVirt DiskErrorPolicy. */
type DiskErrorPolicy = (typeof ERROR_POLICIES)[number];

/** Typical of what guests have drivers for without doing anything. Source: KubeVirt defaults of amd64. */
const DEFAULT_BUS: DiskBus = "sata";
/** The guest's data goes to the disk, past the host's memory. Source: KubeVirt, where the file system can do it. */
const DEFAULT_CACHE: DiskCache = "none";
/** Source: KubeVirt defaults of a disk's error policy. */
const DEFAULT_ERROR_POLICY: DiskErrorPolicy = "stop";

/** Sizes of a disk's blocks in bytes; undefined: 512, or what the device has. */
interface DiskBlockSize {
  readonly logical: number | undefined;
  readonly physical: number | undefined;
  readonly discardGranularity: number | undefined;
}

/** A disk as the guest is to have it. */
export interface GuestDisk {
  /** Of the disk and of its volume. */
  readonly name: string;
  /** Place in the list of disks; disks of volumes that no disk names come behind the list. */
  readonly index: number;
  /** Place in the list of volumes. */
  readonly volumeIndex: number;
  readonly source: DiskSource;
  readonly device: "disk" | "cdrom" | "lun";
  readonly bus: DiskBus;
  readonly readOnly: boolean;
  /** From 1, over disks and NICs. */
  readonly bootOrder: number | undefined;
  readonly serial: string | undefined;
  readonly cache: DiskCache;
  /** Undefined: native for a device, threads for a file. */
  readonly io: DiskIo | undefined;
  /** Whether what the guest discards is given back: where the disk is a file or a claim, not of small disks. */
  readonly discard: boolean;
  readonly blockSize: DiskBlockSize | undefined;
  readonly errorPolicy: DiskErrorPolicy;
  /** Of a CD-ROM. */
  readonly tray: "open" | "closed";
  readonly hasOwnIoThread: boolean;
  /** Whether other guests may write to it at the same time. */
  readonly shareable: boolean;
  /** For example 0000:02:00.0; undefined: as laid out. */
  readonly pciAddress: string | undefined;
}

/** Sources whose files are made for this start only, from what fits into memory. */
const SMALL_SOURCES: ReadonlySet<DiskSource["kind"]> = new Set([
  "cloudInitNoCloud",
  "cloudInitConfigDrive",
  "configMap",
  "secret",
  "downwardAPI",
]);

/** Whether the disk is made of a few files: an ISO 9660 file system. */
export function isSmallDisk({ source }: GuestDisk): boolean {
  return SMALL_SOURCES.has(source.kind);
}

/** Whether QEMU opens the disk past the host's memory. Source: QEMU cache modes, cache.direct. */
export function isDirect({ cache }: Pick<GuestDisk, "cache">): boolean {
  return cache === "none" || cache === "directsync";
}

function wordOf<T extends string>(words: readonly T[], word: string | undefined): T | undefined {
  return words.find((each) => each === word);
}

interface Device {
  readonly device: GuestDisk["device"];
  readonly bus: DiskBus;
  readonly readOnly: boolean;
  readonly tray: GuestDisk["tray"];
  readonly pciAddress: string | undefined;
}

/** A disk that says nothing of its kind is a hard disk. Source: KubeVirt SetDefaults_DiskDevice. */
function deviceOf({ disk, cdrom, lun }: Disk): Device {
  const plain = { tray: "closed", pciAddress: undefined } as const;
  const busOf = (bus: string | undefined): DiskBus => wordOf(BUSES, bus) ?? DEFAULT_BUS;
  if (cdrom !== undefined) {
    const tray = cdrom.tray === "open" ? "open" : "closed";
    const readOnly = cdrom.readonly !== false;
    return { ...plain, device: "cdrom", bus: busOf(cdrom.bus), readOnly, tray };
  }
  if (lun !== undefined) {
    return { ...plain, device: "lun", bus: busOf(lun.bus), readOnly: lun.readonly === true };
  }
  const pciAddress = given(disk?.pciAddress);
  const readOnly = disk?.readonly === true;
  return { ...plain, device: "disk", bus: busOf(disk?.bus), readOnly, pciAddress };
}

function blockSizeOf({ blockSize }: Disk): DiskBlockSize | undefined {
  const custom = blockSize?.custom;
  if (custom === undefined) return undefined;
  const { logical, physical, discardGranularity } = custom;
  return { logical, physical, discardGranularity };
}

function isReadOnlySource(source: DiskSource): boolean {
  // An ephemeral claim is written to an overlay, whatever may be done with the claim.
  return source.kind !== "ephemeral" && "readOnly" in source && source.readOnly;
}

function guestDiskOf(disk: Disk, index: number, volumes: readonly Volume[]): readonly GuestDisk[] {
  const volume = findByName(volumes, disk.name);
  const source = volume === undefined ? undefined : sourceOf(volume);
  if (volume === undefined || source === undefined) return [];
  const device = deviceOf(disk);
  return [
    {
      ...device,
      name: disk.name,
      index,
      volumeIndex: volumes.indexOf(volume),
      source,
      readOnly: device.readOnly || isReadOnlySource(source),
      bootOrder: disk.bootOrder,
      serial: given(disk.serial),
      cache: wordOf(CACHES, disk.cache) ?? DEFAULT_CACHE,
      io: wordOf(IO_MODES, disk.io),
      discard: !SMALL_SOURCES.has(source.kind),
      blockSize: blockSizeOf(disk),
      errorPolicy: wordOf(ERROR_POLICIES, disk.errorPolicy) ?? DEFAULT_ERROR_POLICY,
      hasOwnIoThread: disk.dedicatedIOThread === true,
      shareable: disk.shareable === true || (source.kind === "hostDisk" && source.shared),
    },
  ];
}

/** The list of disks with one for each volume that no disk names. Source: KubeVirt SetDefaultVolumeDisk. */
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

/**
 * The disks of a VMI in the order of its list, with defaults as KubeVirt has them. Words that cannot be read stand for
 * their default, and a disk without a volume is left out: neither is started.
 */
export function disksOf(spec: VmiSpec): readonly GuestDisk[] {
  const { domain, volumes = [] } = inCurrentWords(spec);
  return withDisksOfVolumes(domain.devices?.disks ?? [], volumes).flatMap((disk, index) =>
    guestDiskOf(disk, index, volumes),
  );
}
