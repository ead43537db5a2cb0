// SPDX-License-Identifier: Apache-2.0
// Preconditions of an attachment: the sandbox's own namespace, a free name, and a result that meets the request.
import { names } from "@patchbay/api";
import { AppError } from "@patchbay/base";
import type { CniResult } from "@patchbay/core/interfaces";
import { afterEach, beforeEach, describe, expect, test, vi } from "vitest";
import { inodeOf, World } from "../../../testing/world.ts";

const MAC = "02:00:00:00:00:01";
const FAILED = new AppError("CNI_PLUGIN_FAILED", {
  plugin: "bridge",
  command: "ADD",
  message: "no",
});

let world: World;

beforeEach(() => {
  world = new World();
  world.putNads("a", "b");
});

afterEach(() => {
  if (world.openNamespaces > 0) throw new Error("a namespace was left open");
});

describe("the routes and permanent neighbors that ADD gave the NIC", () => {
  const INODE = inodeOf("uid-1");
  const neighbors = [{ address: "169.254.1.1", mac: "02:00:00:00:00:09" }];
  const paths = { routes: ["AAAA"], neighbors };

  test("are restored before DEL", async () => {
    world.podNetwork.putPaths(INODE, "net1", paths);
    await world.putPod({ networks: "a" });
    await world.pass();
    // virt-handler moves them to the guest.
    world.podNetwork.putPaths(INODE, "net1", { routes: [], neighbors: [] });
    const restoreNic = vi.spyOn(world.podNetwork, "restoreNic");
    await world.putPod({ networks: "" });
    await world.pass();
    expect(restoreNic.mock.calls).toMatchObject([[{ inode: INODE }, { name: "net1", paths }]]);
    expect(world.cni.attachments).toEqual([]);
  });

  test("do not fail an attachment if they are unreadable", async () => {
    world.podNetwork.failNext("readPaths", new AppError("PODNET_FAILED", { message: "busy" }));
    await world.putPod({ networks: "a" });
    await world.pass();
    expect(await world.errorReasons()).toEqual({});
    expect(world.cni.attachments).toHaveLength(1);
  });
});

describe("the network namespace", () => {
  test("is never the host's own", async () => {
    await world.putPod({ networks: "a", uid: "host" });
    expect(inodeOf("host")).toBe("inode-host");
    expect(await world.pass()).toMatchObject({ code: "OS_PATH_REFUSED" });
    expect(await world.errorReasons()).toEqual({ net1: "CniFailed" });
    expect(world.notes[0]?.message).toContain("host's own network namespace");
    expect(world.cni.calls).toEqual([]);
  });

  test.each([
    {
      name: "does not exist",
      change: () => {
        world.dropNamespace("box-uid-1");
      },
    },
    {
      name: "is a different namespace",
      change: () => {
        world.swapNamespace("box-uid-1", "inode-other");
      },
    },
  ])("is rejected when it $name", async ({ change }) => {
    await world.putPod({ networks: "a" });
    change();
    expect(await world.pass()).toMatchObject({ code: "SANDBOX_NOT_FOUND" });
    expect(world.notes[0]?.message).toContain("ns1/pod");
    expect(world.cni.calls).toEqual([]);
  });

  test("is passed to DEL while it is the namespace of ADD", async () => {
    await world.putPod({ networks: "a" });
    await world.pass();
    await world.putPod({ networks: "" });
    await world.pass();
    const [add, del] = world.requests;
    expect(del?.request).toEqual(add?.request);
    expect(del?.prevResult).toMatchObject({ interfaces: [{ name: "net1" }] });
  });

  test.each([
    {
      name: "it does not exist",
      change: () => {
        world.dropNamespace("box-uid-1");
      },
    },
    {
      name: "it is a different namespace",
      change: () => {
        world.swapNamespace("box-uid-1", "inode-other");
      },
    },
    { name: "the node was rebooted", change: () => (world.bootId = "boot-2") },
  ])("is not passed to DEL when $name", async ({ change }) => {
    await world.putPod({ networks: "a" });
    await world.pass();
    await world.putPod({ networks: "" });
    change();
    await world.pass();
    expect(world.requests.at(-1)?.request).toMatchObject({ containerId: "box-uid-1" });
    expect(world.requests.at(-1)?.request).not.toHaveProperty("netnsPath");
  });

  test("loses no NIC at detach when it differs from the namespace of ADD", async () => {
    await world.putPod({ networks: "a" });
    await world.pass();
    await world.putPod({ networks: "" });
    world.swapNamespace("box-uid-1", "inode-other");
    const link = { name: "net1", kind: "veth", mac: MAC, mtu: 1500, up: true };
    world.podNetwork.putLink("inode-other", link);
    for (let tries = 0; tries < 5; tries += 1) {
      world.cni.failNext("del", FAILED);
      await world.pass();
    }
    expect(world.podNetwork.findLink("inode-other", "net1")).toBeDefined();
    expect(await world.journal.listPods()).toEqual([]);
  });
});

