// SPDX-License-Identifier: Apache-2.0
// Devices of attachments: selection, plugin arguments and device information.
import { names } from "@patchbay/api";
import { beforeEach, describe, expect, test } from "vitest";
import { FakeRuntime } from "../../../testing/runtime.ts";
import { DEVICE_INFO_DIR } from "../../../testing/node-files.ts";
import { POD_KEY, World } from "../../../testing/world.ts";

const NIC = "vendor.io/nic";
const INFO = { type: "pci", version: "1.1.0", pci: { "pci-address": "d1" } };
const OWN_FILE = `${DEVICE_INFO_DIR}/cni/ns1-fast-box-uid-1_net1`;

let world: World;
beforeEach(() => {
  world = new World();
  putFast();
  world.podDevices.put(POD_KEY, NIC, ["d1", "d2"]);
});

/** The network `fast` with this resource. */
function putFast(resource = NIC, plugin: object = {}): void {
  const config = {
    cniVersion: "1.0.0",
    plugins: [{ type: "sriov", ...plugin }, { type: "tuning" }],
  };
  const annotations = { [names.RESOURCE_NAME_ANNOTATION]: resource };
  world.putNad({ namespace: "ns1", name: "fast" }, config, annotations);
}

async function ask(...elements: readonly object[]): Promise<void> {
  const networks = elements.map((element) => ({ name: "fast", ...element }));
  await world.putPod({ networks: JSON.stringify(networks), limits: { [NIC]: "2" } });
}

/** `NIC DEVICE` of each attachment. */
async function devices(): Promise<readonly string[]> {
  const rows = await world.journal.list("uid-1");
  return rows.map(({ request, device }) => `${request.interfaceName} ${device?.id ?? "none"}`);
}

describe("several attachments", () => {
  test("get different devices, also after a crash", async () => {
    await ask({});
    await world.pass();
    await ask({}, {});
    await world.pass();
    expect(await devices()).toEqual(["net1 d1", "net2 d2"]);
  });

  test("report a missing device with a reason and an event, and back off", async () => {
    await ask({}, {}, {});
    expect(await world.pass()).toMatchObject({ code: "CNI_NO_DEVICE" });
    expect(await devices()).toEqual(["net1 d1", "net2 d2"]);
    expect(await world.errorReasons()).toEqual({ net3: "NoDevice" });
    expect(world.notes.map(({ message }) => message)).toContainEqual(
      expect.stringContaining(
        `net3: network ns1/fast needs a device that is allocated to the pod: the pod has no more devices of ${NIC}: d1 is of net1, d2 is of net2`,
      ),
    );
    const { queries: asked } = world.podDevices;
    await world.continuePass();
    expect(world.podDevices.queries).toBe(asked);
  });

  test("reuse a detached attachment's device in the same pass", async () => {
    await ask({ interface: "net1" }, { interface: "net2" }, { interface: "net3" });
    await world.pass();
    await ask({ interface: "net2" }, { interface: "net3" });
    expect(await world.continuePass()).toBeUndefined();
    expect((await devices()).toSorted()).toEqual(["net2 d2", "net3 d1"]);
    expect(await world.errorReasons()).toEqual({});
  });

  test("reuse a device that is detached late", async () => {
    world.podDevices.put(POD_KEY, NIC, ["d1"]);
    await ask({ interface: "net1" });
    await world.pass();
    await ask({ interface: "net2" });
    world.cni.failNext("del", new Error("busy"));
    await world.continuePass();
    expect(await world.errorReasons()).toMatchObject({ net2: "NoDevice" });
    await world.continuePass();
    world.nowMs += 60_000;
    await world.continuePass();
    await world.continuePass();
    expect(await devices()).toEqual(["net2 d1"]);
    expect(await world.errorReasons()).toEqual({});
  });

  test("get the device that the element names, regardless of their order", async () => {
    await ask({}, { deviceID: "d1" });
    await world.pass();
    expect(await devices()).toEqual(["net1 d2", "net2 d1"]);
  });

  test("respect the devices of attachments that the runtime made", async () => {
    const config = { cniVersion: "1.0.0", name: "other", type: "sriov", deviceID: "d1" };
    await world.files.writeAtomic(
      "/cache/results/other-box-uid-1-net7",
      JSON.stringify({
        kind: "cniCacheV1",
        networkName: "other",
        containerId: "box-uid-1",
        ifName: "net7",
        config: Buffer.from(JSON.stringify(config)).toString("base64"),
      }),
    );
    const status = JSON.stringify([{ name: "kube-system/other", interface: "net7" }]);
    const annotations = { [names.NETWORK_STATUS_ANNOTATION]: status };
    await world.putPod({ networks: "fast", annotations });
    await world.pass();
    expect(await devices()).toEqual(["net1 d2"]);
  });
});

