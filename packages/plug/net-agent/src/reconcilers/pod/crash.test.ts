// SPDX-License-Identifier: Apache-2.0
// The agent dies before each of its calls to the outside; a new one must bring everything to the same end.
import { expect, test } from "vitest";
import { World } from "../../testing/world.ts";

interface Story {
  readonly name: string;
  /** From a pod that has network a at net1 and c at net3. */
  readonly change: (world: World) => Promise<void>;
  readonly attachments: readonly string[];
  readonly status: readonly string[];
}

const STORIES: readonly Story[] = [
  {
    name: "a plug",
    change: (world) => world.putPod({ networks: "a@net1,c@net3,b@net2" }),
    attachments: ["box-uid-1/net1", "box-uid-1/net2", "box-uid-1/net3"],
    status: ["ns1/a@net1", "ns1/b@net2", "ns1/c@net3"],
  },
  {
    name: "an unplug",
    change: (world) => world.putPod({ networks: "c@net3" }),
    attachments: ["box-uid-1/net3"],
    status: ["ns1/c@net3"],
  },
  {
    name: "an unplug of everything",
    change: (world) => world.putPod({ networks: "" }),
    attachments: [],
    status: [],
  },
  {
    name: "a swap on one interface",
    change: (world) => world.putPod({ networks: "b@net1,c@net3" }),
    attachments: ["box-uid-1/net1", "box-uid-1/net3"],
    status: ["ns1/b@net1", "ns1/c@net3"],
  },
  {
    name: "a new sandbox",
    change: (world) => {
      world.dropNamespace("box-uid-1");
      world.putSandbox("uid-1", "box-2");
      return Promise.resolve();
    },
    attachments: ["box-2/net1", "box-2/net3"],
    status: ["ns1/a@net1", "ns1/c@net3"],
  },
  {
    name: "the end of the pod",
    change: (world) => world.deletePod(),
    attachments: [],
    status: [],
  },
];

async function begin({ change }: Story): Promise<World> {
  const world = new World();
  world.putNads("a", "b", "c");
  await world.putPod({ networks: "a@net1,c@net3" });
  expect(await world.pass()).toBeUndefined();
  await change(world);
  return world;
}

async function expectEnd(world: World, story: Story): Promise<void> {
  expect(await world.pass()).toBeUndefined();
  expect(world.cni.attachments.toSorted()).toEqual(story.attachments);
  const status = await world.networkStatus();
  const entries = status.map((entry) => `${entry.name}@${entry.interface ?? ""}`);
  expect(entries.toSorted()).toEqual(story.status);
  expect(await world.journal.list("uid-1")).toHaveLength(story.attachments.length);
  const before = world.cni.calls.length;
  expect(await world.pass()).toBeUndefined();
  expect(world.cni.calls).toHaveLength(before);
}

test.each(STORIES)("$name ends the same, whenever the agent dies", async (story) => {
  let call = 1;
  for (; call < 50; call += 1) {
    const world = await begin(story);
    const died = await world.dies(call);
    await expectEnd(world, story);
    if (!died) break;
  }
  // Each story has several calls at which it can be cut.
  expect(call).toBeGreaterThan(3);
});

test.each(STORIES)("$name ends the same when two agents die one after the other", async (story) => {
  for (let first = 1; first < 8; first += 1) {
    for (let second = 1; second < 8; second += 1) {
      const world = await begin(story);
      await world.dies(first);
      await world.dies(second);
      await expectEnd(world, story);
    }
  }
  expect.hasAssertions();
});
