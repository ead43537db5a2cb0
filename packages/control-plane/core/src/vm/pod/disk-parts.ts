// SPDX-License-Identifier: Apache-2.0
// Parts of the launcher pod for each kind of disk, and the arguments with which `prepare-disks` creates the disk.
import { names, type VirtualMachineInstance } from "@patchbay/api";
import type {
  EnvVar,
  PersistentVolumeClaim,
  PodVolume,
  VolumeMount,
} from "@patchbay/api/kubernetes";
import { buildDiskFilesName, parsePullPolicy, type ImageFiles } from "./image-files.ts";
import type { VolumeDevice } from "./parts.ts";
import type { GuestDisk, DiskSource, CloudInitData, TextSource } from "../spec/disks.ts";
import {
  buildClaimFile,
  buildDiskFile,
  findVolumeDevice,
  findVolumeDirectory,
  readClaimBytes,
  readVolumeMode,
  findHostPath,
  type DiskFile,
} from "../spec/disk-files.ts";
import { resolveFromRoot } from "../spec/machine.ts";
import { CLOUD_INIT_LAYOUTS, buildMetaData, type CloudInitKind } from "../spec/cloud-init.ts";

export interface DiskPart {
  /** Arguments of `prepare-disks` for the disk, see docs/reference/prepare-disks.md. */
  readonly prepareArguments: readonly string[];
  readonly volumes?: readonly PodVolume[];
  /** Mounts for both the launcher and `prepare-disks`. */
  readonly mounts?: readonly VolumeMount[];
  readonly devices?: readonly VolumeDevice[];
  /** Mounts only for `prepare-disks`, which copies their content. */
  readonly copySources?: readonly VolumeMount[];
  readonly env?: readonly EnvVar[];
  readonly files?: ImageFiles;
  /** Maximum disk space in MiB that the disk uses on the node. Excludes space in claims. */
  readonly diskMiB: number;
}

export interface DiskFacts {
  readonly claims: ReadonlyMap<string, PersistentVolumeClaim>;
}

/** Size limit in bytes for an image whose size is unknown. The value is the maximum file size of ext4. */
const IMAGE_LIMIT_BYTES = 16 * 2 ** 40;
const OVERLAY_MIB = 64 * 1024;
const SMALL_DISK_MIB = 8;
export const QCOW2_OVERHEAD_MIB = 64;

function buildPodVolumeName(volumeIndex: number): string {
  return `volume-${String(volumeIndex)}`;
}

/** Escapes `$(NAME)`, because Kubernetes expands variables in arguments. Source: Kubernetes Container.args. */
export function escapeExpansion(text: string): string {
  return text.replaceAll("$", "$$$$");
}

type ClaimSource = Extract<DiskSource, { readonly claimName: string }>;

/** Mounts the claim. The mount is read-only if the source is read-only or an overlay receives the guest's writes. */
function mountClaim(
  disk: GuestDisk,
  source: ClaimSource,
  file: DiskFile,
): Pick<DiskPart, "volumes" | "mounts" | "devices"> {
  const name = buildPodVolumeName(disk.volumeIndex);
  const isWritable = !source.readOnly && source.kind !== "ephemeral";
  const readOnly = isWritable ? {} : { readOnly: true };
  const volume: PodVolume = {
    name,
    persistentVolumeClaim: {
      claimName: source.claimName,
      ...(source.readOnly ? { readOnly: true } : {}),
    },
  };
  return file.kind === "block"
    ? { volumes: [volume], devices: [{ name, devicePath: findVolumeDevice(disk.name) }] }
    : {
        volumes: [volume],
        mounts: [{ name, mountPath: findVolumeDirectory(disk.name), ...readOnly }],
      };
}

function buildArguments(
  disk: GuestDisk,
  { kind }: ClaimSource,
  { file, limit }: { readonly file: DiskFile; readonly limit: string },
): readonly string[] {
  const readOnly = disk.readOnly ? ["readonly"] : [];
  if (kind === "ephemeral") {
    return ["overlay", disk.name, buildDiskFile(disk, "Filesystem").path, file.path, limit];
  }
  if (file.kind === "block") return ["block", disk.name, file.path, ...readOnly];
  // No file is created for a DataVolume, because an empty file would hide a failed import.
  const isCreated = kind === "persistentVolumeClaim" && !disk.readOnly;
  return ["file", disk.name, file.path, limit, ...(isCreated ? ["make"] : []), ...readOnly];
}

