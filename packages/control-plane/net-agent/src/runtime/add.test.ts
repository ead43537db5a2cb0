// SPDX-License-Identifier: Apache-2.0
// Default networks that a pod's annotation names.
import { names, VIRTUAL_MACHINE_INSTANCES } from "@patchbay/api";
import { AppError } from "@patchbay/base";
import { DEFAULT_POLICY } from "@patchbay/core/nics";
import { beforeEach, describe, expect, test, vi } from "vitest";
import { FakeRuntime } from "../testing/runtime.ts";
import { POD_KEY, World } from "../testing/world.ts";

let world: World;
let runtime: FakeRuntime;

/** The pod has just been bound. */
async function bind(own: string, more: Readonly<Record<string, string>> = {}): Promise<void> {
  const annotations = { [names.DEFAULT_NETWORK_ANNOTATION]: own, ...more };
  await world.putPod({ networks: "a", phase: "Pending", annotations });
  world.putSandbox("uid-1", "box-uid-1");
  world.sandboxes.take("uid-1");
}

async function told(): Promise<readonly string[]> {
  const status = await world.networkStatus();
  return status.map(({ name, interface: nic = "", default: isDefault }) =>
    [name, nic, ...(isDefault === true ? ["default"] : [])].join(" "),
  );
}

beforeEach(() => {
  world = new World();
  world.policy = { ...world.policy, trustedNamespaces: ["kube-system", "default", "ns1"] };
  runtime = new FakeRuntime(world);
  world.putNads("a", "kube-system/own", "ns1/mine", "default/shared", "other/theirs");
});

describe("selects the network", () => {
  test.each([
    ["own", "kube-system/own"],
    ["kube-system/own@eth0", "kube-system/own"],
    ["ns1/mine", "ns1/mine"],
    ["default/shared", "default/shared"],
    ['[{"name":"own"}]', "kube-system/own"],
    ['[{"name":"mine","namespace":"ns1","interface":"eth0"}]', "ns1/mine"],
  ])("%s", async (own, network) => {
    await bind(own);
    const { status, parsed } = await runtime.call("ADD");
    expect(status).toBe(200);
    expect(parsed).toMatchObject({ interfaces: [{ name: "eth0" }] });
    expect(await told()).toEqual([`${network} eth0 default`, "ns1/a net1"]);
  });

  test("does not need every pod's network", async () => {
    runtime.network = undefined;
    await bind("own");
    expect(await runtime.call("ADD")).toMatchObject({ status: 200 });
  });
});

describe("rejects, without a leftover,", () => {
  test.each([
    ["", "it names no network"],
    ["  ", "it names no network"],
    ["[]", "it names no network"],
    ["own,ns1/mine", "it names more than one network"],
    ["[", "the value is not valid JSON"],
    ["a/b/c", "is not of the form [namespace/]name[@interface]"],
    ["own@net7", "interface net7 must be eth0, which the container runtime requested"],
    [
      '[{"name":"own","default-route":["10.0.0.1"]}]',
      "default-route is only for secondary networks",
    ],
    ['[{"name":"own","mac":"x"}]', '"x" is not a MAC address of six bytes'],
    ['[{"name":"own","bandwidth":{"ingressRate":1}}]', "bandwidth, which no plugin"],
    ["missing", "there is no NetworkAttachmentDefinition kube-system/missing"],
    ["other/theirs", "pods of namespace ns1 may not use network other/theirs"],
  ])("%s", async (own, words) => {
    await bind(own);
    const { status, parsed } = await runtime.call("ADD");
    expect(status).toBe(400);
    expect(parsed).toMatchObject({ msg: expect.stringContaining(words) as string });
    expect(world.cni.calls).toEqual([]);
    expect(await world.journal.list("uid-1")).toEqual([]);
  });

  test("names annotation and pod when the value is invalid", async () => {
    await bind("");
    const { parsed } = await runtime.call("ADD");
    expect(parsed).toMatchObject({
      msg: "annotation v1.multus-cni.io/default-network of pod ns1/pod cannot be used: it names no network",
    });
  });

  test("rejects a tenant's forbidden definition", async () => {
    world.policy = { ...world.policy, trustedNamespaces: ["kube-system"] };
    world.putNad({ namespace: "ns1", name: "mine" }, { type: "host-device", device: "eth0" });
    await bind("ns1/mine");
    const { parsed } = await runtime.call("ADD");
    expect(parsed).toMatchObject({ msg: expect.stringContaining("host-device") as string });
    expect(world.cni.calls).toEqual([]);
  });

  test("rejects patchbay-cni itself", async () => {
    world.putNad({ namespace: "kube-system", name: "own" }, { type: "patchbay-cni" });
    await bind("own");
    expect(await runtime.call("ADD")).toMatchObject({ status: 400 });
    expect(world.cni.calls).toEqual([]);
  });
});

