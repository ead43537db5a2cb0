// SPDX-License-Identifier: Apache-2.0
// A small disk with cloud-init's data. Source: cloud-init datasources NoCloud and ConfigDrive.
import type { EnvVar, PodVolume, VirtualMachineInstance, VolumeMount } from "@patchbay/api";
import {
  CLOUD_INIT_LAYOUTS,
  metaDataOf,
  type CloudInitKind,
} from "../../../spec/cloud-init-meta.ts";
import type { GuestDisk } from "../../../spec/disks.ts";
import { diskFileOf, volumeDirOf } from "../../../spec/disk-files.ts";
import type { CloudInitData, DiskSource, GivenText } from "../../../spec/disk-source.ts";
import { podVolumeName, SMALL_DISK_MIB, type DiskPart } from "./disk-part.ts";

/** What the keys of a Secret may be called. Source: KubeVirt pkg/cloud-init. */
const KEYS = {
  userData: ["userdata", "userData"],
  networkData: ["networkdata", "networkData"],
} as const;

/** One file of the disk: where it is from. */
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

  /** A file that the VM says itself. */
  inline(path: string, form: "text" | "base64", text: string): FilePart {
    const name = `DISK_${String(this.#disk.volumeIndex)}_${path.replaceAll(/[^a-z]/g, "_").toUpperCase()}`;
    return { ...NO_FILE, content: [`${path}=${form}:${name}`], env: [{ name, value: text }] };
  }

  /** A file that is a key of a Secret. */
  ofSecret(path: string, secretName: string, member: keyof typeof KEYS): FilePart {
    const name = `${podVolumeName(this.#disk.volumeIndex)}-${member.toLowerCase()}`;
    const mountPath = `${volumeDirOf(this.#disk.name)}/${member.toLowerCase()}`;
    return {
      ...NO_FILE,
      content: KEYS[member].map((key) => `${path}=file:${mountPath}/${key}`),
      volumes: [{ name, secret: { secretName } }],
      mounts: [{ name, mountPath, readOnly: true }],
    };
  }

  given(path: string, given: GivenText | undefined, member: keyof typeof KEYS): FilePart {
    if (given === undefined) return NO_FILE;
    return given.kind === "secret"
      ? this.ofSecret(path, given.name, member)
      : this.inline(path, given.kind === "base64" ? "base64" : "text", given.text);
  }
}

/** cloud-init takes a disk without user data for none of its own. */
const NO_USER_DATA: GivenText = { kind: "inline", text: "" };

function filesOf(
  vmi: VirtualMachineInstance,
  disk: GuestDisk,
  { kind, userData, networkData }: CloudInitData & { readonly kind: CloudInitKind },
): readonly FilePart[] {
  const layout = CLOUD_INIT_LAYOUTS[kind];
  const files = new Files(disk);
  return [
    files.inline(layout.metaData, "text", JSON.stringify(metaDataOf(vmi, kind))),
    files.given(layout.userData, userData ?? NO_USER_DATA, "userData"),
    files.given(layout.networkData, networkData, "networkData"),
  ];
}

/** A disk of a cloudInitNoCloud or cloudInitConfigDrive volume. */
export function cloudInitPart(
  vmi: VirtualMachineInstance,
  disk: GuestDisk,
  source: Extract<DiskSource, { readonly kind: CloudInitKind }>,
): DiskPart {
  const files = filesOf(vmi, disk, source);
  const output = diskFileOf(disk, "Filesystem").path;
  const content = files.flatMap((file) => file.content);
  return {
    group: ["iso", disk.name, output, CLOUD_INIT_LAYOUTS[source.kind].label, ...content],
    volumes: files.flatMap(({ volumes }) => volumes),
    madeFrom: files.flatMap(({ mounts }) => mounts),
    env: files.flatMap(({ env }) => env),
    diskMiB: SMALL_DISK_MIB,
  };
}