test("passes the device to every plugin, and as runtimeConfig to those that declare it", async () => {
  await ask({});
  await world.pass();
  const [{ request } = expect.fail("no request")] = world.requests;
  expect(request.config.plugins).toEqual([
    { type: "sriov", deviceID: "d1", pciBusID: "d1" },
    { type: "tuning", deviceID: "d1", pciBusID: "d1" },
  ]);
  expect(request.capabilityArgs).toEqual({ deviceID: "d1", CNIDeviceInfoFile: OWN_FILE });
});

test("does not query the kubelet for a network without a resource", async () => {
  world.podDevices.answer(false);
  world.putNads("plain");
  await world.putPod({ networks: "plain" });
  expect(await world.pass()).toBeUndefined();
  expect(world.podDevices.queries).toBe(0);
});

test("fails with a clear message without a kubelet, and retries", async () => {
  world.podDevices.answer(false);
  await ask({});
  expect(await world.pass()).toMatchObject({ code: "DEVICES_UNKNOWN" });
  expect(await world.errorReasons()).toEqual({ net1: "NoDevice" });
  expect(await world.nextMs()).toBeDefined();
  world.podDevices.answer(true);
  expect(await world.pass()).toBeUndefined();
  expect(await devices()).toEqual(["net1 d1"]);
});

test("retries when the definition names another resource", async () => {
  putFast("vhost-user.patchbay.io/sockets");
  await ask({});
  await world.pass();
  expect(await world.errorReasons()).toEqual({ net1: "NoDevice" });
  putFast();
  expect(await world.continuePass()).toBeUndefined();
  expect(await devices()).toEqual(["net1 d1"]);
});

describe("a network with a marker resource is attached without a device", () => {
  const MARKER = "bridge.network.kubevirt.io/br1";

  test.each([
    { name: "without devices from the kubelet", isAnswering: true },
    { name: "that the pod does not request, even without a kubelet's answer", isAnswering: false },
  ])("$name", async ({ isAnswering }) => {
    world.podDevices.answer(isAnswering);
    putFast(MARKER);
    await ask({});
    expect(await world.pass()).toBeUndefined();
    expect(await devices()).toEqual(["net1 none"]);
    expect(world.requests[0]?.request.config.plugins).toEqual([
      { type: "sriov" },
      { type: "tuning" },
    ]);
    expect(await world.errorReasons()).toEqual({});
  });

  test("also at pod creation", async () => {
    putFast(MARKER);
    await ask({});
    expect(await new FakeRuntime(world).call("ADD")).toMatchObject({ status: 200 });
    expect(await devices()).toEqual(["eth0 none", "net1 none"]);
  });
});

test("does not apply the tenant policy to the device in the configuration", async () => {
  world.policy = { ...world.policy, trustedNamespaces: [], plugins: ["*"] };
  world.podDevices.put(POD_KEY, NIC, ["/dev/vfio/7"]);
  await ask({});
  expect(await world.pass()).toBeUndefined();
});

