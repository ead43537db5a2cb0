// SPDX-License-Identifier: Apache-2.0
// Forbidden definitions of tenants: no plugin runs, and events on pod and definition report it.
import { AppError } from "@patchbay/base";
import { DEFAULT_POLICY } from "@patchbay/core/nics";
import { parseIp } from "@patchbay/api/values";
import { beforeEach, describe, expect, test } from "vitest";
import { World } from "../../../testing/world.ts";

let world: World;

beforeEach(async () => {
  world = new World();
  world.policy = DEFAULT_POLICY;
  world.ownBridges = ["br0"];
  await world.putPod({ networks: "mine@net1,default/shared@net2" });
  world.putNad({ namespace: "default", name: "shared" }, { type: "bridge", bridge: "br0" });
});

test("rejects a tenant's definition with all violations and flags; attaches an administrator's", async () => {
  const ipam = { type: "host-local", dataDir: "/etc" };
  world.putNad({ namespace: "ns1", name: "mine" }, { type: "bridge", bridge: "br0", ipam });
  await world.pass();
  expect(world.cni.calls).toEqual(["ADD box-uid-1/net2"]);
  expect(await world.errorReasons()).toEqual({ net1: "DefinitionForbidden" });
  const told = world.notes.filter(({ type }) => type === "Warning");
  expect(told.map(({ reason }) => reason).toSorted()).toEqual([
    "DefinitionForbidden",
    "FailedAddingInterface",
  ]);
  for (const { message } of told) {
    expect(message).toContain(
      'bridge "br0", which is the node\'s own (--tenant-bridges), ipam.dataDir "/etc" (--tenant-paths)',
    );
    expect(message).toContain("NetworkAttachmentDefinition ns1/mine");
  }
});

test("attaches the network once its definition has no violation", async () => {
  world.putNad({ namespace: "ns1", name: "mine" }, { type: "host-device", device: "eth0" });
  await world.pass();
  expect(await world.errorReasons()).toEqual({ net1: "DefinitionForbidden" });
  world.putNad({ namespace: "ns1", name: "mine" }, { type: "bridge", bridge: "blue" });
  await world.pass();
  expect(await world.errorReasons()).toEqual({});
});

const subnet = "10.9.0.0/24";
const ipam = { type: "host-local", subnet };
const blue = { type: "bridge", bridge: "blue" };

test.each([
  { name: "an administrator's network", config: { name: "theirs", ...blue, ipam } },
  {
    name: "an administrator's network, through a delegate plugin",
    config: { name: "theirs", type: "own-meta", delegate: { ...blue, ipam } },
  },
  {
    name: "an administrator's network, through a different spelling of the directory",
    config: {
      name: "theirs",
      ...blue,
      ipam: { ...ipam, dataDir: "/var/lib/cni/./networks/" },
    },
  },
  { name: "the pod network", config: { name: "cbr0", ...blue, ipam } },
])("rejects a pool shared with $name", async ({ config }) => {
  world.readDefaultNetwork = () =>
    Promise.resolve({ cniVersion: "1.0.0", name: "cbr0", plugins: [{ type: "flannel" }] });
  world.putNad(
    { namespace: "default", name: "shared" },
    { name: "theirs", type: "bridge", bridge: "br0", ipam },
  );
  world.putNad({ namespace: "ns1", name: "mine" }, config);
  await world.pass();
  expect(await world.errorReasons()).toEqual({ net1: "DefinitionForbidden" });
  const told = world.notes.find(({ reason }) => reason === "DefinitionForbidden");
  expect(told?.message).toContain(`name "${config.name}", which `);
});

test.each([
  { name: "a unique name", config: { ...blue, ipam }, theirs: {} },
  {
    name: "a shared name, without addresses",
    config: { name: "shared", ...blue },
    theirs: { ipam },
  },
  { name: "the name of a network without addresses", config: { name: "shared", ...blue, ipam } },
  {
    name: "a shared name, with addresses in its own directory",
    config: {
      name: "shared",
      ...blue,
      ipam: { ...ipam, dataDir: "/var/lib/cni/networks/ns1" },
    },
    theirs: { ipam },
  },
])("attaches a network with $name", async ({ config, theirs = {} }) => {
  world.readDefaultNetwork = () =>
    Promise.reject(new AppError("CNI_DEFAULT_NETWORK_MISSING", { reason: "none" }));
  world.putNad(
    { namespace: "default", name: "shared" },
    { type: "bridge", bridge: "br0", ...theirs },
  );
  world.putNad({ namespace: "default", name: "broken" }, { plugins: [] });
  world.putNad({ namespace: "other", name: "mine" }, { ...blue, ipam });
  world.putNad({ namespace: "ns1", name: "mine" }, config);
  await world.pass();
  expect(await world.errorReasons()).toEqual({});
});

