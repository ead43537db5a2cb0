// SPDX-License-Identifier: Apache-2.0
import { describe, expect, test } from "vitest";
import { causesOfGuest, invalid, withDisk, type GuestRow } from "../../testing/guest-rows.ts";

const DISK = "spec.domain.devices.disks[0]";
const NOT_A_LABEL =
  "must consist of lower case alphanumeric characters or '-', and must start and end with an alphanumeric character";

function disksOf(disks: readonly object[], volumes: readonly string[]): object {
  return {
    domain: { devices: { disks } },
    volumes: volumes.map((name) => ({ name, containerDisk: { image: "a" } })),
  };
}

const KIND_ROWS: readonly GuestRow[] = [
  ...[
    {},
    { disk: {} },
    { disk: { bus: "virtio", readonly: true, pciAddress: "0000:02:00.0" } },
    { cdrom: { bus: "sata", tray: "open" } },
    { disk: { bus: "usb" } },
    { disk: { bus: "scsi" }, serial: "DATA01", cache: "writeback", io: "threads" },
  ].map((disk) => ({ name: `a disk ${JSON.stringify(disk)}`, spec: withDisk(disk), want: [] })),
  {
    name: "a disk that is also a CD-ROM",
    spec: withDisk({ disk: {}, cdrom: {} }),
    want: [invalid(DISK, `${DISK} can only have a single target type defined`)],
  },
  {
    name: "an unknown bus",
    spec: withDisk({ disk: { bus: "nvme" } }),
    want: [
      invalid(
        `${DISK}.disk.bus`,
        `${DISK} is set with an unrecognized bus nvme, must be one of: [virtio scsi sata usb]`,
      ),
    ],
  },
  {
    name: "the bus IDE",
    spec: withDisk({ cdrom: { bus: "ide" } }),
    want: [invalid(`${DISK}.cdrom.bus`, "IDE bus is not supported")],
  },
  {
    name: "a CD-ROM on the virtio bus",
    spec: withDisk({ cdrom: { bus: "virtio" } }),
    want: [invalid(`${DISK}.cdrom.bus`, "Bus type virtio is invalid for CD-ROM device")],
  },
  {
    name: "a read-only disk on the default bus",
    spec: withDisk({ disk: { readonly: true } }),
    want: [invalid(`${DISK}.disk.bus`, "sata hard-disks do not support read-only.")],
  },
  {
    name: "a dedicated I/O thread on a bus other than virtio",
    spec: withDisk({ disk: { bus: "scsi" }, dedicatedIOThread: true }),
    want: [["FieldValueNotSupported", DISK, "IOThreads are not supported for disks on a scsi bus"]],
  },
  {
    name: "a dedicated I/O thread on the virtio bus",
    spec: withDisk({ disk: { bus: "virtio" }, dedicatedIOThread: true }),
    want: [],
  },
  {
    name: "an invalid PCI address on a bus without PCI addresses",
    spec: withDisk({ disk: { bus: "scsi", pciAddress: "2" } }),
    want: [
      invalid(
        `${DISK}.disk.pciAddress`,
        `disk ${DISK}.name - setting a PCI address is only possible with bus type virtio.`,
      ),
      invalid(`${DISK}.disk.pciAddress`, `disk ${DISK}.name has malformed PCI address (2).`),
    ],
  },
  {
    name: "a LUN of a container image",
    spec: withDisk({ lun: { bus: "scsi" } }),
    want: [
      invalid(
        `${DISK}.lun`,
        `${DISK}.lun can only be mapped to a DataVolume or PersistentVolumeClaim volume.`,
      ),
    ],
  },
  ...["", "sata", "virtio"].map((bus) => ({
    name: `a LUN on the bus '${bus}'`,
    spec: withDisk({ lun: { bus } }, { persistentVolumeClaim: { claimName: "a" } }),
    want: [
      invalid(
        `${DISK}.lun.bus`,
        `Bus type ${bus === "" ? "sata" : bus} is invalid for LUN device; use scsi`,
      ),
    ],
  })),
  ...[{ persistentVolumeClaim: { claimName: "a" } }, { dataVolume: { name: "a" } }].map(
    (volume) => ({
      name: `a LUN of ${JSON.stringify(volume)}`,
      spec: withDisk({ lun: { bus: "scsi" } }, volume),
      want: [],
    }),
  ),
];

