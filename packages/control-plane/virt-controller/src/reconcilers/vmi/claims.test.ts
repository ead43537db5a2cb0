// SPDX-License-Identifier: Apache-2.0
// A VMI with a disk on a claim: it waits for the claim, reports that, and mounts it in the launcher.
import { PERSISTENT_VOLUME_CLAIMS, PODS, VIRTUAL_MACHINE_INSTANCES } from "@patchbay/api";
import type { PersistentVolumeClaim } from "@patchbay/api/kubernetes";
import { aVmi } from "@patchbay/support";
import { expect, test } from "vitest";
import { Bench } from "../../testing/bench.ts";

const CLAIM: PersistentVolumeClaim = {
  apiVersion: "v1",
  kind: "PersistentVolumeClaim",
  metadata: { name: "data", namespace: "default" },
  spec: { volumeMode: "Block", resources: { requests: { storage: "1Gi" } } },
};

test("the launcher is created when the claim exists", async () => {
  const bench = new Bench();
  const vmi = aVmi();
  const volumes = [{ name: "a", persistentVolumeClaim: { claimName: "data" } }];
  const spec = { ...vmi.spec, volumes };
  await bench.put(VIRTUAL_MACHINE_INSTANCES, { ...vmi, spec });
  await bench.settleVmi();
  expect((await bench.server.list(PODS)).items).toEqual([]);
  expect(bench.events).toEqual([
    expect.stringMatching(/^VirtualMachineInstance Warning FailedPvcNotFound: .* data does not/),
  ]);
  await bench.put(PERSISTENT_VOLUME_CLAIMS, CLAIM);
  await bench.settleVmi();
  const [pod] = (await bench.server.list(PODS)).items;
  expect(pod?.spec.containers[0]?.volumeDevices).toEqual([
    { name: "volume-0", devicePath: "/dev/volumes/a" },
  ]);
  const { status } = (await bench.vmi()) ?? {};
  expect(status?.volumeStatus).toMatchObject([
    { name: "a", persistentVolumeClaimInfo: { claimName: "data", volumeMode: "Block" } },
  ]);
  expect(status?.conditions?.some(({ type }) => type === "Synchronized")).toBe(false);
});
