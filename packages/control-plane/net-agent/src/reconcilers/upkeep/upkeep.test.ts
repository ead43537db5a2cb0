// SPDX-License-Identifier: Apache-2.0
// Upkeep rounds over networks and attachments.
import type { Pod } from "@patchbay/api/kubernetes";
import { AppError } from "@patchbay/base";
import { DEFAULT_POLICY } from "@patchbay/core/nics";
import { beforeEach, describe, expect, test } from "vitest";
import { World } from "../../testing/world.ts";
import { isStarting } from "./collect.ts";

const NEWEST = { cniVersion: "1.1.0", type: "bridge", bridge: "blue0" };
const FAILURE = { plugin: "bridge", command: "STATUS", message: "no daemon", cniCode: 50 };
const RESULTS = "/multus/results";

let world: World;

/** As libcni writes it. */
function remember(name: string, more: Readonly<Record<string, unknown>> = {}): Promise<void> {
  const entry = { kind: "cniCacheV1", networkName: "blue", ifName: "net7", ...more };
  return world.files.writeAtomic(`${RESULTS}/${name}`, JSON.stringify(entry));
}

/** Recorded events, as `reason: message`. */
function told(): readonly string[] {
  const notes = world.notes.filter(({ reason }) => !reason.endsWith("edInterface"));
  world.notes.length = 0;
  return notes.map(({ reason, message }) => `${reason}: ${message}`);
}

/** CNI calls of one round. */
async function round(): Promise<readonly string[]> {
  const before = world.cni.calls.length;
  await world.upkeep();
  return world.cni.calls.slice(before);
}

beforeEach(async () => {
  world = new World();
  await remember("other-box-9-net7", { networkName: "other", containerId: "box-9" });
  world.putNad({ namespace: "ns1", name: "blue" }, NEWEST);
  await world.putPod({ networks: "blue@net1" });
  await world.pass();
  told();
});

describe("unused addresses are released", () => {
  test("of all attachments that neither the agent nor a cache records", async () => {
    await remember("blue-box-2-net7", { containerId: "box-2" });
    await remember("blue-box-3-net7", { containerId: "box-3", networkName: "blue-box" });
    expect(await round()).toContain("GC blue box-uid-1/net1 box-2/net7");
    expect(told()).toEqual([]);
  });

  test("but not of attachments that are being removed or were removed", async () => {
    await world.putPod({ networks: "" });
    await world.continuePass();
    expect(await round()).toContain("GC blue");
  });

  test("only for networks whose CNI version and configuration support GC", async () => {
    world.putNad({ namespace: "ns1", name: "blue" }, { ...NEWEST, cniVersion: "1.0.0" });
    world.putNad({ namespace: "ns1", name: "green" }, { ...NEWEST, disableGC: true });
    expect((await round()).filter((call) => call.startsWith("GC"))).toEqual([]);
  });

  test.each([
    {
      name: "another component's result cache is unreadable",
      prepare: () => world.files.writeAtomic(`${RESULTS}/blue-box-2-net7`, "{"),
      why: `${RESULTS}/blue-box-2-net7 cannot be read`,
    },
    {
      name: "another component's result cache has an unknown format",
      prepare: () => remember("blue-box-2-net7", { kind: "cniCacheV2", containerId: "box-2" }),
      why: `${RESULTS}/blue-box-2-net7 cannot be read`,
    },
    {
      name: "a pod is starting",
      prepare: () => world.putPod({ networks: "blue@net1", phase: "Pending" }),
      why: "pod ns1/pod is being started",
    },
    {
      name: "no other component's result cache is found",
      prepare: () => world.files.remove(RESULTS),
      why: "the attachments of other components are unknown: no --cni-cache-dir has results",
    },
    {
      name: "a tenant's configuration has the name of another runtime's network",
      prepare: () => {
        world.policy = DEFAULT_POLICY;
        return remember("blue-box-2-eth0", { containerId: "box-2", ifName: "eth0" });
      },
      why: "its configuration has the name blue, which another runtime uses",
    },
  ])("unless $name", async ({ prepare, why }) => {
    await prepare();
    expect((await round()).filter((call) => call.startsWith("GC"))).toEqual([]);
    const about = "unused resources of network blue cannot be released now";
    expect(told()).toEqual([`UnusedNotFreed: on this node: ${about}: ${why}`]);
    await round();
    expect(told()).toEqual([]);
  });

  test("unless a journal row is unreadable", async () => {
    await world.files.writeAtomic("/state/journal/uid-9/box-9.net1.json", "{");
    await world.pass();
    expect((await round()).filter((call) => call.startsWith("GC"))).toEqual([]);
    expect(told().join()).toContain("the journal of pod uid-9 cannot be read");
  });

  test("in mode alone, even if no cache is readable", async () => {
    world.mode = "alone";
    await world.files.remove(RESULTS);
    await world.pass();
    expect(await round()).toContain("GC blue box-uid-1/net1");
  });

  test("of other networks when one fails, and the recovery is reported too", async () => {
    world.putNad({ namespace: "ns1", name: "green" }, NEWEST);
    world.cni.failNext("gc", new AppError("CNI_PLUGIN_FAILED", { ...FAILURE, command: "GC" }));
    expect((await round()).filter((call) => call.startsWith("GC"))).toEqual([
      "GC blue box-uid-1/net1",
      "GC green",
    ]);
    expect(told()).toEqual([
      "UnusedNotFreed: on this node: CNI plugin bridge failed on GC: no daemon",
    ]);
    await round();
    expect(told()).toEqual(["UnusedFreed: unused addresses are released again on this node"]);
  });
});