const NAME_ROWS: readonly GuestRow[] = [
  {
    name: "a disk without a volume",
    spec: disksOf([{ name: "a" }, { name: "b" }], ["a"]),
    want: [
      invalid(
        "spec.domain.devices.disks[1].name",
        "spec.domain.devices.disks[1].Name 'b' not found. No volume is named \"b\": add one to spec.volumes, or give the disk the name of one",
      ),
    ],
  },
  { name: "a volume without a disk gets one", spec: disksOf([], ["a"]), want: [] },
  {
    name: "a disk that refers to its volume with the old field volumeName",
    spec: disksOf([{ name: "Old_Name", volumeName: "a" }], ["a"]),
    want: [],
  },
  {
    name: "two disks with one name",
    spec: disksOf([{ name: "a" }, { name: "b" }, { name: "a" }], ["a", "b"]),
    want: [
      invalid(
        "spec.domain.devices.disks[2].name",
        "spec.domain.devices.disks[2] and spec.domain.devices.disks[0] must not have the same Name.",
      ),
    ],
  },
  {
    name: "a name that is not a DNS label",
    spec: disksOf([{ name: "My_Disk" }], ["My_Disk"]),
    want: [invalid(`${DISK}.name`, NOT_A_LABEL)],
  },
  {
    name: "a name that is too long",
    spec: disksOf([{ name: "a".repeat(64) }], ["a".repeat(64)]),
    want: [invalid(`${DISK}.name`, "must be no more than 63 bytes")],
  },
  {
    name: "a name of 63 characters",
    spec: disksOf([{ name: "a".repeat(63) }], ["a".repeat(63)]),
    want: [],
  },
];

const SERIAL_ROWS: readonly GuestRow[] = [
  {
    name: "a serial number with a space",
    spec: withDisk({ serial: "a b" }),
    want: [
      invalid(
        `${DISK}.serial`,
        `${DISK} must be made up of the following characters [A-Za-z0-9_.+-], if specified`,
      ),
    ],
  },
  {
    name: "a serial number that is too long",
    spec: withDisk({ serial: "a".repeat(257) }),
    want: [
      invalid(
        `${DISK}.serial`,
        `${DISK} must be less than or equal to 256 in length, if specified`,
      ),
    ],
  },
  {
    name: "a serial number of 256 characters",
    spec: withDisk({ serial: "a".repeat(256) }),
    want: [],
  },
];

function blockSize(custom: object, bus = "virtio"): object {
  return withDisk({ disk: { bus }, blockSize: { custom } });
}

const SIZE = `${DISK}.blockSize`;