test("refuses a network whose check throws, and attaches the others", async () => {
  world.readDefaultNetwork = () => {
    throw new TypeError("cannot read properties of undefined");
  };
  world.putNad({ namespace: "ns1", name: "mine" }, { ...blue, ipam });
  await world.pass();
  expect(world.cni.calls).toEqual(["ADD box-uid-1/net2"]);
  expect(await world.errorReasons()).toEqual({ net1: "NetworkInvalid" });
});

test("detaches an existing attachment whatever its definition contains now", async () => {
  world.policy = { ...DEFAULT_POLICY, trustedNamespaces: ["ns1", "default"] };
  world.putNad({ namespace: "ns1", name: "mine" }, { type: "host-device", device: "eth0" });
  await world.pass();
  world.policy = DEFAULT_POLICY;
  await world.putPod({ networks: "" });
  await world.pass();
  expect(world.cni.attachments).toEqual([]);
});

test("attaches a violating network beside Multus", async () => {
  world.enforcesPolicy = false;
  world.putNad({ namespace: "ns1", name: "mine" }, { type: "bridge", bridge: "br0" });
  await world.pass();
  expect(world.cni.calls).toEqual(["ADD box-uid-1/net1", "ADD box-uid-1/net2"]);
  expect(await world.errorReasons()).toEqual({});
});

test("names eight of a definition's many violations", async () => {
  world.policy = DEFAULT_POLICY;
  const paths = Array.from({ length: 1000 }, (_unused, index) => `/etc/${String(index)}`);
  world.putNad({ namespace: "ns1", name: "mine" }, { type: "bridge", bridge: "blue", paths });
  await world.pass();
  const message =
    world.notes.find(({ reason }) => reason === "FailedAddingInterface")?.message ?? "";
  expect(message).toContain('paths[7] "/etc/7"');
  expect(message).not.toContain("/etc/8");
  expect(message).toContain("at which the check stopped");
});

describe("addresses of the node", () => {
  const gateway = { type: "bridge", bridge: "blue", isGateway: true };
  const ofRange = { ...gateway, ipam: { type: "host-local", subnet: "10.60.1.0/24" } };

  beforeEach(() => {
    world.policy = {
      ...DEFAULT_POLICY,
      ranges: ["10.60.0.0/16"],
      clusterNetworks: ["10.244.0.0/16"],
    };
  });

  async function attach(config: object, element: object = {}): Promise<string | undefined> {
    world.putNad({ namespace: "ns1", name: "mine" }, config);
    await world.putPod({ networks: JSON.stringify([{ name: "mine", ...element }]) });
    await world.pass();
    return (await world.errorReasons())["net1"];
  }

  test.each([
    { ranges: ["10.60.0.0/16"], want: undefined },
    { ranges: [], want: "DefinitionForbidden" },
  ])("are allowed in the ranges of an administrator only: $ranges", async ({ ranges, want }) => {
    world.policy = { ...world.policy, ranges };
    expect(await attach(ofRange)).toBe(want);
  });

  test("are not allowed over a route of the node", async () => {
    const prefix = parseIp("10.60.1.0/24");
    if (prefix === undefined) throw new Error("no address");
    world.nodeSubnets = [{ prefix, link: "eth0", isOfPlugin: false }];
    expect(await attach(ofRange)).toBe("DefinitionForbidden");
    expect(world.cni.calls).toEqual([]);
  });

  test("are judged with the addresses that the pod requests", async () => {
    const config = { ...gateway, capabilities: { ips: true }, ipam: { type: "static" } };
    expect(await attach(config, { ips: ["10.244.1.5/28"] })).toBe("DefinitionForbidden");
    const args = { "cni-args": { ips: ["10.244.1.5/28"] } };
    expect(await attach(config, args)).toBe("DefinitionForbidden");
    expect(world.cni.calls).toEqual([]);
  });

  test("are judged with the addresses that the pod's annotation retains", async () => {
    const config = { ...ofRange, capabilities: { ips: true } };
    const retained = { "io.patchbay.kept-ips": ["10.244.1.5"] };
    expect(await attach(config, retained)).toBe("DefinitionForbidden");
    expect(world.cni.calls).toEqual([]);
  });

  test.each([
    { ip: "10.9.0.7/24", want: undefined },
    { ip: "10.60.0.7/24", want: undefined },
    { ip: "10.9.0.7/8", want: "RequestForbidden" },
    { ip: "10.244.1.5/28", want: "RequestForbidden" },
  ])("are not chosen by pods on an administrator's network: $ip", async ({ ip, want }) => {
    const ipam = { type: "static", addresses: [{ address: "10.9.0.2/24" }] };
    const shared = { ...gateway, bridge: "br0", ipam, args: { cni: { ips: ["10.8.0.1/24"] } } };
    world.putNad({ namespace: "default", name: "shared" }, shared);
    const element = { name: "shared", namespace: "default", "cni-args": { ips: [ip] } };
    await world.putPod({ networks: JSON.stringify([element]) });
    await world.pass();
    expect((await world.errorReasons())["net1"]).toBe(want);
    expect(world.cni.calls).toHaveLength(want === undefined ? 1 : 0);
  });

  test("stay with attachments from before an upgrade; new attachments are refused", async () => {
    const config = { ...gateway, ipam: { type: "host-local", subnet: "10.1.0.0/24" } };
    world.policy = { ...DEFAULT_POLICY, trustedNamespaces: ["ns1", "default"] };
    expect(await attach(config)).toBeUndefined();
    world.policy = DEFAULT_POLICY;
    await world.putPod({ networks: "mine@net1,mine@net2" });
    await world.pass();
    expect(await world.errorReasons()).toEqual({ net2: "DefinitionForbidden" });
    expect(world.cni.calls).toEqual(["ADD box-uid-1/net1"]);
    await world.putPod({ networks: "" });
    await world.pass();
    expect(world.cni.attachments).toEqual([]);
    expect(await world.errorReasons()).toEqual({});
  });
});

