// SPDX-License-Identifier: Apache-2.0
import { describe, expect, test } from "vitest";
import { causesOfGuest, invalid, withDisk, type GuestRow } from "../../testing/guest-rows.ts";

const VOLUME = "spec.volumes[0]";

function volume(source: object): object {
  return withDisk({}, source);
}

const SOURCE_ROWS: readonly GuestRow[] = [
  ...[
    { containerDisk: { image: "a", path: "/disk/a.qcow2" } },
    { registryDisk: { image: "a" } },
    { persistentVolumeClaim: { claimName: "a" } },
    { dataVolume: { name: "a" } },
    { ephemeral: { persistentVolumeClaim: { claimName: "a" } } },
    { emptyDisk: { capacity: "1Gi" } },
    { hostDisk: { path: "/var/disks/a.img", type: "Disk" } },
    { hostDisk: { path: "/var/disks/a.img", type: "DiskOrCreate", capacity: "1Gi" } },
    { configMap: { name: "a" } },
    { secret: { secretName: "a" } },
    { downwardAPI: { fields: [] } },
    { configMap: { name: "a" }, secret: null },
  ].map((source) => ({ name: JSON.stringify(source), spec: volume(source), want: [] })),
  {
    name: "no source",
    spec: volume({}),
    want: [invalid(VOLUME, `${VOLUME} must have exactly one source type set`)],
  },
  ...[{ emptyDisk: { capacity: "1Gi" } }, { containerDisk: { image: "b" } }].map((other) => ({
    name: `two sources, one in the old field, beside ${JSON.stringify(other)}`,
    spec: volume({ registryDisk: { image: "a" }, ...other }),
    want: [invalid(VOLUME, `${VOLUME} must have exactly one source type set`)],
  })),
  ...[
    { source: { configMap: {} }, field: "configMap.name" },
    { source: { secret: {} }, field: "secret.secretName" },
    { source: { containerDisk: { image: "" } }, field: "containerDisk.image" },
    {
      source: { persistentVolumeClaim: { claimName: "" } },
      field: "persistentVolumeClaim.claimName",
    },
    { source: { ephemeral: {} }, field: "ephemeral.persistentVolumeClaim.claimName" },
  ].map(({ source, field }) => ({
    name: `a missing value of ${field}`,
    spec: volume(source),
    want: [invalid(`${VOLUME}.${field}`, `${VOLUME}.${field} is a required field`)],
  })),
  {
    name: "a DataVolume without a name",
    spec: volume({ dataVolume: { name: "" } }),
    want: [["FieldValueRequired", `${VOLUME}.name`, "DataVolume 'name' must be set"]],
  },
  {
    name: "the root path in an image",
    spec: volume({ containerDisk: { image: "a", path: "/" } }),
    want: [invalid(`${VOLUME}.containerDisk`, `${VOLUME}.containerDisk must not point to root`)],
  },
  ...["disk.img", "/disk/../etc/shadow", "/disk//a", "/./a"].map((path) => ({
    name: `the path ${path} in an image`,
    spec: volume({ containerDisk: { image: "a", path } }),
    want: [
      invalid(
        `${VOLUME}.containerDisk`,
        `${VOLUME}.containerDisk must be an absolute path to a file without relative components`,
      ),
    ],
  })),
  {
    name: "an empty disk without a size",
    spec: volume({ emptyDisk: { capacity: 0 } }),
    want: [
      invalid(`${VOLUME}.emptyDisk.capacity`, `${VOLUME}.emptyDisk.capacity must be more than 0`),
    ],
  },
];

const HOST = `${VOLUME}.hostDisk`;

const HOST_ROWS: readonly GuestRow[] = [
  {
    name: "a host disk without path and type",
    spec: volume({ hostDisk: { path: "", type: "" } }),
    want: [
      ["FieldValueNotFound", `${HOST}.path`, `${HOST}.path is required for hostDisk volume`],
      invalid(
        `${HOST}.type`,
        `${HOST}.type has invalid value '', allowed are 'Disk' or 'DiskOrCreate'`,
      ),
    ],
  },
  {
    name: "a path with parent directories",
    spec: volume({ hostDisk: { path: "/disks/../etc/shadow", type: "Disk" } }),
    want: [
      invalid(
        `${HOST}.path`,
        `${HOST}.path must be an absolute path to a file without relative components`,
      ),
    ],
  },
  {
    name: "the size of an existing file",
    spec: volume({ hostDisk: { path: "/a", type: "Disk", capacity: "1Gi" } }),
    want: [
      invalid(
        `${HOST}.capacity`,
        `${HOST}.capacity is allowed to pass only with ${HOST}.type equal to 'DiskOrCreate'`,
      ),
    ],
  },
];