const BLOCK_ROWS: readonly GuestRow[] = [
  ...[
    { logical: 512, physical: 512 },
    { logical: 512, physical: 4096, discardGranularity: 1024 },
    { logical: 2_097_152, physical: 2_097_152 },
  ].map((custom) => ({ name: JSON.stringify(custom), spec: blockSize(custom), want: [] })),
  {
    name: "blocks of 512 bytes on SATA",
    spec: blockSize({ logical: 512, physical: 4096 }, "sata"),
    want: [],
  },
  {
    name: "larger blocks on SATA",
    spec: blockSize({ logical: 4096, physical: 4096 }, ""),
    want: [invalid(`${SIZE}.custom.logical`, "Logical size 4096 must be 512 for SATA devices")],
  },
  {
    name: "logical blocks larger than physical blocks",
    spec: blockSize({ logical: 4096, physical: 512 }),
    want: [
      invalid(
        `${SIZE}.custom.logical`,
        "Logical size 4096 must be the same or less than the physical size of 512",
      ),
    ],
  },
  {
    name: "a granularity that is not a multiple of the block size",
    spec: blockSize({ logical: 512, physical: 512, discardGranularity: 700 }),
    want: [
      invalid(
        `${SIZE}.custom.discardGranularity`,
        "Discard granularity 700 must be multiples of logical size 512",
      ),
    ],
  },
  {
    name: "two sizes out of bounds, both reported",
    spec: blockSize({ logical: 256, physical: 4_194_304 }),
    want: [
      invalid(
        `${SIZE}.custom.logical`,
        "Provided size of 256 is less than the supported minimum size of 512",
      ),
      invalid(
        `${SIZE}.custom.physical`,
        "Provided size of 4194304 is greater than the supported maximum size of 2097152",
      ),
    ],
  },
  {
    name: "a size that is not a power of two",
    spec: blockSize({ logical: 512, physical: 1000 }),
    want: [invalid(`${SIZE}.custom.physical`, "Provided size of 1000 is not a power of 2")],
  },
  {
    name: "custom block sizes together with the volume's",
    spec: withDisk({ blockSize: { custom: { logical: 512, physical: 512 }, matchVolume: {} } }),
    want: [invalid(SIZE, "Block size matching can't be enabled together with a custom value")],
  },
  {
    name: "custom block sizes with the volume's disabled",
    spec: withDisk({
      blockSize: { custom: { logical: 512, physical: 512 }, matchVolume: { enabled: false } },
    }),
    want: [],
  },
];

const CLAIM = { persistentVolumeClaim: { claimName: "a" } };
const SHARED = `${DISK}.shareable`;

const SHARING_ROWS: readonly GuestRow[] = [
  ...[
    { containerDisk: { image: "a" } },
    { ephemeral: CLAIM },
    { emptyDisk: { capacity: "1Gi" } },
  ].flatMap((volume) => {
    const [kind = ""] = Object.keys(volume);
    const message = `${SHARED} is not possible: data written to a volume of kind ${kind} goes to a qcow2 file of this VM alone; use a persistentVolumeClaim, a dataVolume or a hostDisk`;
    const want = [invalid(SHARED, message)];
    return [
      ...[{}, { disk: { bus: "scsi" } }, { cdrom: { readonly: false } }].map((target) => ({
        name: `${kind} as ${JSON.stringify(target)}`,
        spec: withDisk({ ...target, shareable: true }, volume),
        want,
      })),
      ...[{ disk: { bus: "scsi", readonly: true } }, { cdrom: {} }].map((target) => ({
        name: `${kind} as ${JSON.stringify(target)}, read-only`,
        spec: withDisk({ ...target, shareable: true }, volume),
        want: [],
      })),
      {
        name: `${kind} without shareable`,
        spec: withDisk({ shareable: false, cache: "writeback" }, volume),
        want: [],
      },
    ];
  }),
  {
    name: "an image in the old field",
    spec: withDisk({ shareable: true }, { registryDisk: { image: "a" } }),
    want: [expect.arrayContaining(["FieldValueInvalid", SHARED]) as GuestRow["want"][number]],
  },
  ...[
    CLAIM,
    { dataVolume: { name: "a" } },
    { hostDisk: { path: "/srv/a.img", type: "Disk" } },
  ].flatMap((volume) => [
    ...[undefined, "", "none", "directsync"].map((cache) => ({
      name: `${JSON.stringify(volume)} with cache ${JSON.stringify(cache)}`,
      spec: withDisk({ shareable: true, ...(cache === undefined ? {} : { cache }) }, volume),
      want: [],
    })),
    ...["writeback", "writethrough"].map((cache) => ({
      name: `${JSON.stringify(volume)} with cache ${cache}`,
      spec: withDisk({ shareable: true, cache }, volume),
      want: [
        invalid(
          `${DISK}.cache`,
          `a sharable disk requires cache mode none or directsync, got: ${cache}`,
        ),
      ],
    })),
  ]),
];

