// SPDX-License-Identifier: Apache-2.0
// Networks whose definition names a marker resource, such as `bridge.network.kubevirt.io/br1`: a resource without devices, which tells
// the scheduler where a bridge is. An administrator or a marker DaemonSet adds it to the capacity of nodes.
import { names } from "@patchbay/api";
import type { KubeNode } from "@patchbay/api/kubernetes";
import { bridgeNetworkManifest, eventually, FEW_PORTS, vmManifest } from "@patchbay/support";
import { afterAll, beforeAll, expect, test } from "vitest";
import { addInterface, expectReady, guestNic, machine } from "../machine.ts";

const VM = "marked";
const OFFERED = "bridge.network.kubevirt.io/pbt-marked";
const UNOFFERED = "ovs-cni.network.kubevirt.io/pbt-nowhere";
/** Networks by the resource that their definition names. */
const NETWORKS = [
  { name: "offered", bridge: "pbt-marked", resource: OFFERED },
  { name: "unoffered", bridge: "pbt-nowhere", resource: UNOFFERED },
];
/** Interval of the node's reports, with a reserve. */
const HEARTBEAT_MS = 60_000;

function findNode(): KubeNode {
  const { items } = machine.read("/api/v1/nodes") as { readonly items: readonly KubeNode[] };
  const [node] = items;
  if (node === undefined) throw new Error("the machine has no node");
  return node;
}

/** Writes the node's capacity, as an administrator does with kubectl; null removes the resource. */
function setCapacity(resource: string, amount: string | null): void {
  const patch = JSON.stringify({ status: { capacity: { [resource]: amount } } });
  const target = ["node", findNode().metadata.name, "--subresource=status"];
  machine.kubectl("patch", ...target, "--type=merge", "-p", patch);
}

/** Resources that the launcher's containers request of the two. */
function requestedMarkers(): readonly string[] {
  const containers = machine.findPod(VM)?.spec.containers ?? [];
  const requested = containers.flatMap(({ resources }) => Object.keys(resources?.limits ?? {}));
  return requested.filter((resource) => [OFFERED, UNOFFERED].includes(resource));
}

async function expectNic(name: string): Promise<void> {
  const { mac = "", hotplug } = await expectReady(VM, name);
  expect(hotplug?.reason).toBeUndefined();
  expect(await guestNic(VM, mac)).toMatch(/^eth/);
}

beforeAll(() => {
  for (const { name, bridge, resource } of NETWORKS) {
    const manifest = bridgeNetworkManifest(name, bridge) as { readonly metadata: object };
    const annotations = { [names.RESOURCE_NAME_ANNOTATION]: resource };
    machine.apply({ ...manifest, metadata: { ...manifest.metadata, annotations } });
  }
});

afterAll(() => {
  machine.deleteIfPresent("vm", VM);
  machine.deleteIfPresent("net-attach-def", ...NETWORKS.map(({ name }) => name));
  setCapacity(OFFERED, null);
});

test("a node makes capacity that an administrator added allocatable, as a kubelet does", async () => {
  setCapacity(OFFERED, "1k");
  await eventually(() => findNode().status?.allocatable?.[OFFERED] === "1k", {
    withinMs: HEARTBEAT_MS,
  });
  expect(findNode().status?.capacity?.[OFFERED]).toBe("1k");
});

test("a launcher requests the marker that a node offers, and not the other; the guest has both NICs", async () => {
  const nics = NETWORKS.map(({ name }) => ({ name: `${name}0`, network: name }));
  machine.apply(
    vmManifest({ name: VM, nics: [{ name: "default" }, ...nics], pcieRootPorts: FEW_PORTS }),
  );
  await machine.booted(VM);
  for (const { name } of nics) await expectNic(name);
  expect(requestedMarkers()).toEqual([OFFERED]);
});

test("plugs further NICs of both networks without a device, although the launcher did not request them", async () => {
  for (const { name } of NETWORKS) {
    addInterface(VM, { name: `${name}1`, network: name });
    await expectNic(`${name}1`);
  }
});
