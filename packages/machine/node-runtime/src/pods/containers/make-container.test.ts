// SPDX-License-Identifier: Apache-2.0
// What is looked at before a container is made, on a node in memory.
import { expect, test } from "vitest";
import { aContainer, aPod, UID } from "../../testing/pods.ts";
import { PodWorld } from "../../testing/world.ts";

const volumes = [{ name: "v", persistentVolumeClaim: { claimName: "data" } }];
const volumeDevices = [{ name: "v", devicePath: "/dev/v" }];
const POD = aPod({ volumes, containers: [aContainer({ volumeDevices })] });

/** A world whose volume is of that kind. */
async function aWorld(kind: "Directory" | "BlockDevice" | undefined): Promise<PodWorld> {
  const world = new PodWorld();
  if (kind !== undefined) world.disk.setKind(`/p/${UID}/v`, kind);
  await world.put(POD);
  await world.run();
  return world;
}

test("a device that is one is given to the container", async () => {
  const world = await aWorld("BlockDevice");
  expect(await world.remains()).toContain("compute 0 RUNNING");
});

test.each([
  { kind: "Directory", words: "is Directory" },
  { kind: undefined, words: "is not there" },
] as const)(
  "a device that $words makes no container, and its pod says so",
  async ({ kind, words }) => {
    const world = await aWorld(kind);
    expect(await world.remains()).toEqual(["sandbox 0 READY"]);
    const waiting = (await world.pod())?.status?.containerStatuses?.[0]?.state.waiting;
    expect(waiting?.message).toContain(`/p/${UID}/v would be its device, and ${words}`);
  },
);