describe.each([
  ["kinds of disks", KIND_ROWS],
  ["names of disks", NAME_ROWS],
  ["serial numbers", SERIAL_ROWS],
  ["block sizes", BLOCK_ROWS],
  ["disks that are shared", SHARING_ROWS],
])("%s", (_title, rows) => {
  test.each(rows)("$name", ({ spec, want }) => {
    expect(causesOfGuest(spec)).toEqual(want);
  });
});

test("rejects 257 disks with one cause", () => {
  const names = Array.from({ length: 257 }, (_each, index) => `d${String(index)}`);
  const causes = causesOfGuest(
    disksOf(
      names.map((name) => ({ name })),
      names,
    ),
  );
  expect(causes).toEqual([
    invalid(
      "spec.domain.devices.disks",
      "spec.domain.devices.disks list exceeds the 256 element limit in length",
    ),
  ]);
});

test("disks and NICs share one boot order, which starts at one", () => {
  const nic = (name: string, bootOrder: number, more = {}): object => ({
    name,
    bridge: {},
    bootOrder,
    ...more,
  });
  const disks = [
    { name: "a", bootOrder: 1 },
    { name: "b", bootOrder: 2 },
    { name: "c", bootOrder: 0 },
  ];
  const interfaces = [nic("x", 2), nic("y", 3), nic("z", 3, { state: "absent" })];
  const spec = {
    domain: { devices: { disks, interfaces } },
    networks: ["x", "y", "z"].map((name) => ({ name, multus: { networkName: name } })),
    volumes: disks.map(({ name }) => ({ name, containerDisk: { image: "a" } })),
  };
  const path = "spec.domain.devices.disks[2]";
  const field = "spec.domain.devices.interfaces[0].bootOrder";
  expect(causesOfGuest(spec)).toEqual([
    invalid(`${path}.bootOrder`, `${path} must have a boot order > 0, if supplied`),
    invalid(field, `Boot order for ${field} already set for a different device.`),
  ]);
});

test.each([
  { bootOrder: 2_147_483_647, isAccepted: true },
  { bootOrder: 2_147_483_648, isAccepted: false },
  { bootOrder: 3_000_000_000, isAccepted: false },
])("boot order $bootOrder is accepted: $isAccepted", ({ bootOrder, isAccepted }) => {
  const spec = {
    domain: { devices: { disks: [{ name: "a", bootOrder }] } },
    volumes: [{ name: "a", containerDisk: { image: "a" } }],
  };
  const path = "spec.domain.devices.disks[0]";
  const message = `${path} must have a boot order <= 2147483647, because QEMU starts no guest with a larger one`;
  expect(causesOfGuest(spec)).toEqual(isAccepted ? [] : [invalid(`${path}.bootOrder`, message)]);
});

const CLAIM_VOLUME = { persistentVolumeClaim: { claimName: "a" } };
const [FIRST, SECOND] = ["spec.volumes[0]", "spec.volumes[1]"] as const;

/** Two volumes, each with its disk; one that is left out has none. */
function twoUses(
  [one, other]: readonly [object, object],
  disks: readonly [object | undefined, object | undefined] = [{}, {}],
): object {
  const named = disks.flatMap((disk, index) =>
    disk === undefined ? [] : [{ name: index === 0 ? "a" : "b", ...disk }],
  );
  const volumes = [
    { name: "a", ...one },
    { name: "b", ...other },
  ];
  return { domain: { devices: { disks: named } }, volumes };
}

function usedTwice(field: string, what: string): GuestRow["want"] {
  const path = `${SECOND}.${field}`;
  const message = `${path} names ${what}, which ${FIRST} already uses; a writable disk needs it for itself: remove one of the two, or make both read-only or both shareable`;
  return [["FieldValueDuplicate", path, message]];
}