describe("STATUS is run for networks that pods request", () => {
  test("and for no others", async () => {
    world.putNad({ namespace: "ns1", name: "green" }, NEWEST);
    expect((await round()).filter((call) => call.startsWith("STATUS"))).toEqual(["STATUS blue"]);
  });

  test("and a failure is reported once, as is its end", async () => {
    const refuse = (message: string): void => {
      world.cni.failNext("status", new AppError("CNI_PLUGIN_FAILED", { ...FAILURE, message }));
    };
    const why =
      "NetworkNotReady: this node cannot attach it now: CNI plugin bridge failed on STATUS";
    refuse("no daemon");
    await round();
    expect(told()).toEqual([`${why}: no daemon`]);
    refuse("no daemon");
    await round();
    expect(told()).toEqual([]);
    refuse("no disk");
    await round();
    expect(told()).toEqual([`${why}: no disk`]);
    await round();
    expect(told()).toEqual(["NetworkReady: this node can attach it again"]);
  });

  test("does not run a forbidden definition", async () => {
    world.policy = { ...DEFAULT_POLICY, plugins: ["!*"] };
    expect(await round()).toEqual(["CHECK box-uid-1/net1"]);
  });
});

describe("attachments are checked", () => {
  const failCheck = (): void => {
    const failure = { ...FAILURE, command: "CHECK", message: "no address", cniCode: 999 };
    world.cni.failNext("check", new AppError("CNI_PLUGIN_FAILED", failure));
  };

  test("and a finding is reported once, without a new attachment", async () => {
    failCheck();
    await round();
    expect(told()).toEqual([
      "InterfaceChanged: net1 of ns1/blue has changed since it was attached: CNI plugin bridge failed on CHECK: no address",
    ]);
    failCheck();
    await round();
    expect(told()).toEqual([]);
    await round();
    expect(told()).toEqual(["InterfaceAsAttached: net1 matches its attachment again"]);
    expect(world.cni.calls.filter((call) => /^(ADD|DEL)/.test(call))).toEqual([
      "ADD box-uid-1/net1",
    ]);
  });

  test.each([
    { name: "has ended", change: () => world.putPod({ phase: "Succeeded" }) },
    { name: "is being deleted", change: () => world.putPod({ isDeleting: true }) },
    { name: "is deleted", change: () => world.deletePod() },
    {
      name: "is a launcher, because its guest has the addresses",
      change: () => {
        world.putVmi("vmi-1", "blue");
        return world.putPod({ networks: "blue@net1", launcherOf: "vmi-1" });
      },
    },
    {
      name: "has lost its namespace",
      change: () => {
        world.dropNamespace("box-uid-1");
        return Promise.resolve();
      },
    },
  ])("but not those of a pod that $name", async ({ change }) => {
    await change();
    expect((await round()).filter((call) => call.startsWith("CHECK"))).toEqual([]);
  });
});

test.each([
  { name: "runs", pod: { phase: "Running" }, want: false },
  { name: "is pending", pod: { phase: "Pending" }, want: true },
  {
    name: "is pending and already has its networks",
    pod: { phase: "Pending", attached: "True" },
    want: false,
  },
  { name: "gets another sandbox", pod: { phase: "Running", attached: "False" }, want: true },
  { name: "uses the host network", pod: { phase: "Pending", hostNetwork: true }, want: false },
])("a pod that $name is starting: $want", ({ pod, want }) => {
  const {
    phase,
    attached,
    hostNetwork = false,
  } = pod as {
    phase: "Running" | "Pending";
    attached?: "True" | "False";
    hostNetwork?: boolean;
  };
  const conditions =
    attached === undefined ? [] : [{ type: "PodReadyToStartContainers", status: attached }];
  const made: Pod = {
    apiVersion: "v1",
    kind: "Pod",
    metadata: { name: "pod" },
    spec: { containers: [], hostNetwork },
    status: { phase, conditions },
  };
  expect(isStarting(made)).toBe(want);
});

describe("the default network that the agent attaches", () => {
  const config = { cniVersion: "1.1.0", name: "everyone", plugins: [{ type: "bridge" }] };

  beforeEach(() => {
    world.readDefaultNetwork = () => Promise.resolve(config);
  });

  test("is checked like other networks, although no pod names it", async () => {
    await remember("everyone-box-4-eth0", {
      networkName: "everyone",
      containerId: "box-4",
      ifName: "eth0",
    });
    const calls = await round();
    expect(calls).toContain("STATUS everyone");
    expect(calls).toContain("GC everyone box-4/eth0");
    expect(told()).toEqual([]);
  });

  test("has no definition for events, so findings are only logged", async () => {
    world.cni.failNext("status", new AppError("CNI_PLUGIN_FAILED", FAILURE));
    await round();
    expect(told()).toEqual([]);
    await round();
    expect(world.lines).toContainEqual({
      message: "a problem that upkeep found is resolved",
      fields: {
        object: "status everyone",
        step: "NetworkReady",
        reason: expect.any(String) as string,
      },
    });
  });

  test("is skipped while its file is unreadable", async () => {
    const missing = new AppError("CNI_DEFAULT_NETWORK_MISSING", { reason: "gone" });
    world.readDefaultNetwork = () => Promise.reject(missing);
    expect(await round()).toContain("GC blue box-uid-1/net1");
  });
});
