// SPDX-License-Identifier: Apache-2.0
// Concurrent writers of the pod's annotations.
import { names, PODS } from "@patchbay/api";
import { describe, expect, test } from "vitest";
import { World } from "../../testing/world.ts";

const FOREIGN = [{ name: "kindnet", interface: "eth0", default: true, dns: {} }];

/** A node with networks a and b, and the pod. */
async function aWorld(networks?: string): Promise<World> {
  const world = new World();
  world.putNads("a", "b");
  await world.putPod(networks === undefined ? {} : { networks });
  return world;
}

async function interfacesOf(world: World): Promise<readonly string[]> {
  return (await world.networkStatus()).map((entry) => `${entry.name}@${entry.interface ?? ""}`);
}

describe("another writer of the pod", () => {
  test("makes the pass fail and retry when it always writes first", async () => {
    const world = await aWorld("a");
    world.beforeEachWrite = () => {
      world.store.beforeNextWrite(() => {
        void world.putPod({ networks: "a" });
      });
    };
    expect(await world.pass()).toMatchObject({
      code: "KUBE_CONFLICT",
      details: { resource: "pods", object: "ns1/pod" },
    });
    expect(world.store.calls.filter((call) => call.startsWith("patch"))).toHaveLength(5);
  });

  test("may delete the pod during the pass", async () => {
    const world = await aWorld("a");
    world.store.beforeNextWrite(() => {
      void world.store.delete(PODS, { namespace: "ns1", name: "pod" });
    });
    expect(await world.pass()).toBeUndefined();
    expect(await world.pass()).toBeUndefined();
    expect(world.cni.attachments).toEqual([]);
  });

  test("loses none of its changes", async () => {
    const world = await aWorld("a");
    world.store.beforeNextWrite(() => {
      void world.putPod({
        networks: "a",
        annotations: { [names.NETWORK_STATUS_ANNOTATION]: JSON.stringify(FOREIGN) },
      });
    });
    expect(await world.pass()).toBeUndefined();
    expect(await interfacesOf(world)).toEqual(["kindnet@eth0", "ns1/a@net1"]);
  });
});