describe("a new sandbox", () => {
  const TOLD = { name: "ns1/a", interface: "net1", mac: MAC.toUpperCase(), dns: {} };

  /** The runtime creates a sandbox with NIC net1 and reports `told`. */
  async function renew(told: object): Promise<void> {
    await world.putPod({ networks: "a@net1" });
    await world.pass();
    world.dropNamespace("box-uid-1");
    world.putSandbox("uid-1", "box-2");
    const link = { name: "net1", kind: "veth", mac: MAC, mtu: 1500, up: true };
    const other = { ...link, name: "net0", mac: "02:00:00:00:00:02" };
    for (const each of [other, link]) world.podNetwork.putLink("inode-box-2", each);
    const annotations = { [names.NETWORK_STATUS_ANNOTATION]: JSON.stringify([told]) };
    await world.putPod({ networks: "a@net1", annotations });
    world.putSandbox("uid-1", "box-2");
  }

  test("adopts an attachment that the runtime reports", async () => {
    await renew(TOLD);
    expect(await world.pass()).toBeUndefined();
    expect(world.cni.calls).toEqual(["ADD box-uid-1/net1", "DEL box-uid-1/net1"]);
    const [row] = await world.journal.list("uid-1");
    expect(row).toMatchObject({
      network: "ns1/a",
      isAdopted: true,
      request: { containerId: "box-2", interfaceName: "net1" },
    });
    expect(world.lines.at(-1)).toEqual({
      message: "adopted network",
      fields: { pod: "ns1/pod", network: "ns1/a", link: "net1", isRemembered: false },
    });
  });

  test.each([
    { name: "the runtime reports a different network", told: { ...TOLD, name: "ns1/b" } },
    { name: "the runtime reports a different NIC", told: { ...TOLD, interface: "net2" } },
    { name: "the runtime reports a different MAC", told: { ...TOLD, mac: "02:00:00:00:00:02" } },
    { name: "the runtime reports no MAC", told: { name: "ns1/a", interface: "net1" } },
  ])("rejects an existing NIC that the runtime does not report: $name", async ({ told }) => {
    await renew(told);
    expect(await world.pass()).toMatchObject({ code: "CNI_NAME_TAKEN" });
    expect(world.notes.at(-1)?.message).toContain("net1");
    expect(world.podNetwork.findLink("inode-box-2", "net1")).toBeDefined();
  });
});