const READ_ONLY = { disk: { bus: "virtio", readonly: true } };
const OF_CLAIM = "persistentVolumeClaim.claimName";
const FILE = { hostDisk: { path: "/srv/a.img", type: "Disk" } };
const SHARED_FILE = { hostDisk: { ...FILE.hostDisk, shared: true } };

const USE_ROWS: readonly GuestRow[] = [
  {
    name: "a claim written by two volumes",
    spec: twoUses([CLAIM_VOLUME, CLAIM_VOLUME]),
    want: usedTwice(OF_CLAIM, "the claim a"),
  },
  {
    name: "a claim of two volumes without disks",
    spec: twoUses([CLAIM_VOLUME, CLAIM_VOLUME], [undefined, undefined]),
    want: usedTwice(OF_CLAIM, "the claim a"),
  },
  {
    name: "a claim that a DataVolume uses too",
    spec: twoUses([CLAIM_VOLUME, { dataVolume: { name: "a" } }]),
    want: usedTwice("dataVolume.name", "the claim a"),
  },
  {
    name: "a claim that is written directly and is the base of an ephemeral disk",
    spec: twoUses([CLAIM_VOLUME, { ephemeral: CLAIM_VOLUME }]),
    want: usedTwice("ephemeral.persistentVolumeClaim.claimName", "the claim a"),
  },
  {
    name: "a claim that one disk reads and another disk writes",
    spec: twoUses([CLAIM_VOLUME, CLAIM_VOLUME], [READ_ONLY, {}]),
    want: usedTwice(OF_CLAIM, "the claim a"),
  },
  {
    name: "a claim with one of two disks shareable",
    spec: twoUses([CLAIM_VOLUME, CLAIM_VOLUME], [{ shareable: true }, {}]),
    want: usedTwice(OF_CLAIM, "the claim a"),
  },
  {
    name: "a claim that several disks read and the last disk writes",
    spec: {
      domain: {
        devices: {
          disks: ["a", "b", "c"].map((name) => ({ name, ...(name !== "c" && READ_ONLY) })),
        },
      },
      volumes: ["a", "b", "c"].map((name) => ({ name, ...CLAIM_VOLUME })),
    },
    want: [
      [
        "FieldValueDuplicate",
        `spec.volumes[2].${OF_CLAIM}`,
        expect.stringContaining(`which ${FIRST} already uses`) as string,
      ],
    ],
  },
  {
    name: "a node file written by two volumes",
    spec: twoUses([FILE, FILE]),
    want: usedTwice("hostDisk.path", "the file /srv/a.img of the node"),
  },
  {
    name: "a claim that is only read",
    spec: twoUses(
      [CLAIM_VOLUME, { persistentVolumeClaim: { claimName: "a", readOnly: true } }],
      [READ_ONLY, {}],
    ),
    want: [],
  },
  {
    name: "a claim with both disks shareable",
    spec: twoUses([CLAIM_VOLUME, CLAIM_VOLUME], [{ shareable: true }, { shareable: true }]),
    want: [],
  },
  {
    name: "a node file that both disks share",
    spec: twoUses([SHARED_FILE, SHARED_FILE]),
    want: [],
  },
  {
    name: "one base for two ephemeral disks",
    spec: twoUses([{ ephemeral: CLAIM_VOLUME }, { ephemeral: CLAIM_VOLUME }]),
    want: [],
  },
  {
    name: "one image for two disks",
    spec: twoUses([{ containerDisk: { image: "a" } }, { containerDisk: { image: "a" } }]),
    want: [],
  },
  {
    name: "two different claims",
    spec: twoUses([CLAIM_VOLUME, { dataVolume: { name: "b" } }]),
    want: [],
  },
];

test.each(USE_ROWS)("$name", ({ spec, want }) => {
  expect(causesOfGuest(spec)).toEqual(want);
});
