// SPDX-License-Identifier: Apache-2.0
// Default networks of a tenant's pods that take the address of another pod or a port of the node. Port forwarding, probes and
// Services connect to the address in the pod's status.
import { names } from "@patchbay/api";
import { DEFAULT_POLICY } from "@patchbay/core/nics";
import { beforeEach, expect, test } from "vitest";
import { FakeRuntime } from "../../../packages/control-plane/net-agent/src/testing/runtime.ts";
import { World } from "../../../packages/control-plane/net-agent/src/testing/world.ts";

const OWN = { namespace: "ns1", name: "own" };
const SHARED = { namespace: "default", name: "shared" };
const VICTIM = "10.244.1.5";

let world: World;
let runtime: FakeRuntime;

beforeEach(() => {
  world = new World();
  world.policy = DEFAULT_POLICY;
  runtime = new FakeRuntime(world);
  const ipam = { type: "static" };
  world.putNad(SHARED, { type: "bridge", capabilities: { ips: true }, ipam });
});

/** The runtime's answer to a new pod with this default network. */
async function attempt(element: object): Promise<string> {
  const own = JSON.stringify([element]);
  const annotations = { [names.DEFAULT_NETWORK_ANNOTATION]: own };
  await world.putPod({ networks: "", phase: "Pending", annotations });
  world.putSandbox("uid-1", "box-uid-1");
  world.sandboxes.take("uid-1");
  return (await runtime.call("ADD")).body;
}

const fixed = { type: "static", addresses: [{ address: `${VICTIM}/24` }] };

test.each([
  { name: "in its own definition", plugin: { type: "bridge", bridge: "b", ipam: fixed } },
  { name: "by its own DHCP server", plugin: { type: "macvlan", ipam: { type: "dhcp" } } },
  { name: "by a plugin of its own choice", plugin: { type: "any" }, assigned: VICTIM },
  { name: "in its annotation", element: { ...SHARED, ips: [`${VICTIM}/24`] } },
  { name: "in its cni-args", element: { ...SHARED, "cni-args": { ips: [`${VICTIM}/24`] } } },
])("attack 156: a pod does not get another pod's address $name", async (row) => {
  const { plugin = { type: "bridge" }, element = OWN, assigned } = row;
  world.putNad(OWN, plugin);
  if (assigned !== undefined) {
    world.resultOf = (result) => ({ ...result, ips: [{ address: `${assigned}/24` }] });
  }
  expect(await attempt(element)).toContain("tenant policy forbids");
  expect(world.cni.attachments).toEqual([]);
});

test("attack 156: a pod does not get a port of the node with its default network", async () => {
  world.putNad(OWN, { type: "portmap", capabilities: { portMappings: true } });
  const portMappings = [{ hostPort: 6443, containerPort: 80 }];
  expect(await attempt({ ...OWN, portMappings })).toContain("hostPort 6443");
  expect(world.cni.calls).toEqual([]);
});

test("attaches a tenant's default network without addresses", async () => {
  world.putNad(OWN, { type: "bridge", bridge: "b" });
  expect(await attempt(OWN)).toContain("interfaces");
});
