// SPDX-License-Identifier: Apache-2.0
import type { PersistentVolume, PersistentVolumeClaim } from "@patchbay/api/kubernetes";
import { expect, test } from "vitest";
import { aClaim, aVolume, withoutClaim } from "../testing.ts";
import { planVolume } from "./volume.ts";

function leaving(volume: PersistentVolume): PersistentVolume {
  return { ...volume, metadata: { ...volume.metadata, deletionTimestamp: "now" } };
}

const RETAIN = { persistentVolumeReclaimPolicy: "Retain" } as const;
const PROMISED = { claimRef: { namespace: "ns", name: "data" } };
const ANOTHER = aClaim({}, { metadata: { name: "data", namespace: "ns", uid: "newer" } });

test.each<{
  name: string;
  volume: PersistentVolume;
  claim?: PersistentVolumeClaim;
  want: readonly string[];
}>([
  { name: "needs no action while its claim exists", volume: aVolume(), claim: aClaim(), want: [] },
  {
    name: "that is being deleted is protected while its claim exists",
    volume: leaving(aVolume()),
    claim: aClaim(),
    want: [],
  },
  {
    name: "is deleted with its claim, storage first",
    volume: aVolume(),
    want: ["reportVolume Released", "removeStorage", "deleteVolume", "removeVolumeFinalizer"],
  },
  {
    name: "is deleted even if a new claim has the same name",
    volume: aVolume(),
    claim: ANOTHER,
    want: ["reportVolume Released", "removeStorage", "deleteVolume", "removeVolumeFinalizer"],
  },
  {
    name: "resumes an interrupted deletion",
    volume: leaving(aVolume("Released")),
    want: ["removeStorage", "removeVolumeFinalizer"],
  },
  {
    name: "is retained after its claim under policy Retain",
    volume: aVolume("Bound", RETAIN),
    want: ["reportVolume Released"],
  },
  {
    name: "that is Released needs no action under policy Retain",
    volume: aVolume("Released", RETAIN),
    want: [],
  },
  {
    name: "that is Released retains its storage when it is deleted",
    volume: leaving(aVolume("Released", RETAIN)),
    want: ["removeVolumeFinalizer"],
  },
  {
    name: "without a claim reference becomes Available",
    volume: withoutClaim(aVolume("Released", RETAIN)),
    want: ["reportVolume Available"],
  },
  {
    name: "without a claim reference retains its storage when it is deleted, under any policy",
    volume: leaving(withoutClaim(aVolume("Available"))),
    want: ["removeVolumeFinalizer"],
  },
  {
    name: "that is reserved for a claim becomes Available",
    volume: aVolume("Pending", PROMISED),
    want: ["reportVolume Available"],
  },
  {
    name: "that is reserved waits for its existing claim",
    volume: aVolume("Available", PROMISED),
    claim: aClaim(),
    want: [],
  },
  {
    name: "of another driver is ignored",
    volume: aVolume("Released", { csi: { driver: "nfs", volumeHandle: "x" } }),
    want: [],
  },
])("a volume $name", ({ volume, claim, want }) => {
  const plan = planVolume({ volume, claim });
  expect(
    plan.map((one) => (one.kind === "reportVolume" ? `${one.kind} ${one.phase}` : one.kind)),
  ).toEqual(want);
});
