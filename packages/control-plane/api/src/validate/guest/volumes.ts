// SPDX-License-Identifier: Apache-2.0
// Rules for volumes and cloud-init. Source: KubeVirt validateVolumes, validateContainerDisks.
import { isUnset } from "../../fields/notation.ts";
import { findByName } from "../../values/memoize.ts";
import { parseQuantity } from "../../values/quantity.ts";
import type { Cause } from "../../kinds/kubernetes/meta.ts";
import type { Volume } from "../../kinds/guest/disks.ts";
import { causeIf, forEachVolume, volumePath, type Rule } from "../rule.ts";
import { labelFaults, namesAreUnique } from "./names.ts";

function isNormalAbsolutePath(path: string): boolean {
  const parts = path.split("/");
  const last = parts.at(-1) === "" ? parts.slice(0, -1) : parts;
  return last.every((part, index) =>
    index === 0 ? part === "" : part !== "" && part !== "." && part !== "..",
  );
}

/** Returns why the path is invalid; undefined if the path is valid or empty. Source: KubeVirt ValidatePath. */
function findPathFault(path: string, field: string): string | undefined {
  if (path === "") return undefined;
  if (path === "/") return `${field} must not point to root`;
  if (isNormalAbsolutePath(path)) return undefined;
  return `${field} must be an absolute path to a file without relative components`;
}

// Source: RFC 4648 section 4.

const BASE64 = /^(?:[A-Za-z0-9+/]{4})*(?:[A-Za-z0-9+/]{2}==|[A-Za-z0-9+/]{3}=)?$/;
const LINE_BREAKS = /[\r\n]/g;

function findDecodedLength(text: string): number | undefined {
  const line = text.replaceAll(LINE_BREAKS, "");
  if (!BASE64.test(line)) return undefined;
  const padding = line.endsWith("==") ? 2 : Number(line.endsWith("="));
  return (line.length / 4) * 3 - padding;
}

const nameIsUnique = namesAreUnique(({ volumes }) => volumes, volumePath);

/** Requires DNS labels as names of volumes. Skips volumes with the name of a disk, because another rule checks disk names. */
const nameIsLabel = forEachVolume(({ name }, path, { disks }): readonly Cause[] => {
  if (findByName(disks, name) !== undefined) return [];
  return labelFaults(name).map((message) => ({
    reason: "FieldValueInvalid",
    field: `${path}.name`,
    message,
  }));
});

const hasOneSource = forEachVolume((volume, path) => {
  const sources = Object.entries(volume).filter(
    ([key, value]) => key !== "name" && !isUnset(value),
  );
  return causeIf(sources.length !== 1, {
    reason: "FieldValueInvalid",
    field: path,
    message: `${path} must have exactly one source type set`,
  });
});

const REQUIRED_NAMES: readonly (readonly [
  field: string,
  of: (volume: Volume) => string | undefined,
])[] = [
  ["configMap.name", ({ configMap }) => configMap && (configMap.name ?? "")],
  ["secret.secretName", ({ secret }) => secret && (secret.secretName ?? "")],
  ["containerDisk.image", ({ containerDisk }) => containerDisk?.image],
  ["persistentVolumeClaim.claimName", (volume) => volume.persistentVolumeClaim?.claimName],
  [
    "ephemeral.persistentVolumeClaim.claimName",
    ({ ephemeral }) => ephemeral && (ephemeral.persistentVolumeClaim?.claimName ?? ""),
  ],
];

