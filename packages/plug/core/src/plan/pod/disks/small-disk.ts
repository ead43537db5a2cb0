// SPDX-License-Identifier: Apache-2.0
// A small disk with the files of a ConfigMap, a Secret or of the pod's own fields.
import { names, type PodVolume } from "@patchbay/api";
import type { GuestDisk } from "../../../spec/disks.ts";
import { diskFileOf, volumeDirOf } from "../../../spec/disk-files.ts";
import type { DiskSource } from "../../../spec/disk-source.ts";
import { podVolumeName, SMALL_DISK_MIB, type DiskPart } from "./disk-part.ts";

type FilesSource = Extract<DiskSource, { readonly kind: "configMap" | "secret" | "downwardAPI" }>;

/** Label of the file system where the VM names none. Source: KubeVirt pkg/config. */
const DEFAULT_LABEL = "cfgdata";

function volumeOf(name: string, source: FilesSource): PodVolume {
  switch (source.kind) {
    case "configMap":
      return { name, configMap: { name: source.name, optional: source.optional } };
    case "secret":
      return { name, secret: { secretName: source.name, optional: source.optional } };
    case "downwardAPI": {
      // Of a volume Kubernetes wants to know whose resource it is.
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

/** A disk of a configMap, secret or downwardAPI volume. */
export function filesDiskPart(disk: GuestDisk, source: FilesSource): DiskPart {
  const name = podVolumeName(disk.volumeIndex);
  const mountPath = volumeDirOf(disk.name);
  const output = diskFileOf(disk, "Filesystem").path;
  const label = source.label ?? DEFAULT_LABEL;
  return {
    group: ["iso", disk.name, output, label, `tree:${mountPath}`],
    volumes: [volumeOf(name, source)],
    madeFrom: [{ name, mountPath, readOnly: true }],
    diskMiB: SMALL_DISK_MIB,
  };
}