test("passes the runtime's values and those of the element, which take precedence", async () => {
  const capabilities = { portMappings: true, mac: true };
  world.putNad({ namespace: "kube-system", name: "own" }, { type: "bridge", capabilities });
  const element = { name: "own", mac: "02:00:00:00:00:01", "cni-args": { x: 1 } };
  await bind(JSON.stringify([element]));
  const env = {
    CNI_ARGS: "IgnoreUnknown=1;K8S_POD_NAMESPACE=ns1;K8S_POD_NAME=pod;K8S_POD_UID=uid-1;MORE=y",
  };
  const runtimeConfig = { portMappings: [{ hostPort: 1 }], mac: "02:00:00:00:00:02" };
  expect(await runtime.call("ADD", { env, config: { runtimeConfig } })).toMatchObject({
    status: 200,
  });
  const [{ request } = {}] = world.requests;
  expect(request?.capabilityArgs).toEqual({ ...runtimeConfig, mac: element.mac });
  expect(request?.args.map(([key]) => key)).toEqual([
    "IgnoreUnknown",
    "K8S_POD_NAMESPACE",
    "K8S_POD_NAME",
    "K8S_POD_INFRA_CONTAINER_ID",
    "K8S_POD_UID",
    "MAC",
    "MORE",
  ]);
  expect(request?.config.plugins).toMatchObject([{ args: { cni: { x: 1 } } }]);
});

test("undoes an attachment with another MAC than requested", async () => {
  world.cni.ignoreMacs();
  await bind('[{"name":"own","mac":"02:00:00:00:00:01"}]');
  const { parsed } = await runtime.call("ADD");
  expect(parsed).toMatchObject({ msg: expect.stringContaining("MAC 02:00:00:00:00:01") as string });
  expect(world.cni.attachments).toEqual([]);
  expect(await world.journal.list("uid-1")).toEqual([]);
});

describe("a launcher's MAC on the default network", () => {
  const MAC = "02:00:00:00:00:01";

  async function addLauncher(): Promise<{ readonly status: number }> {
    world.putVmi("vmi-1");
    const vmi = await world.store.find(VIRTUAL_MACHINE_INSTANCES, {
      namespace: "ns1",
      name: "vm1",
    });
    if (vmi === undefined) throw new Error("no VMI");
    const retained = JSON.stringify([{ name: "default", macAddress: MAC }]);
    world.store.put(VIRTUAL_MACHINE_INSTANCES, {
      ...vmi,
      metadata: { ...vmi.metadata, annotations: { [names.RETAINED_MACS_ANNOTATION]: retained } },
      spec: {
        domain: { devices: { interfaces: [{ name: "default", bridge: {} }] } },
        networks: [{ name: "default", pod: {} }],
      },
    });
    await world.putPod({ networks: "", phase: "Pending", launcherOf: "vmi-1" });
    world.putSandbox("uid-1", "box-uid-1");
    world.sandboxes.take("uid-1");
    return runtime.call("ADD");
  }

  const requestedMacs = () =>
    world.requests.map(({ request }) => request.args.find(([key]) => key === "MAC")?.[1]);

  test("is requested again from the network", async () => {
    expect(await addLauncher()).toMatchObject({ status: 200 });
    expect(requestedMacs()).toEqual([MAC]);
    expect(await world.networkStatus()).toMatchObject([{ mac: MAC }]);
  });

  test("is the network's if it rejects the request", async () => {
    world.cni.failNext(
      "add",
      new AppError("CNI_PLUGIN_FAILED", { plugin: "bridge", command: "ADD", message: "in use" }),
    );
    expect(await addLauncher()).toMatchObject({ status: 200 });
    expect(requestedMacs().at(-1)).toBeUndefined();
    expect(await world.networkStatus()).toMatchObject([{ default: true }]);
  });
});

