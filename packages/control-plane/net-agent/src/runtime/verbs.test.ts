// SPDX-License-Identifier: Apache-2.0
// CHECK, STATUS and GC of the container runtime run the networks' plugins.
import { AppError } from "@patchbay/base";
import { beforeEach, describe, expect, test } from "vitest";
import { FakeRuntime } from "../testing/runtime.ts";
import { World } from "../testing/world.ts";

const NEWEST = { cniVersion: "1.1.0", type: "bridge" };
let world: World;
let runtime: FakeRuntime;

function failure(cniCode: number): AppError {
  const message = "no daemon";
  return new AppError("CNI_PLUGIN_FAILED", { plugin: "bridge", command: "X", message, cniCode });
}

/** Plugin calls caused by one call of the runtime. */
async function callsOf(...call: Parameters<FakeRuntime["call"]>) {
  const before = world.cni.calls.length;
  const { status, parsed } = await runtime.call(...call);
  return { status, parsed, calls: world.cni.calls.slice(before) };
}

beforeEach(async () => {
  world = new World();
  runtime = new FakeRuntime(world);
  runtime.network = { cniVersion: "1.1.0", name: "everyone", plugins: [{ type: "bridge" }] };
  for (const name of ["a", "b"]) {
    world.putNad({ namespace: "ns1", name }, { ...NEWEST, disableCheck: name === "b" });
  }
  await world.putPod({ networks: "a,b" });
  await runtime.call("ADD");
});

describe("CHECK", () => {
  test("runs the plugins of each network that can be checked", async () => {
    expect(await callsOf("CHECK")).toEqual({
      status: 200,
      parsed: undefined,
      calls: ["CHECK box-uid-1/eth0", "CHECK box-uid-1/net1"],
    });
  });

  test("returns a plugin's error with its code", async () => {
    world.cni.failNext("check", failure(107));
    const { status, parsed } = await callsOf("CHECK");
    expect([status, parsed]).toMatchObject([
      400,
      { code: 107, msg: expect.stringContaining("no daemon") as string },
    ]);
  });

  test("runs no plugin when a NIC is missing", async () => {
    world.podNetwork.takeLink("inode-uid-1", "net2");
    expect(await callsOf("CHECK")).toMatchObject({ status: 400, calls: [] });
  });

  test("runs no plugin for a launcher, whose addresses are on the guest", async () => {
    world.putVmi("vmi-1");
    await world.putPod({ networks: "a,b", launcherOf: "vmi-1" });
    expect(await callsOf("CHECK")).toMatchObject({ status: 200, calls: [] });
  });

  test("runs the plugins of one network for the dynamic networks controller", async () => {
    world.mode = "multus-dynamic";
    const call = { url: "/delegate", env: { CNI_IFNAME: "net1" } };
    expect(await callsOf("CHECK", call)).toMatchObject({
      status: 200,
      calls: ["CHECK box-uid-1/net1"],
    });
    world.cni.failNext("check", failure(107));
    expect(await callsOf("CHECK", call)).toMatchObject({ status: 400, parsed: { code: 107 } });
  });
});

describe("STATUS", () => {
  test("runs the plugins of the default network only", async () => {
    expect(await callsOf("STATUS")).toEqual({
      status: 200,
      parsed: undefined,
      calls: ["STATUS everyone"],
    });
  });

  test.each([
    { name: "that it is not available", code: 50, want: 50 },
    { name: "limited", code: 51, want: 51 },
    { name: "any other error", code: 999, want: 50 },
  ])("a plugin that reports $name", async ({ code, want }) => {
    world.cni.failNext("status", failure(code));
    expect((await callsOf("STATUS")).parsed).toMatchObject({
      code: want,
      msg: expect.stringContaining("no daemon") as string,
    });
  });
});

describe("GC", () => {
  const naming = (...ids: readonly string[]) => ({
    config: {
      "cni.dev/valid-attachments": ids.map((containerID) => ({ containerID, ifname: "eth0" })),
    },
  });

  beforeEach(async () => {
    await world.files.writeAtomic("/cache/results/x-y-z", "{}");
  });

  test("runs GC of all networks for attachments that no longer exist", async () => {
    expect(await callsOf("GC", naming("box-uid-1"))).toMatchObject({
      status: 200,
      calls: ["GC everyone box-uid-1/eth0", "GC a box-uid-1/net1", "GC b box-uid-1/net2"],
    });
  });

  test("first releases sandboxes that the runtime does not list", async () => {
    world.sandboxes.take("uid-1");
    const { calls } = await callsOf("GC", naming());
    expect(calls.filter((call) => call.startsWith("GC"))).toEqual(["GC everyone", "GC a", "GC b"]);
    expect(calls.findIndex((call) => call.startsWith("GC"))).toBe(3);
  });

  test("postpones an uncertain GC without an error", async () => {
    await world.files.writeAtomic("/cache/results/a-box-7-net1", "{");
    const { status, calls } = await callsOf("GC", naming("box-uid-1"));
    expect(status).toBe(200);
    expect(calls).toEqual(["GC everyone box-uid-1/eth0", "GC b box-uid-1/net2"]);
  });

  test("continues after a failed plugin and returns its error", async () => {
    world.cni.failNext("gc", failure(107));
    const { parsed, calls } = await callsOf("GC", naming("box-uid-1"));
    expect(parsed).toMatchObject({ code: 107 });
    expect(calls).toHaveLength(3);
  });

  test("collects for the other networks without a default network", async () => {
    runtime.network = undefined;
    const { status, calls } = await callsOf("GC", naming("box-uid-1"));
    expect([status, calls]).toEqual([200, ["GC a box-uid-1/net1", "GC b box-uid-1/net2"]]);
  });
});
