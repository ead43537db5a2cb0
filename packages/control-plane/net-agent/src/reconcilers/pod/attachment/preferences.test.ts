// SPDX-License-Identifier: Apache-2.0
// Previous addresses and MACs of a NIC are requested from networks that support it, and are never required.
import { AppError } from "@patchbay/base";
import type { CniResult } from "@patchbay/core/interfaces";
import { beforeEach, describe, expect, test } from "vitest";
import { World } from "../../../testing/world.ts";

const IPS = ["10.0.0.5", "fd00::5"];
const HOST_LOCAL = { type: "bridge", ipam: { type: "host-local" } };
const REFUSED = new AppError("CNI_PLUGIN_FAILED", {
  plugin: "bridge",
  command: "ADD",
  message: "all requested IPs are taken",
});

let world: World;

beforeEach(() => {
  world = new World();
});

function give(...ips: readonly string[]): void {
  world.resultOf = (result): CniResult => ({
    ...result,
    ips: ips.map((address) => ({ interface: 0, address: `${address}/64` })),
  });
}

async function attach(plugin: object, more: object = {}): Promise<unknown> {
  world.putNad({ namespace: "ns1", name: "a" }, { cniVersion: "1.0.0", ...plugin });
  const element = { name: "a", interface: "net1", "io.patchbay.kept-ips": IPS, ...more };
  await world.putPod({ networks: JSON.stringify([element]) });
  return world.pass();
}

function notKept(): readonly string[] {
  return world.notes.filter(({ reason }) => reason === "AddressNotKept").map((n) => n.message);
}

/** Addresses that the ADDs requested, as capability or as argument. */
function asked(): readonly unknown[] {
  return world.requests.map(({ request: { config, capabilityArgs } }) => {
    const [plugin] = config.plugins;
    return capabilityArgs["ips"] ?? plugin?.["args"];
  });
}

const BY_ARGS = { cni: { ips: IPS } };

describe("previous addresses are requested", () => {
  test.each([
    { name: "by the plugin's arguments for host-local", plugin: HOST_LOCAL, want: BY_ARGS },
    {
      name: "by the capability if the plugin declares one",
      plugin: { ...HOST_LOCAL, capabilities: { ips: true } },
      want: IPS,
    },
    {
      name: "by the capability of an unknown plugin",
      plugin: { type: "own", capabilities: { ips: true } },
      want: IPS,
    },
  ])("$name", async ({ plugin, want }) => {
    give(...IPS);
    expect(await attach(plugin)).toBeUndefined();
    expect(asked()).toEqual([want]);
    expect(notKept()).toEqual([]);
  });

  test.each([
    {
      name: "static, which assigns the configured addresses",
      plugin: { ipam: { type: "static" } },
    },
    {
      name: "static, regardless of its capabilities",
      plugin: { ipam: { type: "static" }, capabilities: { ips: true } },
    },
    { name: "dhcp, whose server assigns addresses", plugin: { ipam: { type: "dhcp" } } },
    { name: "of an unknown type", plugin: { ipam: { type: "own" } } },
    { name: "if none is configured", plugin: {} },
  ])("are not requested from IPAM plugin $name", async ({ plugin }) => {
    give("10.0.0.9");
    expect(await attach({ type: "bridge", ...plugin })).toBeUndefined();
    expect(asked()).toEqual([undefined]);
    expect(notKept()).toEqual([
      "net1 of ns1/a did not get 10.0.0.5, fd00::5 again: the network does not support requested addresses",
    ]);
  });

  test.each([
    { name: "addresses", more: { ips: ["10.0.0.9"] }, want: undefined },
    {
      name: "arguments",
      more: { "cni-args": { ips: ["10.0.0.9"] } },
      want: { cni: { ips: ["10.0.0.9"] } },
    },
  ])("are not requested when the element requests $name", async ({ more, want }) => {
    give("10.0.0.9");
    expect(await attach(HOST_LOCAL, more)).toBeUndefined();
    expect(asked()).toEqual([want]);
    expect(notKept()).toEqual([]);
  });
});

