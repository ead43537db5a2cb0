// SPDX-License-Identifier: Apache-2.0
// VMs on plugins that cannot set a MAC, and unplug of a NIC that the pod's runtime created.
import { mkdirSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { names, VIRTUAL_MACHINE_INSTANCES } from "@patchbay/api";
import { printNetworkStatus } from "@patchbay/api/annotations";
import type { ObjectMeta } from "@patchbay/api/kubernetes";
import { createCni, findNetworkStatus } from "@patchbay/cni";
import { createNamespaces, createNetlink, createProcessRunner } from "@patchbay/os";
import { createPodNetwork } from "@patchbay/podnet";
import type { AttachmentRequest, NetworkConfigList, Sandbox } from "@patchbay/core/interfaces";
import { eventually, run } from "@patchbay/support";
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { AgentMachine } from "./machine.ts";

const MAC = "02:00:00:00:77:01";
const TIMEOUT = { withinMs: 10_000 };
const NAMESPACE = "default";
const requested = (name: string): string => JSON.stringify([{ name, interface: "net1", mac: MAC }]);

let machine: AgentMachine;
let owner: NonNullable<ObjectMeta["ownerReferences"]>[number];

beforeAll(async () => {
  machine = await AgentMachine.start();
  const { kind } = VIRTUAL_MACHINE_INSTANCES;
  const vmi = await machine.admin.store.create(VIRTUAL_MACHINE_INSTANCES, {
    apiVersion: "kubevirt.io/v1",
    kind,
    metadata: { namespace: NAMESPACE, name: "vm1" },
    spec: { domain: {} },
  });
  const { uid = "" } = vmi.metadata;
  owner = { apiVersion: "kubevirt.io/v1", kind, name: "vm1", uid, controller: true };
});

afterAll(async () => {
  await machine.close();
});

/** Bridge and tap around the NIC, like virt-handler's. */
async function wire(sandbox: Sandbox): Promise<void> {
  const netns = createNamespaces().open(sandbox.netnsPath);
  if (netns === undefined) throw new Error("the sandbox has no namespace");
  const network = createPodNetwork({ runner: createProcessRunner(), netlink: createNetlink() });
  const links = { podInterfaceName: "net1", bridgeName: "k6t-net1", tapName: "tap1" };
  const tap = { mac: MAC, mtu: 1500, owner: 107, queues: 1 };
  await network.wireTap(netns, { kind: "bridge", ...links, ...tap });
  netns.close();
}

describe.each(["ptp", "host-device"])("a launcher on %s", (type) => {
  let plugin: NetworkConfigList["plugins"][number];
  let device: string;

  beforeAll(async () => {
    device = type === "host-device" ? machine.node.addParent() : "";
    const { ipam } = machine.node.bridgePlugin();
    plugin = type === "ptp" ? { type, ipam } : { type, device };
    await machine.putNad(NAMESPACE, type, [plugin]);
  });

  test("is attached although the kernel refuses the guest's MAC, which the wiring sets", async () => {
    const pod = { namespace: NAMESPACE, name: `launcher-${type}` };
    const metadata = { ownerReferences: [owner] };
    const sandbox = await machine.runPod({ ...pod, networks: requested(type), metadata });
    await eventually(
      async () => (await machine.networkStatus(pod.namespace, pod.name)).length > 0,
      TIMEOUT,
    );
    expect(await machine.errors(pod.namespace, pod.name)).toEqual({});
    const before = macOf(sandbox);
    expect(before).not.toBe(MAC);
    await wire(sandbox);
    expect(macOf(sandbox)).toBe(MAC);
    await machine.ask(pod.namespace, pod.name, "");
    await eventually(() => !machine.node.nics(sandbox).includes("net1"), TIMEOUT);
    // A NIC is back on the machine unchanged.
    const card = device === "" ? String(before) : run("ip", "link", "show", device);
    expect(card).toContain(before);
  });

  test("rejects a pod that its VMI does not control, because a user requested that MAC", async () => {
    const pod = { namespace: NAMESPACE, name: `impostor-${type}` };
    const metadata = { ownerReferences: [{ ...owner, controller: false }] };
    const sandbox = await machine.runPod({ ...pod, networks: requested(type), metadata });
    // The plugin once failed on a busy machine, which is another error until its retry.
    await expect
      .poll(() => machine.errors(pod.namespace, pod.name))
      .toMatchObject({ net1: { reason: "RequestNotMet" } });
    expect(machine.node.nics(sandbox)).toEqual([]);
  });
});

test("unplugs what the runtime created with the pod, and its second DEL does no harm", async () => {
  const pod = { namespace: NAMESPACE, name: "cold" };
  // A launcher's name, which identifies it to the agent, also when the request precedes the agent's observation.
  const interfaceName = "pod0000000c01d";
  const config = { cniVersion: "1.0.0", name: "cold", plugins: [machine.node.bridgePlugin()] };
  const cni = createCni({
    runner: createProcessRunner(),
    binDirs: ["/usr/lib/cni"],
    family: "runtime",
  });
  const requestIn = ({ id: containerId, netnsPath }: Sandbox): AttachmentRequest => ({
    containerId,
    netnsPath,
    interfaceName,
    config,
    capabilityArgs: {},
    args: [["IgnoreUnknown", "1"]],
  });
  const prepare = async (sandbox: Sandbox): Promise<Readonly<Record<string, string>>> => {
    const result = await cni.add(requestIn(sandbox));
    const results = join(machine.cacheDir, "results");
    mkdirSync(results, { recursive: true });
    const entry = {
      kind: "cniCacheV1",
      containerId: sandbox.id,
      ifName: interfaceName,
      networkName: "cold",
      config: Buffer.from(JSON.stringify(config)).toString("base64"),
      result,
      cniArgs: [["IgnoreUnknown", "1"]],
    };
    writeFileSync(join(results, `cold-${sandbox.id}-${interfaceName}`), JSON.stringify(entry));
    const status = [findNetworkStatus(result, `${NAMESPACE}/cold`, interfaceName)];
    return { [names.NETWORK_STATUS_ANNOTATION]: printNetworkStatus(status) };
  };
  const sandbox = await machine.runPod({ ...pod, networks: `cold@${interfaceName}`, prepare });
  expect(machine.node.leases("cold")).toHaveLength(1);
  await machine.ask(pod.namespace, pod.name, "");
  await eventually(
    async () => (await machine.networkStatus(pod.namespace, pod.name)).length === 0,
    TIMEOUT,
  );
  expect(machine.node.nics(sandbox)).toEqual([]);
  expect(machine.node.leases("cold")).toEqual([]);
  await cni.del(requestIn(sandbox));
});

function macOf(sandbox: Sandbox): string | undefined {
  return machine.node.links(sandbox).find(({ ifname }) => ifname === "net1")?.address;
}