describe("the requested values", () => {
  function withIps(...addresses: readonly string[]): (result: CniResult) => CniResult {
    return (result) => ({
      ...result,
      ips: addresses.map((address) => ({ interface: 0, address })),
    });
  }

  test("are passed as arguments, and as capabilities if plugins declare them", async () => {
    const capabilities = { mac: true, ips: true };
    world.putNad({ namespace: "ns1", name: "a" }, { type: "static", capabilities });
    world.resultOf = withIps("10.0.0.9/24", "fd00::9/64");
    const asked = { name: "a", mac: MAC.toUpperCase(), ips: ["10.0.0.9/24", "FD00:0::9"] };
    await world.putPod({ networks: JSON.stringify([asked]) });
    expect(await world.pass()).toBeUndefined();
    const [add] = world.requests;
    expect(add?.request.args.slice(-2)).toEqual([
      ["MAC", MAC],
      ["IP", "10.0.0.9/24,FD00:0::9"],
    ]);
    expect(add?.request.capabilityArgs).toEqual({ mac: MAC, ips: asked.ips });
    expect(world.notes[0]).toMatchObject({
      reason: "AddedInterface",
      message: `Added net1 from ns1/a (${MAC}, 10.0.0.9, fd00::9)`,
    });
  });

  test("add no capability when nothing is requested", async () => {
    const capabilities = { mac: true, ips: true };
    world.putNad({ namespace: "ns1", name: "a" }, { type: "static", capabilities });
    await world.putPod({ networks: "a" });
    await world.pass();
    const [add] = world.requests;
    expect(add?.request.capabilityArgs).toEqual({});
    expect(add?.request.args.map(([key]) => key)).toEqual([
      "IgnoreUnknown",
      "K8S_POD_NAMESPACE",
      "K8S_POD_NAME",
      "K8S_POD_INFRA_CONTAINER_ID",
      "K8S_POD_UID",
    ]);
    expect(add?.request.config.plugins).toEqual([{ type: "static", capabilities }]);
  });

  test("fail the attachment when they are not met, and DEL gets the result", async () => {
    world.resultOf = withIps("10.0.0.8/24");
    await world.putPod({
      networks: JSON.stringify([{ name: "a", ips: ["10.0.0.8", "10.0.0.9/24"] }]),
    });
    expect(await world.pass()).toMatchObject({ code: "CNI_REQUEST_NOT_MET" });
    expect(world.notes[0]?.message).toContain("addresses 10.0.0.9/24");
    expect(world.requests.at(-1)?.prevResult?.ips).toEqual([
      { interface: 0, address: "10.0.0.8/24" },
    ]);
  });

  test("are compared with the NIC in the pod when the result has no MAC", async () => {
    const silent = ({ cniVersion }: CniResult): CniResult => ({ cniVersion });
    const link = { name: "net0", kind: "veth", mac: "02:00:00:00:00:02", mtu: 1500, up: true };
    world.podNetwork.putLink(inodeOf("uid-1"), link);
    world.resultOf = silent;
    await world.putPod({ networks: `[{"name":"a","mac":"${MAC}"}]` });
    expect(await world.pass()).toBeUndefined();
    world.cni.ignoreMacs();
    await world.putPod({ networks: `[{"name":"a","mac":"${MAC}"},{"name":"b","mac":"${MAC}"}]` });
    expect(await world.pass()).toMatchObject({ code: "CNI_REQUEST_NOT_MET" });
    expect(world.notes.at(-1)?.message).toContain(`MAC ${MAC}; the interface has 02:fa:ce:`);
  });

  test("are not met when neither the result nor the pod has the NIC", async () => {
    world.resultOf = ({ cniVersion }) => {
      world.podNetwork.takeLink(inodeOf("uid-1"), "net1");
      return { cniVersion };
    };
    await world.putPod({ networks: `[{"name":"a","mac":"${MAC}"}]` });
    expect(await world.pass()).toMatchObject({ code: "CNI_REQUEST_NOT_MET" });
    expect(world.notes[0]?.message).toContain(`MAC ${MAC}; the interface has none`);
  });

  test.each([
    {
      name: "an invalid address",
      element: { ips: ["foo"] },
      want: ['"foo" is not an IP address', "ns1/a"],
    },
    {
      name: "a device that the pod does not have",
      element: { deviceID: "0000:00:1f.6" },
      want: ["the kubelet gave the pod no device 0000:00:1f.6", "ns1/a"],
    },
    {
      name: "a capability that no plugin supports",
      element: { bandwidth: { ingressRate: 1 } },
      want: ["bandwidth, which no plugin of the network supports"],
    },
  ])("are rejected with a reason: $name", async ({ element, want }) => {
    await world.putPod({ networks: JSON.stringify([{ name: "a", ...element }]) });
    await world.pass();
    for (const words of want) expect(world.notes[0]?.message).toContain(words);
  });

  test.each([
    { name: "does not exist", networks: "none", want: "ns1/none" },
    {
      name: "has neither a configuration nor a file",
      networks: "empty",
      want: "ns1/empty has no spec.config, and no file in /definitions of the node defines a network named empty; no file there defines a network; write the configuration",
    },
    { name: "is in another namespace", networks: "other/secret", want: "other/secret" },
  ])("reject a network that $name", async ({ networks, want }) => {
    world.putNads("other/secret");
    world.putEmptyNad("empty");
    await world.putPod({ networks });
    await world.pass();
    expect(world.notes[0]?.message).toContain(want);
  });
});