export function buildClaimPart(disk: GuestDisk, source: ClaimSource, facts: DiskFacts): DiskPart {
  const claim = facts.claims.get(source.claimName);
  const file = buildClaimFile(disk.name, readVolumeMode(claim));
  const limit = String(readClaimBytes(claim) ?? IMAGE_LIMIT_BYTES);
  return {
    prepareArguments: buildArguments(disk, source, { file, limit }),
    ...mountClaim(disk, source, file),
    diskMiB: source.kind === "ephemeral" ? OVERLAY_MIB : 0,
  };
}

/** Directory of the disk in the image of a container disk. Source: KubeVirt container disk workflow. */
const DISK_DIR = "/disk";

export function buildContainerDiskPart(
  disk: GuestDisk,
  source: Extract<DiskSource, { readonly kind: "containerDisk" }>,
): DiskPart {
  const path = source.path === undefined ? undefined : resolveFromRoot(source.path);
  const mountPath = findVolumeDirectory(disk.name);
  const image = `${mountPath}${path ?? DISK_DIR}`;
  const output = buildDiskFile(disk, "Filesystem").path;
  return {
    prepareArguments: ["overlay", disk.name, output, image, String(IMAGE_LIMIT_BYTES)],
    files: {
      name: buildDiskFilesName(disk.volumeIndex),
      image: source.image,
      pullPolicy: parsePullPolicy(source.pullPolicy),
      pullSecret: source.pullSecret,
      mountPath,
      copy: { option: "--disk", files: path === undefined ? [] : [path], mib: OVERLAY_MIB },
    },
    diskMiB: OVERLAY_MIB,
  };
}

/** Builds the pod parts for a disk in a host directory. The directory must exist: the kubelet would create it writable only by root. */
export function buildHostDiskPart(
  disk: GuestDisk,
  source: Extract<DiskSource, { readonly kind: "hostDisk" }>,
): DiskPart {
  const name = buildPodVolumeName(disk.volumeIndex);
  // The default is never used, because a VM with an invalid path does not start.
  const directory = findHostPath(source.path)?.directory ?? "/";
  const { path } = buildDiskFile(disk, "Filesystem");
  const limit = String(source.bytes ?? IMAGE_LIMIT_BYTES);
  const isCreated = source.isCreated && !disk.readOnly;
  const readOnly = disk.readOnly ? ["readonly"] : [];
  return {
    prepareArguments: ["file", disk.name, path, limit, ...(isCreated ? ["make"] : []), ...readOnly],
    volumes: [{ name, hostPath: { path: directory, type: "Directory" } }],
    mounts: [{ name, mountPath: findVolumeDirectory(disk.name) }],
    diskMiB: 0,
  };
}

type FilesSource = Extract<DiskSource, { readonly kind: "configMap" | "secret" | "downwardAPI" }>;

/** Default volume label of the ISO image. Source: KubeVirt pkg/config. */
const DEFAULT_LABEL = "cfgdata";

function buildVolume(name: string, source: FilesSource): PodVolume {
  switch (source.kind) {
    case "configMap":
      return { name, configMap: { name: source.name, optional: source.optional } };
    case "secret":
      return { name, secret: { secretName: source.name, optional: source.optional } };
    case "downwardAPI": {
      // Adds the container name, which Kubernetes requires for resources of a downwardAPI volume.
      const items = source.files.map((file) =>
        file.resourceFieldRef === undefined
          ? file
          : {
              ...file,
              resourceFieldRef: {
                containerName: names.LAUNCHER_CONTAINER,
                ...file.resourceFieldRef,
              },
            },
      );
      return { name, downwardAPI: { items } };
    }
  }
}