const NO_CLOUD = `${VOLUME}.cloudInitNoCloud`;
const DRIVE = `${VOLUME}.cloudInitConfigDrive`;

function noCloud(data: object): object {
  return volume({ cloudInitNoCloud: data });
}

const CLOUD_INIT_ROWS: readonly GuestRow[] = [
  ...[
    { userData: "#cloud-config" },
    { userDataBase64: "SGkuXG4=" },
    { userDataBase64: "SGku\nXG4=\n" },
    { secretRef: { name: "a" } },
    { networkData: "version: 2" },
    { networkDataSecretRef: { name: "a" }, userData: "a", userDataBase64: "", secretRef: {} },
    { userData: "a".repeat(2048), networkDataBase64: "A".repeat(2728) + "AAA=" },
  ].map((data, index) => ({
    name: `data ${String(index)}`,
    spec: noCloud(data),
    want: [],
  })),
  {
    name: "cloud-init without data",
    spec: noCloud({ userData: "", secretRef: { name: "" } }),
    want: [
      invalid(
        NO_CLOUD,
        `${NO_CLOUD} must have at least one userdatasource or one networkdatasource set.`,
      ),
    ],
  },
  {
    name: "duplicate user data and network data",
    spec: volume({
      cloudInitConfigDrive: {
        userData: "a",
        secretRef: { name: "a" },
        networkData: "a",
        networkDataBase64: "YQ==",
      },
    }),
    want: [
      invalid(DRIVE, `${DRIVE} must have only one userdatasource set.`),
      invalid(DRIVE, `${DRIVE} must have only one networkdata source set.`),
    ],
  },
  {
    name: "invalid base64",
    spec: noCloud({ userDataBase64: "a", networkDataBase64: "!!!!" }),
    want: [
      invalid(
        `${NO_CLOUD}.userDataBase64`,
        `${NO_CLOUD}.userDataBase64 is not a valid base64 value.`,
      ),
      invalid(
        `${NO_CLOUD}.networkDataBase64`,
        `${NO_CLOUD}.networkDataBase64 is not a valid base64 value.`,
      ),
    ],
  },
  ...["a".repeat(2049), "ä".repeat(1025), "€".repeat(683), "🙂".repeat(513)].map((userData) => ({
    name: `${String(userData.length)} characters of ${userData.slice(0, 2)}`,
    spec: noCloud({ userData }),
    want: [
      invalid(
        NO_CLOUD,
        `${NO_CLOUD} userdata exceeds 2048 byte limit. Should use UserDataSecretRef for larger data.`,
      ),
    ],
  })),
  ...["ä".repeat(1024), "€".repeat(682), "🙂".repeat(512)].map((userData) => ({
    name: `${String(userData.length)} characters of ${userData.slice(0, 2)}`,
    spec: noCloud({ userData }),
    want: [],
  })),
  {
    name: "base64 of more than 2048 bytes",
    spec: noCloud({ networkDataBase64: "AAAA".repeat(683) }),
    want: [
      invalid(
        NO_CLOUD,
        `${NO_CLOUD} networkdata exceeds 2048 byte limit. Should use NetworkDataSecretRef for larger data.`,
      ),
    ],
  },
];

describe.each([
  ["sources", SOURCE_ROWS],
  ["disks of the node", HOST_ROWS],
  ["cloud-init", CLOUD_INIT_ROWS],
])("%s", (_title, rows) => {
  test.each(rows)("$name", ({ spec, want }) => {
    expect(causesOfGuest(spec)).toEqual(want);
  });
});

test("requires volume names to be unique labels", () => {
  const volumes = ["a", "B", "a"].map((name) => ({ name, containerDisk: { image: "a" } }));
  expect(causesOfGuest({ domain: {}, volumes })).toEqual([
    invalid(
      "spec.volumes[2].name",
      "spec.volumes[2] and spec.volumes[0] must not have the same Name.",
    ),
    invalid(
      "spec.volumes[1].name",
      "must consist of lower case alphanumeric characters or '-', and must start and end with an alphanumeric character",
    ),
  ]);
});