describe("device information", () => {
  async function tell(): Promise<void> {
    const path = `${DEVICE_INFO_DIR}/dp/vendor.io-nic-d1-device.json`;
    await world.files.writeAtomic(path, JSON.stringify(INFO));
  }

  test("is in the pod's status until the detach, also after a crash", async () => {
    await tell();
    await ask({});
    await world.pass();
    expect(await world.files.exists(OWN_FILE)).toBe(true);
    expect(await world.networkStatus()).toMatchObject([{ interface: "net1", "device-info": INFO }]);
    await world.pass();
    expect(await world.networkStatus()).toMatchObject([{ "device-info": INFO }]);
    await ask();
    await world.pass();
    expect(await world.networkStatus()).toEqual([]);
    expect(await world.files.list(`${DEVICE_INFO_DIR}/cni`)).toEqual([]);
    expect(await world.files.list(`${DEVICE_INFO_DIR}/dp`)).toHaveLength(1);
  });

  test("contains the plugins' changes after ADD", async () => {
    const told = { type: "vhost-user", version: "1.1.0", "vhost-user": { mode: "server" } };
    let copied: string | undefined;
    await tell();
    world.resultOf = async (result) => {
      copied = await world.files.readText(OWN_FILE);
      await world.files.writeAtomic(OWN_FILE, JSON.stringify(told));
      return result;
    };
    await ask({});
    await world.pass();
    expect(copied).toBe(JSON.stringify(INFO));
    expect(await world.networkStatus()).toMatchObject([{ "device-info": told }]);
  });

  test("may come from a plugin that declares the file, without a requested device", async () => {
    const told = { type: "vhost-user", version: "1.1.0", "vhost-user": { mode: "client" } };
    const plugin = { type: "own", capabilities: { CNIDeviceInfoFile: true } };
    world.putNad({ namespace: "ns1", name: "own" }, { cniVersion: "1.0.0", plugins: [plugin] });
    world.resultOf = async (result) => {
      await world.files.writeAtomic(OWN_FILE.replace("fast", "own"), JSON.stringify(told));
      return result;
    };
    await ask({ name: "own" });
    await world.pass();
    expect(await world.networkStatus()).toMatchObject([{ "device-info": told }]);
    expect(await devices()).toEqual(["net1 none"]);
  });

  test("leaves no file when ADD fails or the agent crashes", async () => {
    await tell();
    const left: string[] = [];
    for (let dieAt = 1; ; dieAt += 1) {
      await ask({});
      const isOver = await world.diesAt(dieAt);
      await ask();
      await world.pass();
      left.push(...(await world.files.list(`${DEVICE_INFO_DIR}/cni`)));
      if (!isOver) break;
    }
    expect(left).toEqual([]);
  });
});

describe("at pod creation", () => {
  test("attachments get devices, and their information is removed with the sandbox", async () => {
    const runtime = new FakeRuntime(world);
    await world.files.writeAtomic(
      `${DEVICE_INFO_DIR}/dp/vendor.io-nic-d1-device.json`,
      JSON.stringify(INFO),
    );
    await ask({}, {});
    expect(await runtime.call("ADD")).toMatchObject({ status: 200 });
    expect(await devices()).toEqual(["eth0 none", "net1 d1", "net2 d2"]);
    expect(await world.networkStatus()).toMatchObject([{}, { "device-info": INFO }, {}]);
    expect(await runtime.call("DEL")).toMatchObject({ status: 200 });
    expect(await world.files.list(`${DEVICE_INFO_DIR}/cni`)).toEqual([]);
  });

  test("too few devices fail the runtime's call", async () => {
    await ask({}, {}, {});
    const { status, parsed } = await new FakeRuntime(world).call("ADD");
    expect([status, parsed]).toMatchObject([
      400,
      { msg: expect.stringContaining("the pod has no more devices of vendor.io/nic") as string },
    ]);
    expect(world.cni.attachments).toEqual([]);
  });
});
