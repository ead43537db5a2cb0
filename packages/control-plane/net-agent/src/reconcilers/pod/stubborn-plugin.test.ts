// SPDX-License-Identifier: Apache-2.0
// Plugins that fail at every DEL must not hold a NIC, its addresses and its name for ever.
import { AppError } from "@patchbay/base";
import { describe, expect, test } from "vitest";
import { inodeOf, World } from "../../testing/world.ts";

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

describe("a plugin that fails at every DEL", () => {
  const failed = new AppError("CNI_PLUGIN_FAILED", { plugin: "macvlan", command: "DEL" });

  async function passes(world: World, count: number): Promise<unknown> {
    await world.putPod({ networks: "" });
    let last: unknown;
    for (let done = 0; done < count; done += 1) {
      world.cni.failNext("del", failed);
      last = await world.pass();
    }
    return last;
  }

  test("is retried some times; then the NIC is removed, its lease released and its name freed", async () => {
    const world = await aWorld("a");
    await world.pass();
    expect(await passes(world, 4)).toMatchObject({ code: failed.code });
    expect(await interfacesOf(world)).toEqual(["ns1/a@net1"]);
    expect(world.podNetwork.findLink(inodeOf("uid-1"), "net1")).toBeDefined();
    expect(await passes(world, 1)).toBeUndefined();
    expect(world.podNetwork.findLink(inodeOf("uid-1"), "net1")).toBeUndefined();
    expect(world.cni.calls.slice(-2)).toEqual(["DEL box-uid-1/net1", "RELEASE box-uid-1/net1"]);
    expect(await interfacesOf(world)).toEqual([]);
    expect(await world.journal.listPods()).toEqual([]);
    expect(world.notes.at(-2)).toMatchObject({
      reason: "RemovedInterfaceByForce",
      message: expect.stringContaining("its addresses were released") as string,
    });
  });

  test("is reported with the addresses that cannot be released; its NIC is removed nevertheless", async () => {
    const world = await aWorld("a");
    await world.pass();
    await passes(world, 4);
    world.cni.failNext("release", new AppError("CNI_PLUGIN_MISSING", { plugin: "dhcp" }));
    expect(await passes(world, 1)).toBeUndefined();
    expect(world.notes.at(-2)?.message).toContain("its addresses may still be reserved");
    expect(await world.journal.listPods()).toEqual([]);
  });

  test("does not pass its error to the next network with that interface name", async () => {
    const world = await aWorld("a@net1");
    await world.pass();
    world.cni.failNext("del", failed);
    await world.putPod({ networks: "b@net1" });
    await world.pass();
    expect(await world.errorReasons()).toEqual({ net1: "InterfaceNameTaken" });
    for (let done = 0; done < 4; done += 1) {
      world.cni.failNext("del", failed);
      await world.pass();
    }
    expect(await interfacesOf(world)).toEqual(["ns1/b@net1"]);
    expect(await world.errorReasons()).toEqual({});
  });

  test("delays the end of a pod for three attempts in three seconds", async () => {
    const world = await aWorld("a");
    await world.pass();
    await world.deletePod();
    for (const nowMs of [0, 1000, 3000]) {
      world.nowMs = nowMs;
      world.cni.failNext("del", failed);
      await world.continuePass();
    }
    expect(world.cni.calls.slice(1).filter((call) => call.startsWith("DEL"))).toHaveLength(3);
    expect(await world.journal.listPods()).toEqual([]);
  });
});
