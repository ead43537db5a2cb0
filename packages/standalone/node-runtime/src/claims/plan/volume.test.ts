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
  { name: "rests while its claim is there", volume: aVolume(), claim: aClaim(), want: [] },
  {
    name: "is kept by a person's deletion only until its claim goes",
    volume: leaving(aVolume()),
    claim: aClaim(),
    want: [],
  },
  {
    name: "goes with its claim, storage first",
    volume: aVolume(),
    want: ["reportVolume Released", "removeStorage", "deleteVolume", "removeVolumeFinalizer"],
  },
  {
    name: "goes although a new claim of that name is there",
    volume: aVolume(),
    claim: ANOTHER,
    want: ["reportVolume Released", "removeStorage", "deleteVolume", "removeVolumeFinalizer"],
  },
  {
    name: "goes on going where that was cut",
    volume: leaving(aVolume("Released")),
    want: ["removeStorage", "removeVolumeFinalizer"],
  },
  {
    name: "stays after its claim where that is wanted",
    volume: aVolume("Bound", RETAIN),
    want: ["reportVolume Released"],
  },
  { name: "rests when it has stayed", volume: aVolume("Released", RETAIN), want: [] },
  {
    name: "that has stayed leaves its storage behind",
    volume: leaving(aVolume("Released", RETAIN)),
    want: ["removeVolumeFinalizer"],
  },
  {
    name: "that nobody has any more can be had",
    volume: withoutClaim(aVolume("Released", RETAIN)),
    want: ["reportVolume Available"],
  },
  {
    name: "that nobody has leaves its storage behind, whatever its policy",
    volume: leaving(withoutClaim(aVolume("Available"))),
    want: ["removeVolumeFinalizer"],
  },
  {
    name: "that is promised can be had",
    volume: aVolume("Pending", PROMISED),
    want: ["reportVolume Available"],
  },
  {
    name: "that is promised waits for who is there",
    volume: aVolume("Available", PROMISED),
    claim: aClaim(),
    want: [],
  },
  {
    name: "of another driver is nobody's matter here",
    volume: aVolume("Released", { csi: { driver: "nfs", volumeHandle: "x" } }),
    want: [],
  },
])("a volume $name", ({ volume, claim, want }) => {
  const plan = planVolume({ volume, claim });
  expect(
    plan.map((one) => (one.kind === "reportVolume" ? `${one.kind} ${one.phase}` : one.kind)),
  ).toEqual(want);
});
