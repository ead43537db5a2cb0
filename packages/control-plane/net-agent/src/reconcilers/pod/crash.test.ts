// SPDX-License-Identifier: Apache-2.0
// The agent crashes before each of its calls with outside effects (journal, plugins, links, the pod's status); a new
// agent must reach the same state. The calls are counted, so that new ones are covered too.
import { names } from "@patchbay/api";
import { AppError } from "@patchbay/base";
import { expect, test } from "vitest";
import { inodeOf, World } from "../../testing/world.ts";

const MAC = "02:00:00:00:00:0a";
/** KubeVirt's new name for net1. */
const MOVED = "net1-nic";
const FAILED = new AppError("CNI_PLUGIN_FAILED", { plugin: "bridge", command: "any" });
/** More calls than any scenario has, as a limit for endless ones. */
const CALLS_MAX = 60;
/** Passes after which the state is stable, including failed removals. */
const PASSES = 12;

interface Story {
  readonly name: string;
  /** The runtime attached network a at net1 at pod creation. */
  readonly isMade?: boolean;
  /** Starts with network a at net1 and c at net3. */
  readonly change: (world: World) => Promise<void> | void;
  /** Applied before each pass of an agent. */
  readonly always?: (world: World) => void;
  /** NICs in the pod and in its status. */
  readonly end: readonly string[];
  /** The pod's sandbox at the end. */
  readonly box?: string;
  /** Lost with a plugin that never works: addresses and the plugin's own state. */
  readonly lost?: readonly string[];
  /** NICs that are left to the runtime. */
  readonly theirs?: readonly string[];
}

const A = "ns1/a@net1";
const B = "ns1/b@net1";
const C = "ns1/c@net3";

function newSandbox(world: World): void {
  world.dropNamespace("box-uid-1");
  world.putSandbox("uid-1", "box-2");
}

/** KubeVirt's virt-handler renames the NIC and gives its name to a dummy. */
function move(world: World): void {
  const inode = inodeOf("uid-1");
  const nic = world.podNetwork.findLink(inode, "net1");
  if (nic === undefined) throw new Error("there is no NIC");
  const bridge = { name: "k6t-net1", kind: "bridge", mac: MAC, mtu: 1500, up: true };
  world.podNetwork.putLink(inode, bridge);
  world.podNetwork.putLink(inode, { ...nic, kind: "dummy" });
  world.podNetwork.putLink(inode, { ...nic, name: MOVED, master: bridge.name });
}

const STORIES: readonly Story[] = [
  {
    name: "a plug",
    change: (world) => world.putPod({ networks: "a@net1,c@net3,b@net2" }),
    end: [A, "ns1/b@net2", C],
  },
  {
    name: "a plug whose ADD fails once without leftovers",
    change: (world) => {
      world.cni.failNext("add", FAILED);
      return world.putPod({ networks: "a@net1,c@net3,b@net2" });
    },
    end: [A, "ns1/b@net2", C],
  },
  {
    name: "a plug whose ADD fails once and leaves a NIC",
    change: (world) => {
      world.cni.failNext("add", FAILED, "half");
      return world.putPod({ networks: "a@net1,c@net3,b@net2" });
    },
    end: [A, "ns1/b@net2", C],
  },
  {
    name: "a plug whose ADD and rollback each fail once",
    change: (world) => {
      world.cni.failNext("add", FAILED, "half");
      world.cni.failNext("del", FAILED);
      return world.putPod({ networks: "a@net1,c@net3,b@net2" });
    },
    end: [A, "ns1/b@net2", C],
  },
  {
    name: "an unplug",
    change: (world) => world.putPod({ networks: "c@net3" }),
    end: [C],
  },
  {
    name: "an unplug whose DEL fails once",
    change: (world) => {
      world.cni.failNext("del", FAILED);
      return world.putPod({ networks: "c@net3" });
    },
    end: [C],
  },
  {
    name: "an unplug whose DEL always fails",
    change: (world) => world.putPod({ networks: "c@net3" }),
    always: (world) => {
      world.cni.failNext("del", FAILED);
    },
    end: [C],
  },
  {
    name: "an unplug whose DEL and address release always fail",
    change: (world) => world.putPod({ networks: "c@net3" }),
    always: (world) => {
      world.cni.failNext("del", FAILED);
      world.cni.failNext("release", FAILED);
    },
    end: [C],
    lost: ["box-uid-1/net1"],
  },
  {
    name: "an unplug of a NIC that KubeVirt renamed",
    change: (world) => {
      move(world);
      return world.putPod({ networks: "c@net3" });
    },
    end: [C],
  },
  {
    name: "an unplug of a NIC that KubeVirt renamed, whose DEL always fails",
    change: (world) => {
      move(world);
      return world.putPod({ networks: "c@net3" });
    },
    always: (world) => {
      world.cni.failNext("del", FAILED);
    },
    end: [C],
  },
  { name: "an unplug of all NICs", change: (world) => world.putPod({ networks: "" }), end: [] },
  {
    name: "a swap on one interface",
    change: (world) => world.putPod({ networks: "b@net1,c@net3" }),
    end: [B, C],
  },
  {
    name: "a swap whose ADD fails once",
    change: (world) => {
      world.cni.failNext("add", FAILED, "half");
      return world.putPod({ networks: "b@net1,c@net3" });
    },
    end: [B, C],
  },
  { name: "a new sandbox", change: newSandbox, end: [A, C], box: "box-2" },
  {
    name: "a new sandbox with an unplug before the first observation",
    change: async (world) => {
      await world.putPod({ networks: "c@net3" });
      newSandbox(world);
    },
    end: [C],
    box: "box-2",
  },
  { name: "the end of the pod", change: (world) => world.deletePod(), end: [] },
  {
    name: "the end of the pod, whose DEL always fails",
    change: (world) => world.deletePod(),
    always: (world) => {
      world.cni.failNext("del", FAILED);
    },
    end: [],
  },
  {
    name: "an unplug of an adopted attachment",
    isMade: true,
    change: (world) => world.putPod({ networks: "c@net3" }),
    end: [C],
  },
  {
    name: "a swap of an adopted attachment",
    isMade: true,
    change: (world) => world.putPod({ networks: "b@net1,c@net3" }),
    end: [B, C],
  },
  {
    name: "the end of a pod with an adopted attachment",
    isMade: true,
    change: (world) => world.deletePod(),
    end: [],
    theirs: ["net1"],
  },
];