describe("ports of the node", () => {
  const portMappings = [{ hostPort: 8080, containerPort: 80 }];
  const networks = JSON.stringify([{ name: "shared", namespace: "default", portMappings }]);

  beforeEach(() => {
    const plugins = [{ type: "bridge" }, { type: "portmap", capabilities: { portMappings: true } }];
    world.putNad({ namespace: "default", name: "shared" }, { cniVersion: "1.0.0", plugins });
  });

  test.each([
    { name: "without an allowed port", ports: [], listening: [], want: "RequestForbidden" },
    {
      name: "on which the node listens",
      ports: ["8080"],
      listening: [8080],
      want: "RequestForbidden",
    },
    { name: "that is allowed", ports: ["8000-8999"], listening: [80], want: undefined },
  ])(
    "of a tenant's pod on an administrator's network: $name",
    async ({ ports, listening, want }) => {
      world.policy = { ...DEFAULT_POLICY, ports };
      world.listeningPorts = new Set(listening);
      await world.putPod({ networks });
      await world.pass();
      expect((await world.errorReasons())["net1"]).toBe(want);
      expect(world.cni.calls).toHaveLength(want === undefined ? 1 : 0);
    },
  );

  test("are refused if their check throws", async () => {
    Object.defineProperty(world, "listeningPorts", {
      get: () => {
        throw new RangeError("Invalid array length");
      },
    });
    await world.putPod({ networks });
    await world.pass();
    expect(await world.errorReasons()).toEqual({ net1: "NetworkInvalid" });
    expect(world.cni.calls).toEqual([]);
  });

  test("are not limited for pods of administrators", async () => {
    world.policy = { ...DEFAULT_POLICY, trustedNamespaces: ["ns1", "default"] };
    await world.putPod({ networks });
    await world.pass();
    expect(await world.errorReasons()).toEqual({});
  });

  test("are only reported beside Multus", async () => {
    world.enforcesPolicy = false;
    await world.putPod({ networks });
    await world.pass();
    expect(await world.errorReasons()).toEqual({});
  });
});

test("plugins do not receive what only the runtime sets, except from administrators", async () => {
  const forged = {
    runtimeConfig: { CNIDeviceInfoFile: "/run/x" },
    args: { cni: { ips: ["10.1.1.1/24"] } },
    prevResult: { cniVersion: "1.0.0" },
  };
  world.putNad({ namespace: "ns1", name: "mine" }, { type: "bridge", bridge: "blue", ...forged });
  world.putNad({ namespace: "default", name: "shared" }, { type: "bridge", ...forged });
  await world.pass();
  const configs = world.requests.map(({ request }) => request.config.plugins[0]);
  expect(configs).toEqual([
    { type: "bridge", bridge: "blue" },
    { type: "bridge", ...forged },
  ]);
});

test("refuses what only the runtime sets in a delegate's configuration", async () => {
  const delegate = { type: "bridge", bridge: "blue", runtimeConfig: { mac: "x" } };
  world.putNad({ namespace: "ns1", name: "mine" }, { type: "own-meta", delegate });
  await world.pass();
  expect(await world.errorReasons()).toEqual({ net1: "DefinitionForbidden" });
});
