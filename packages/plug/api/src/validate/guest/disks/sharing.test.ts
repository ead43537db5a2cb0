// SPDX-License-Identifier: Apache-2.0
// Which volumes of one VM can have the same claim, or the same file of the node.
import { expect, test } from "vitest";
import { causesOfGuest, type GuestRow } from "../../../testing/guest-rows.ts";

const CLAIM = { persistentVolumeClaim: { claimName: "a" } };
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
    name: "a claim that two volumes write to",
    spec: twoUses([CLAIM, CLAIM]),
    want: usedTwice(OF_CLAIM, "the claim a"),
  },
  {
    name: "a claim of two volumes that no disk names",
    spec: twoUses([CLAIM, CLAIM], [undefined, undefined]),
    want: usedTwice(OF_CLAIM, "the claim a"),
  },
  {
    name: "a claim that is a DataVolume's too",
    spec: twoUses([CLAIM, { dataVolume: { name: "a" } }]),
    want: usedTwice("dataVolume.name", "the claim a"),
  },
  {
    name: "a claim that is written to, and the base of an ephemeral disk",
    spec: twoUses([CLAIM, { ephemeral: CLAIM }]),
    want: usedTwice("ephemeral.persistentVolumeClaim.claimName", "the claim a"),
  },
  {
    name: "a claim that one disk reads and the other writes",
    spec: twoUses([CLAIM, CLAIM], [READ_ONLY, {}]),
    want: usedTwice(OF_CLAIM, "the claim a"),
  },
  {
    name: "a claim of which one disk is shareable",
    spec: twoUses([CLAIM, CLAIM], [{ shareable: true }, {}]),
    want: usedTwice(OF_CLAIM, "the claim a"),
  },
  {
    name: "a file of the node that two volumes write to",
    spec: twoUses([FILE, FILE]),
    want: usedTwice("hostDisk.path", "the file /srv/a.img of the node"),
  },
  {
    name: "a claim that nobody writes to",
    spec: twoUses(
      [CLAIM, { persistentVolumeClaim: { claimName: "a", readOnly: true } }],
      [READ_ONLY, {}],
    ),
    want: [],
  },
  {
    name: "a claim of which both disks are shareable",
    spec: twoUses([CLAIM, CLAIM], [{ shareable: true }, { shareable: true }]),
    want: [],
  },
  {
    name: "a file of the node that both share",
    spec: twoUses([SHARED_FILE, SHARED_FILE]),
    want: [],
  },
  {
    name: "the base of two ephemeral disks",
    spec: twoUses([{ ephemeral: CLAIM }, { ephemeral: CLAIM }]),
    want: [],
  },
  {
    name: "an image twice",
    spec: twoUses([{ containerDisk: { image: "a" } }, { containerDisk: { image: "a" } }]),
    want: [],
  },
  {
    name: "two claims",
    spec: twoUses([CLAIM, { dataVolume: { name: "b" } }]),
    want: [],
  },
];

test.each(USE_ROWS)("$name", ({ spec, want }) => {
  expect(causesOfGuest(spec)).toEqual(want);
});