export function buildFilesPart(disk: GuestDisk, source: FilesSource): DiskPart {
  const name = buildPodVolumeName(disk.volumeIndex);
  const mountPath = findVolumeDirectory(disk.name);
  const output = buildDiskFile(disk, "Filesystem").path;
  const label = source.label ?? DEFAULT_LABEL;
  return {
    prepareArguments: ["iso", disk.name, output, label, `tree:${mountPath}`],
    volumes: [buildVolume(name, source)],
    copySources: [{ name, mountPath, readOnly: true }],
    diskMiB: SMALL_DISK_MIB,
  };
}

/** Keys of cloud-init data in a Secret. Source: KubeVirt pkg/cloud-init. */
const SECRET_KEYS = {
  userData: ["userdata", "userData"],
  networkData: ["networkdata", "networkData"],
} as const;

interface FilePart {
  readonly content: readonly string[];
  readonly env: readonly EnvVar[];
  readonly volumes: readonly PodVolume[];
  readonly mounts: readonly VolumeMount[];
}

const NO_FILE: FilePart = { content: [], env: [], volumes: [], mounts: [] };

class Files {
  readonly #disk: GuestDisk;

  constructor(disk: GuestDisk) {
    this.#disk = disk;
  }

  inline(path: string, encoding: "text" | "base64", text: string): FilePart {
    const name = `DISK_${String(this.#disk.volumeIndex)}_${path.replaceAll(/[^a-z]/g, "_").toUpperCase()}`;
    return { ...NO_FILE, content: [`${path}=${encoding}:${name}`], env: [{ name, value: text }] };
  }

  fromSecret(path: string, secretName: string, member: keyof typeof SECRET_KEYS): FilePart {
    const name = `${buildPodVolumeName(this.#disk.volumeIndex)}-${member.toLowerCase()}`;
    const mountPath = `${findVolumeDirectory(this.#disk.name)}/${member.toLowerCase()}`;
    return {
      ...NO_FILE,
      content: SECRET_KEYS[member].map((key) => `${path}=file:${mountPath}/${key}`),
      volumes: [{ name, secret: { secretName } }],
      mounts: [{ name, mountPath, readOnly: true }],
    };
  }

  fromText(
    path: string,
    fromText: TextSource | undefined,
    member: keyof typeof SECRET_KEYS,
  ): FilePart {
    if (fromText === undefined) return NO_FILE;
    return fromText.kind === "secret"
      ? this.fromSecret(path, fromText.name, member)
      : this.inline(path, fromText.kind === "base64" ? "base64" : "text", fromText.text);
  }
}

/**
 * Empty user data for a VM whose spec has none, because cloud-init ignores a disk without user data. Source: cloud-init datasources
 * NoCloud and ConfigDrive.
 */
const NO_USER_DATA: TextSource = { kind: "inline", text: "" };

function buildFiles(
  vmi: VirtualMachineInstance,
  disk: GuestDisk,
  { kind, userData, networkData }: CloudInitData & { readonly kind: CloudInitKind },
): readonly FilePart[] {
  const layout = CLOUD_INIT_LAYOUTS[kind];
  const files = new Files(disk);
  return [
    files.inline(layout.metaData, "text", JSON.stringify(buildMetaData(vmi, kind))),
    files.fromText(layout.userData, userData ?? NO_USER_DATA, "userData"),
    files.fromText(layout.networkData, networkData, "networkData"),
  ];
}

export function buildCloudInitPart(
  vmi: VirtualMachineInstance,
  disk: GuestDisk,
  source: Extract<DiskSource, { readonly kind: CloudInitKind }>,
): DiskPart {
  const files = buildFiles(vmi, disk, source);
  const output = buildDiskFile(disk, "Filesystem").path;
  const content = files.flatMap((file) => file.content);
  return {
    prepareArguments: ["iso", disk.name, output, CLOUD_INIT_LAYOUTS[source.kind].label, ...content],
    volumes: files.flatMap(({ volumes }) => volumes),
    copySources: files.flatMap(({ mounts }) => mounts),
    env: files.flatMap(({ env }) => env),
    diskMiB: SMALL_DISK_MIB,
  };
}