test("assigns one device to it and others to the secondary networks", async () => {
  const annotations = { [names.RESOURCE_NAME_ANNOTATION]: "vendor.io/nic" };
  for (const key of [
    { namespace: "kube-system", name: "own" },
    { namespace: "ns1", name: "a" },
  ]) {
    world.putNad(key, { cniVersion: "1.0.0", type: "sriov" }, annotations);
  }
  world.podDevices.put(POD_KEY, "vendor.io/nic", ["d1", "d2"]);
  await bind("own");
  expect(await runtime.call("ADD")).toMatchObject({ status: 200 });
  const rows = await world.journal.list("uid-1");
  expect(rows.map(({ device }) => device?.id)).toEqual(["d1", "d2"]);
});

test("runs DEL with the configuration of ADD, although annotation and definition have changed", async () => {
  world.putNad({ namespace: "kube-system", name: "own" }, { type: "bridge", bridge: "br7" });
  await bind("own");
  await runtime.call("ADD");
  world.dropNad("kube-system/own");
  await bind("[");
  expect(await runtime.call("DEL")).toMatchObject({ status: 200 });
  expect(world.requests.at(-1)?.request).toMatchObject({
    interfaceName: "eth0",
    config: { name: "own", plugins: [{ bridge: "br7" }] },
  });
  expect(world.cni.attachments).toEqual([]);
});

test("ignores edits of the annotation of a running pod", async () => {
  await bind("own");
  await runtime.call("ADD");
  const annotations = { [names.DEFAULT_NETWORK_ANNOTATION]: "ns1/mine" };
  await world.putPod({ networks: "a", annotations });
  const before = world.cni.calls.length;
  expect(await world.pass()).toBeUndefined();
  expect(world.cni.calls).toHaveLength(before);
});

test("undoes a failed attachment and returns its plugin's error code", async () => {
  const fault = { plugin: "bridge", command: "ADD", message: "no", cniCode: 107 };
  world.cni.failNext("add", new AppError("CNI_PLUGIN_FAILED", fault), "half");
  await bind("own");
  expect((await runtime.call("ADD")).parsed).toMatchObject({ code: 107 });
  expect(world.cni.attachments).toEqual([]);
  expect(await world.journal.list("uid-1")).toEqual([]);
});