describe("previous addresses that the network rejects", () => {
  test("are replaced by others: the first attempt is undone and the reason reported", async () => {
    world.cni.failNext("add", REFUSED);
    give("10.0.0.9");
    expect(await attach(HOST_LOCAL)).toBeUndefined();
    expect(world.cni.calls.map((call) => call.slice(0, 3))).toEqual(["ADD", "DEL", "ADD"]);
    expect(asked()).toEqual([BY_ARGS, BY_ARGS, undefined]);
    const [row] = await world.journal.list("uid-1");
    expect(row).toMatchObject({ state: "attached", request: { interfaceName: "net1" } });
    expect(notKept()).toEqual([
      expect.stringMatching(
        /did not get 10\.0\.0\.5, fd00::5 again: .*all requested IPs are taken/,
      ),
    ]);
    expect(await world.errorReasons()).toEqual({});
  });

  test("are reported when the network ignores the request", async () => {
    give("10.0.0.5", "fd00::6");
    expect(await attach(HOST_LOCAL)).toBeUndefined();
    expect(notKept()).toEqual([
      "net1 of ns1/a did not get fd00::5 again: the network assigned other addresses without an error",
    ]);
  });

  test("report the last failure when the network assigns no address at all", async () => {
    world.cni.failNext("add", REFUSED);
    world.resultOf = () => {
      throw new AppError("CNI_TIMED_OUT", {
        plugin: "bridge",
        command: "ADD",
        timeoutMs: 1,
      });
    };
    expect(await attach(HOST_LOCAL)).toMatchObject({ code: "CNI_TIMED_OUT" });
    expect(notKept()).toEqual([]);
  });
});

describe("the preference is retained", () => {
  test.each([
    {
      name: "for an address that a plugin may assign later",
      error: new AppError("CNI_PLUGIN_FAILED", { ...REFUSED.details, cniCode: 11 }),
    },
    {
      name: "after a failure that a preference cannot cause",
      error: new AppError("CNI_PLUGIN_MISSING", { plugin: "bridge", path: "/" }),
    },
  ])("$name", async ({ error }) => {
    world.cni.failNext("add", error);
    expect(await attach(HOST_LOCAL)).toMatchObject({ code: error.code });
    expect(asked()).toEqual([BY_ARGS, BY_ARGS]);
  });

  test("while the first attempt cannot be undone", async () => {
    world.cni.failNext("add", REFUSED);
    world.cni.failNext("del", REFUSED);
    expect(await attach(HOST_LOCAL)).toMatchObject({ code: "CNI_PLUGIN_FAILED" });
    expect(asked()).toEqual([BY_ARGS, BY_ARGS]);
    give(...IPS);
    await world.pass();
    expect(world.cni.calls.map((call) => call.slice(0, 3))).toEqual(["ADD", "DEL", "DEL", "ADD"]);
    expect(asked().at(-1)).toEqual(BY_ARGS);
  });
});

describe("a previous MAC", () => {
  const MAC = "02:00:00:00:00:0a";
  const element = [{ name: "a", interface: "net1", mac: MAC, "io.patchbay.kept-mac": true }];

  async function attachWithMac(plugin: object): Promise<unknown> {
    world.putNad({ namespace: "ns1", name: "a" }, { cniVersion: "1.0.0", ...plugin });
    await world.putPod({ networks: JSON.stringify(element) });
    return world.pass();
  }

  function requestedMacs(): readonly unknown[] {
    return world.requests.map(({ request: { args, capabilityArgs } }) => ({
      argument: args.find(([key]) => key === "MAC")?.[1],
      capability: capabilityArgs["mac"],
    }));
  }

  test.each([
    { name: "argument", plugin: { type: "own" }, want: { argument: MAC, capability: undefined } },
    {
      name: "argument and declared capability",
      plugin: { type: "own", capabilities: { mac: true } },
      want: { argument: MAC, capability: MAC },
    },
  ])("is requested as $name", async ({ plugin, want }) => {
    expect(await attachWithMac(plugin)).toBeUndefined();
    expect(requestedMacs()).toEqual([want]);
    expect(await world.networkStatus()).toMatchObject([{ mac: MAC }]);
  });

  test("may be ignored by the network", async () => {
    world.cni.ignoreMacs();
    expect(await attachWithMac({ type: "own" })).toBeUndefined();
    expect(await world.errorReasons()).toEqual({});
    const [status] = await world.networkStatus();
    expect(status?.mac).not.toBe(MAC);
  });

  test("may be rejected by the network, which then assigns another", async () => {
    world.cni.failNext("add", REFUSED);
    expect(await attachWithMac({ type: "own" })).toBeUndefined();
    expect(world.cni.calls.map((call) => call.slice(0, 3))).toEqual(["ADD", "DEL", "ADD"]);
    expect(requestedMacs().at(-1)).toEqual({ argument: undefined, capability: undefined });
    expect(await world.errorReasons()).toEqual({});
  });
});