test("reports how long the plugins took", async () => {
  world.nowMs = 5000;
  world.resultOf = (result) => {
    world.nowMs += 40;
    return result;
  };
  await world.putPod({ networks: "a" });
  await world.pass();
  expect(world.lines).toEqual([
    {
      message: "attached network",
      fields: { pod: "ns1/pod", network: "ns1/a", link: "net1", durationMs: 40 },
    },
  ]);
});

describe("an interface name that cannot be freed", () => {
  beforeEach(async () => {
    await world.putPod({ networks: "a@net1" });
    await world.pass();
  });

  test("is reported to the attachment that waits for it", async () => {
    world.cni.failNext("del", FAILED);
    await world.putPod({ networks: "b@net1" });
    await world.continuePass();
    const text = (await world.annotation(names.ATTACHMENT_ERRORS_ANNOTATION)) ?? "";
    expect(text).toContain("InterfaceNameTaken");
    expect(text).toContain("net1 is in use until ns1/a is detached: ");
    expect(world.cni.attachments).toEqual(["box-uid-1/net1"]);
    expect(world.cni.calls).toHaveLength(2);
  });

  test("reports its own failure when the same network requests it again", async () => {
    world.dropNamespace("box-uid-1");
    world.putSandbox("uid-1", "box-2");
    world.cni.failNext("del", FAILED);
    expect(await world.continuePass()).toMatchObject({ code: "CNI_PLUGIN_FAILED" });
    expect(await world.errorReasons()).toEqual({ net1: "CniFailed" });
    expect(await world.annotation(names.ATTACHMENT_ERRORS_ANNOTATION)).toContain(FAILED.message);
    expect(world.cni.calls).toEqual(["ADD box-uid-1/net1", "DEL box-uid-1/net1"]);
  });
});

test("reports the original failure when undoing an attachment fails too", async () => {
  world.resultOf = () => {
    throw new AppError("CNI_REQUEST_NOT_MET", { what: "MAC" });
  };
  world.cni.failNext("del", FAILED);
  await world.putPod({ networks: "a" });
  await world.continuePass();
  world.nowMs += 400_000;
  world.cni.failNext("del", FAILED);
  await world.continuePass();
  expect(await world.errorReasons()).toEqual({ net1: "RequestNotMet" });
});

test("a network without an interface has no status entry and is attached once", async () => {
  world.resultOf = ({ cniVersion }) => ({ cniVersion, interfaces: [] });
  await world.putPod({ networks: "a" });
  await world.pass();
  await world.pass();
  expect(await world.networkStatus()).toEqual([]);
  expect(await world.errorReasons()).toEqual({});
  await world.putPod({ networks: "" });
  await world.pass();
  expect(world.cni.calls).toEqual(["ADD box-uid-1/net1", "DEL box-uid-1/net1"]);
});

test.each(["bnd0123456789a", "pod0123456789a"])(
  "a VM's network without an interface has the status entry that virt-controller waits for, %s",
  async (nic) => {
    world.resultOf = ({ cniVersion }) => ({ cniVersion, interfaces: [] });
    await world.putPod({ networks: `a@${nic}` });
    await world.pass();
    expect(await world.networkStatus()).toEqual([{ name: "ns1/a", interface: nic, dns: {} }]);
  },
);
