// SPDX-License-Identifier: Apache-2.0
// Where disks may come from. Source: KubeVirt validateVolumes, validateContainerDisks.
import { isNothing } from "../../../fields/notation.ts";
import { parseQuantity } from "../../../values/quantity.ts";
import type { Cause } from "../../../kinds/kubernetes/meta.ts";
import type { Volume } from "../../../kinds/guest/volume.ts";
import { causeIf, forEachVolume, volumePath, type Rule } from "../../rule.ts";
import { pathFault } from "../paths.ts";
import { labelFaults, namesAreUnique } from "../names.ts";

const nameIsUnique = namesAreUnique(({ volumes }) => volumes, volumePath);

/** A volume that a disk names was judged with the disk. */
const nameIsLabel = forEachVolume(({ name }, path, { disks }): readonly Cause[] => {
  if (disks.some((disk) => disk.name === name)) return [];
  return labelFaults(name).map((message) => ({
    reason: "FieldValueInvalid",
    field: `${path}.name`,
    message,
  }));
});

const hasOneSource = forEachVolume((volume, path) => {
  const given = Object.entries(volume).filter(
    ([key, value]) => key !== "name" && !isNothing(value),
  );
  return causeIf(given.length !== 1, {
    reason: "FieldValueInvalid",
    field: path,
    message: `${path} must have exactly one source type set`,
  });
});

/** What a source must name, below the volume. */
const REQUIRED: readonly (readonly [field: string, of: (volume: Volume) => string | undefined])[] =
  [
    ["configMap.name", ({ configMap }) => configMap && (configMap.name ?? "")],
    ["secret.secretName", ({ secret }) => secret && (secret.secretName ?? "")],
    ["containerDisk.image", ({ containerDisk }) => containerDisk?.image],
    ["persistentVolumeClaim.claimName", (volume) => volume.persistentVolumeClaim?.claimName],
    [
      "ephemeral.persistentVolumeClaim.claimName",
      ({ ephemeral }) => ephemeral && (ephemeral.persistentVolumeClaim?.claimName ?? ""),
    ],
  ];

const namesItsSource = forEachVolume((volume, path) =>
  REQUIRED.filter(([, of]) => of(volume) === "").map(([below]) => ({
    reason: "FieldValueInvalid",
    field: `${path}.${below}`,
    message: `${path}.${below} is a required field`,
  })),
);

const dataVolumeHasName = forEachVolume(({ dataVolume }, path) =>
  causeIf(dataVolume?.name === "", {
    reason: "FieldValueRequired",
    field: `${path}.name`,
    message: "DataVolume 'name' must be set",
  }),
);

const imagePathIsFile = forEachVolume(({ containerDisk }, path): readonly Cause[] => {
  const field = `${path}.containerDisk`;
  const message = pathFault(containerDisk?.path ?? "", field);
  return message === undefined ? [] : [{ reason: "FieldValueInvalid", field, message }];
});

const emptyDiskHasSize = forEachVolume(({ emptyDisk }, path) =>
  causeIf(emptyDisk !== undefined && parseQuantity(emptyDisk.capacity) === 0, {
    reason: "FieldValueInvalid",
    field: `${path}.emptyDisk.capacity`,
    message: `${path}.emptyDisk.capacity must be more than 0`,
  }),
);

const HOST_DISK_TYPES = ["Disk", "DiskOrCreate"] as const;

function hostDiskTypeCauses(type: string, path: string): readonly Cause[] {
  const [there, made] = HOST_DISK_TYPES;
  return causeIf(type !== there && type !== made, {
    reason: "FieldValueInvalid",
    field: `${path}.type`,
    message: `${path}.type has invalid value '${type}', allowed are '${there}' or '${made}'`,
  });
}

function hostDiskPathCauses(given: string, path: string): readonly Cause[] {
  const field = `${path}.path`;
  if (given === "") {
    const message = `${field} is required for hostDisk volume`;
    return [{ reason: "FieldValueNotFound", field, message }];
  }
  const message = pathFault(given, field);
  return message === undefined ? [] : [{ reason: "FieldValueInvalid", field, message }];
}

const hostDiskIsWhole = forEachVolume(({ hostDisk }, volume): readonly Cause[] => {
  if (hostDisk === undefined) return [];
  const path = `${volume}.hostDisk`;
  const { type, capacity = 0 } = hostDisk;
  return [
    ...hostDiskPathCauses(hostDisk.path, path),
    ...hostDiskTypeCauses(type, path),
    // A file that is there has its size.
    ...causeIf(type === "Disk" && parseQuantity(capacity) !== 0, {
      reason: "FieldValueInvalid",
      field: `${path}.capacity`,
      message: `${path}.capacity is allowed to pass only with ${path}.type equal to 'DiskOrCreate'`,
    }),
  ];
});

/** Judges volumes, apart from what cloud-init is told. */
export const VOLUME_RULES: readonly Rule[] = [
  nameIsUnique,
  nameIsLabel,
  hasOneSource,
  dataVolumeHasName,
  namesItsSource,
  imagePathIsFile,
  emptyDiskHasSize,
  hostDiskIsWhole,
];