const sourceIsNamed = forEachVolume((volume, path) =>
  REQUIRED_NAMES.filter(([, readName]) => readName(volume) === "").map(([field]) => ({
    reason: "FieldValueInvalid",
    field: `${path}.${field}`,
    message: `${path}.${field} is a required field`,
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
  const message = findPathFault(containerDisk?.path ?? "", field);
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

function listHostDiskTypeCauses(type: string, path: string): readonly Cause[] {
  const [existingType, createdType] = HOST_DISK_TYPES;
  return causeIf(type !== existingType && type !== createdType, {
    reason: "FieldValueInvalid",
    field: `${path}.type`,
    message: `${path}.type has invalid value '${type}', allowed are '${existingType}' or '${createdType}'`,
  });
}

function listHostDiskPathCauses(hostPath: string, path: string): readonly Cause[] {
  const field = `${path}.path`;
  if (hostPath === "") {
    const message = `${field} is required for hostDisk volume`;
    return [{ reason: "FieldValueNotFound", field, message }];
  }
  const message = findPathFault(hostPath, field);
  return message === undefined ? [] : [{ reason: "FieldValueInvalid", field, message }];
}

const hostDiskIsValid = forEachVolume(({ hostDisk }, volumeField): readonly Cause[] => {
  if (hostDisk === undefined) return [];
  const path = `${volumeField}.hostDisk`;
  const { type, capacity = 0 } = hostDisk;
  return [
    ...listHostDiskPathCauses(hostDisk.path, path),
    ...listHostDiskTypeCauses(type, path),
    // A host disk of type `Disk` is an existing file, so its size cannot be set.
    ...causeIf(type === "Disk" && parseQuantity(capacity) !== 0, {
      reason: "FieldValueInvalid",
      field: `${path}.capacity`,
      message: `${path}.capacity is allowed to pass only with ${path}.type equal to 'DiskOrCreate'`,
    }),
  ];
});

export const VOLUME_RULES: readonly Rule[] = [
  nameIsUnique,
  nameIsLabel,
  hasOneSource,
  dataVolumeHasName,
  sourceIsNamed,
  imagePathIsFile,
  emptyDiskHasSize,
  hostDiskIsValid,
];

/** Maximum length of user data or network data, in bytes. Source: KubeVirt cloudInitUserMaxLen, cloudInitNetworkMaxLen. */
const INLINE_MAX_BYTES = 2048;
const CLOUD_INIT_KINDS = ["cloudInitNoCloud", "cloudInitConfigDrive"] as const;

type CloudInit = NonNullable<Volume[(typeof CLOUD_INIT_KINDS)[number]]>;

interface CloudInitData {
  readonly key: "userData" | "networkData";
  readonly text: string;
  readonly base64: string;
  readonly secret: string;
}

function splitCloudInit(
  sources: CloudInit,
): readonly [user: CloudInitData, network: CloudInitData] {
  const { userData, userDataBase64, secretRef } = sources;
  const { networkData, networkDataBase64, networkDataSecretRef } = sources;
  return [
    {
      key: "userData",
      text: userData ?? "",
      base64: userDataBase64 ?? "",
      secret: secretRef?.name ?? "",
    },
    {
      key: "networkData",
      text: networkData ?? "",
      base64: networkDataBase64 ?? "",
      secret: networkDataSecretRef?.name ?? "",
    },
  ];
}

function countForms({ text, base64, secret }: CloudInitData): number {
  return [text, base64, secret].filter((form) => form !== "").length;
}

const ONE_FORM_MESSAGES = {
  userData: "must have only one userdatasource set.",
  networkData: "must have only one networkdata source set.",
} as const;

const SECRET_FIELDS = {
  userData: "UserDataSecretRef",
  networkData: "NetworkDataSecretRef",
} as const;

/** Returns the length in UTF-8 bytes. For a text that is certainly too long, saves time and returns the number of UTF-16 code units. */
function countBytes(text: string): number {
  if (text.length > INLINE_MAX_BYTES) return text.length;
  // Array.from iterates over code points, not over UTF-16 code units.
  return Array.from(text, (character) => countCodePointBytes(character.codePointAt(0) ?? 0)).reduce(
    (sum, bytes) => sum + bytes,
    0,
  );
}

/** Returns the number of bytes of a code point in UTF-8. Source: RFC 3629 section 3. */
function countCodePointBytes(codePoint: number): number {
  if (codePoint < 0x80) return 1;
  if (codePoint < 0x800) return 2;
  return codePoint < 0x10000 ? 3 : 4;
}

function listCloudInitCauses(data: CloudInitData, path: string): readonly Cause[] {
  const { key, text, base64 } = data;
  const decoded = findDecodedLength(base64);
  const bytes = Math.max(countBytes(text), decoded ?? 0);
  return [
    ...causeIf(decoded === undefined, {
      reason: "FieldValueInvalid",
      field: `${path}.${key}Base64`,
      message: `${path}.${key}Base64 is not a valid base64 value.`,
    }),
    ...causeIf(countForms(data) > 1, {
      reason: "FieldValueInvalid",
      field: path,
      message: `${path} ${ONE_FORM_MESSAGES[key]}`,
    }),
    ...causeIf(bytes > INLINE_MAX_BYTES, {
      reason: "FieldValueInvalid",
      field: path,
      message: `${path} ${key.toLowerCase()} exceeds ${String(INLINE_MAX_BYTES)} byte limit. Should use ${SECRET_FIELDS[key]} for larger data.`,
    }),
  ];
}

const dataIsValid = forEachVolume((volume, volumePath) =>
  CLOUD_INIT_KINDS.flatMap((kind): readonly Cause[] => {
    const sources = volume[kind];
    if (sources === undefined) return [];
    const path = `${volumePath}.${kind}`;
    const data = splitCloudInit(sources);
    return [
      ...data.flatMap((each) => listCloudInitCauses(each, path)),
      ...causeIf(
        data.every((each) => countForms(each) === 0),
        {
          reason: "FieldValueInvalid",
          field: path,
          message: `${path} must have at least one userdatasource or one networkdatasource set.`,
        },
      ),
    ];
  }),
);

export const CLOUD_INIT_RULES: readonly Rule[] = [dataIsValid];