describe("a network without a free address", () => {
  const EXHAUSTED = new AppError("CNI_PLUGIN_FAILED", {
    plugin: "bridge",
    command: "ADD",
    message: "no IP addresses available in range set: 10.0.0.2-10.0.0.3",
  });

  async function add(launcherOf?: string): Promise<number> {
    await world.putPod({
      networks: "a",
      phase: "Pending",
      annotations: { [names.DEFAULT_NETWORK_ANNOTATION]: "own" },
      ...(launcherOf === undefined ? {} : { launcherOf }),
    });
    world.putSandbox("uid-1", "box-uid-1");
    world.sandboxes.take("uid-1");
    const original = world.cni.add.bind(world.cni);
    const failing = vi.spyOn(world.cni, "add").mockImplementation((request) => {
      return request.interfaceName === "net1" ? Promise.reject(EXHAUSTED) : original(request);
    });
    const { status } = await runtime.call("ADD");
    failing.mockRestore();
    return status;
  }

  test("does not block a VM, whose NIC is attached later", async () => {
    world.putVmi("vmi-1");
    expect(await add("vmi-1")).toBe(200);
    expect(await told()).toEqual(["kube-system/own eth0 default"]);
    expect(await world.errorReasons()).toEqual({ net1: "AddressesExhausted" });
    await world.putPod({ networks: "a", launcherOf: "vmi-1" });
    await world.pass();
    expect(await told()).toEqual(["kube-system/own eth0 default", "ns1/a net1"]);
  });

  test("blocks any other pod", async () => {
    expect(await add()).not.toBe(200);
    expect(world.cni.attachments).toEqual([]);
  });
});

describe("a tenant's own default network", () => {
  const ipam = { type: "static", addresses: [{ address: "10.60.1.5/24" }] };

  beforeEach(() => {
    const networks = { ranges: ["10.60.0.0/16"], clusterNetworks: ["10.244.0.0/16"] };
    world.policy = { ...DEFAULT_POLICY, ...networks };
    world.putNad({ namespace: "ns1", name: "a" }, { type: "macvlan" });
  });

  async function add(config: object): Promise<string> {
    world.putNad({ namespace: "ns1", name: "mine" }, { type: "macvlan", ...config });
    await bind("ns1/mine");
    const { parsed } = await runtime.call("ADD");
    return (parsed as { readonly msg?: string }).msg ?? "added";
  }

  test.each([
    { name: "no addresses", config: {} },
    { name: "addresses in an allowed range", config: { ipam } },
  ])("may have $name", async ({ config }) => {
    expect(await add(config)).toBe("added");
  });

  test("may not have the address of another pod", async () => {
    const addresses = [{ address: "10.244.1.5/24" }];
    expect(await add({ ipam: { type: "static", addresses } })).toContain(
      'ipam.addresses[0].address "10.244.1.5/24", which is in no range',
    );
    expect(await add({ ipam: { type: "dhcp" } })).toContain("the pod's own address are unknown");
    expect(world.cni.calls).toEqual([]);
  });

  test("is undone if its plugin assigns another address", async () => {
    world.resultOf = (result) => ({ ...result, ips: [{ address: "10.244.1.5/24" }] });
    expect(await add({})).toContain("10.244.1.5/24");
    expect(world.cni.attachments).toEqual([]);
    expect(await world.journal.list("uid-1")).toEqual([]);
  });

  test.each([
    { ip: "10.9.0.7", want: "added" },
    { ip: "10.244.1.5", want: "10.244.1.5" },
  ])("of an administrator assigns no address outside of its subnet: $ip", async ({ ip, want }) => {
    const element = { namespace: "default", name: "shared", ips: [ip] };
    world.resultOf = (result) => ({ ...result, ips: [{ address: `${ip}/24` }] });
    world.putNad(
      { namespace: "default", name: "shared" },
      { type: "bridge", ipam: { type: "static", subnet: "10.9.0.0/24" } },
    );
    await bind(JSON.stringify([element]));
    const { parsed } = await runtime.call("ADD");
    expect((parsed as { readonly msg?: string }).msg ?? "added").toContain(want);
  });

  test("may not forward ports of the node", async () => {
    const portMappings = [{ hostPort: 6443, containerPort: 80 }];
    const capabilities = { portMappings: true };
    world.putNad({ namespace: "ns1", name: "mine" }, { type: "portmap", capabilities });
    await bind(JSON.stringify([{ namespace: "ns1", name: "mine", portMappings }]));
    const { parsed } = await runtime.call("ADD");
    expect(parsed).toMatchObject({ msg: expect.stringContaining("hostPort 6443") as string });
    expect(world.cni.calls).toEqual([]);
  });
});