/** Like after Multus: NIC and status exist, and the agent's journal is empty. */
async function letRuntimeMake(world: World): Promise<void> {
  const link = { name: "net1", kind: "macvlan", mac: MAC, mtu: 1500, up: true };
  world.podNetwork.putLink(inodeOf("uid-1"), link);
  const status = [{ name: "ns1/a", interface: "net1", mac: MAC, dns: {} }];
  const annotations = { [names.NETWORK_STATUS_ANNOTATION]: JSON.stringify(status) };
  await world.putPod({ annotations });
}

async function begin({ isMade = false, change }: Story): Promise<World> {
  const world = new World();
  world.putNads("a", "b", "c");
  await world.putPod({});
  if (isMade) await letRuntimeMake(world);
  await world.putPod({ networks: "a@net1,c@net3" });
  await settle(world);
  await change(world);
  return world;
}

/** Runs agents in sequence until one finds nothing to do, up to a limit. */
async function settle(world: World, always: Story["always"] = () => undefined): Promise<void> {
  let before: number | undefined;
  for (let pass = 0; pass < PASSES && before !== world.effects; pass += 1) {
    before = world.effects;
    always(world);
    await world.pass();
  }
  world.cni.heal();
  expect(await world.pass()).toBeUndefined();
  expect(world.effects).toBe(before);
}

async function expectEnd(world: World, story: Story): Promise<void> {
  const { end, box = "box-uid-1", lost = [], theirs = [] } = story;
  await settle(world, story.always);
  const nics = end.map((entry) => entry.slice(entry.indexOf("@") + 1));
  const inode = box === "box-2" ? "inode-box-2" : inodeOf("uid-1");
  const there = ["net1", "net2", "net3", MOVED].filter(
    (name) => world.podNetwork.findLink(inode, name) !== undefined,
  );
  expect(there).toEqual([...nics, ...theirs]);
  const kept = nics.map((nic) => `${box}/${nic}`);
  expect(world.cni.attachments.toSorted()).toEqual([...kept, ...lost].toSorted());
  const status = await world.networkStatus();
  expect(status.map((entry) => `${entry.name}@${entry.interface ?? ""}`).toSorted()).toEqual(end);
  const rows = await world.journal.list("uid-1");
  expect(rows.map(({ state }) => state)).toEqual(end.map(() => "attached"));
}

test.each(STORIES)("$name converges to the same state after a crash at any call", async (story) => {
  let call = 1;
  for (; call < CALLS_MAX; call += 1) {
    const world = await begin(story);
    story.always?.(world);
    const died = await world.diesAt(call);
    await expectEnd(world, story);
    if (!died) break;
  }
  expect(call).toBeLessThan(CALLS_MAX);
  // Each scenario has several calls.
  expect(call).toBeGreaterThan(2);
});

test.each(STORIES)("$name converges to the same state after two crashes", async (story) => {
  for (let first = 1; first < 8; first += 1) {
    for (let second = 1; second < 8; second += 1) {
      const world = await begin(story);
      story.always?.(world);
      await world.diesAt(first);
      story.always?.(world);
      await world.diesAt(second);
      await expectEnd(world, story);
    }
  }
  expect.hasAssertions();
});
