// SPDX-License-Identifier: Apache-2.0
// A network that cannot work on a node reports it before any pod requests it, in its status and events, until it works.
import { rmSync } from "node:fs";
import { join } from "node:path";
import {
  EVENTS,
  NETWORK_ATTACHMENT_DEFINITIONS,
  NODES,
  VIRTUAL_MACHINE_INSTANCES,
  type NodeProblem,
} from "@patchbay/api";
import type { KubeObject } from "@patchbay/api/kubernetes";
import { eventually, run } from "@patchbay/support";
import { CUSTOM_RESOURCE_DEFINITIONS } from "@patchbay/support/api-server";
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { AgentMachine } from "./machine.ts";

const TIMEOUT = { withinMs: 15_000 };
const NAMESPACE = "default";
const NODE = "node-1";
const NAD_KIND = { name: "network-attachment-definitions.k8s.cni.cncf.io" };

/** Whether this kernel supports VLAN filtering on bridges. */
function canFilterVlans(): boolean {
  const netns = `pbv${String(process.pid)}`;
  run("ip", "netns", "add", netns);
  try {
    const add = ["link", "add", "br", "type", "bridge", "vlan_filtering", "1"];
    run("ip", "-n", netns, ...add);
    return true;
  } catch {
    return false;
  } finally {
    run("ip", "netns", "del", netns);
  }
}

let machine: AgentMachine;

beforeAll(async () => {
  machine = await AgentMachine.start();
});
afterAll(async () => {
  await machine.close();
});

async function problemsOf(name: string): Promise<readonly NodeProblem[]> {
  const key = { namespace: NAMESPACE, name };
  const nad = await machine.admin.store.find(NETWORK_ATTACHMENT_DEFINITIONS, key);
  return nad?.status?.problems ?? [];
}

/** The node's report on the network, as soon as it matches. */
async function waitFor(name: string, reason: string | undefined): Promise<string> {
  const reported = await eventually(async () => {
    const problem = (await problemsOf(name)).find(({ node }) => node === NODE);
    return problem?.reason === reason ? { message: problem?.message ?? "" } : undefined;
  }, TIMEOUT);
  return reported.message;
}

async function eventsOf({ admin }: AgentMachine, name: string): Promise<readonly string[]> {
  const { items } = await admin.store.list(EVENTS, { namespace: NAMESPACE });
  return items
    .filter(({ involvedObject: about }) => about.kind === "NetworkAttachmentDefinition")
    .filter(({ involvedObject: about }) => about.name === name)
    .map(({ type, reason, message }) => `${type} ${reason} ${message}`);
}

/** Why the pod's attachment waits. */
async function errorOf(pod: string): Promise<string> {
  const [error] = await eventually(async () => {
    const errors = Object.values(await machine.errors(NAMESPACE, pod));
    return errors.length > 0 ? errors : undefined;
  }, TIMEOUT);
  return `${error?.reason ?? ""} ${error?.message ?? ""}`;
}

describe("a network problem is reported without a pod", () => {
  test.each([
    { name: "no-json", config: "{", reason: "NetworkInvalid", says: /is not a JSON object/ },
    {
      name: "no-plugin",
      config: '{"cniVersion":"1.0.0","type":"no-such-plugin"}',
      reason: "PluginMissing",
      says: /no-such-plugin was not found in .*; correct the name/,
    },
    {
      name: "no-ipam",
      config: '{"cniVersion":"1.0.0","type":"ptp","ipam":{"type":"nope"}}',
      reason: "PluginMissing",
      says: /plugin nope was not found in/,
    },
    {
      name: "empty-range",
      reason: "NetworkInvalid",
      says: /ipam: has no address for a pod/,
      config:
        '{"cniVersion":"1.0.0","type":"ptp","ipam":{"type":"host-local","subnet":"10.1.0.0/24","rangeStart":"10.1.0.9","rangeEnd":"10.1.0.8"}}',
    },
  ])("$name", async ({ name, config, reason, says }) => {
    await machine.putNad(NAMESPACE, name, config);
    const message = await waitFor(name, reason);
    expect(message).toMatch(says);
    const [event, ...others] = await eventually(async () => {
      const events = await eventsOf(machine, name);
      return events.length > 0 ? events : undefined;
    }, TIMEOUT);
    expect([event, ...others]).toEqual([`Warning ${reason} ${message}`]);
  });

  test("kubectl shows the problem in a column", async () => {
    await machine.putNad(NAMESPACE, "good", [machine.node.layer2Plugin()]);
    await waitFor("no-json", "NetworkInvalid");
    const table = await machine.kubectl("get", "nad");
    expect(table).toMatch(/^NAME +PROBLEM +AGE$/m);
    expect(table).toMatch(/^no-json +NetworkInvalid +\d/m);
    expect(table).toMatch(/^good +\d+s$/m);
    const wide = await machine.kubectl("get", "nad", "no-json", "-o", "wide");
    expect(wide).toMatch(
      /NetworkInvalid +node-1 +the configuration of network default\/no-json is/,
    );
  });
});

function addLink(name: string): void {
  run("ip", "link", "add", name, "type", "veth", "peer", "name", `${name}x`);
}

test("reports a missing link until it appears, and does not write the definition otherwise", async () => {
  const master = machine.node.nameLink("m");
  await machine.putNad(NAMESPACE, "on-link", [{ type: "macvlan", master }]);
  await waitFor("on-link", "NodeLinkUnfit");
  await machine.runPod({ namespace: NAMESPACE, name: "asks", networks: "on-link" });
  // The plugin's own error is "Link not found".
  const words = `network default/on-link needs link ${master} (master), which the node does not`;
  expect(await errorOf("asks")).toContain(`NodeLinkUnfit ${words}`);
  await machine.ask(NAMESPACE, "asks", "");
  addLink(master);
  await waitFor("on-link", undefined);
  run("ip", "link", "del", master);
  await waitFor("on-link", "NodeLinkUnfit");
  const version = async (): Promise<string | undefined> => {
    const key = { namespace: NAMESPACE, name: "on-link" };
    const nad = await machine.admin.store.find(NETWORK_ATTACHMENT_DEFINITIONS, key);
    return nad?.metadata.resourceVersion;
  };
  const before = await version();
  machine.node.addParent(); // an unreferenced link
  await machine.putNad(NAMESPACE, "later", "{");
  await waitFor("later", "NetworkInvalid");
  expect(await version()).toBe(before);
});

test("reports a missing plugin until it is installed", async () => {
  await machine.putNad(NAMESPACE, "late", '{"cniVersion":"1.0.0","type":"late-plugin"}');
  await waitFor("late", "PluginMissing");
  machine.node.addPlugin("late-plugin", "exit 1");
  await waitFor("late", undefined);
  rmSync(join(machine.node.binDir, "late-plugin"));
  expect(await waitFor("late", "PluginMissing")).toContain("late-plugin");
});

test("reports an exhausted range until one address is free", async () => {
  const range = { from: "10.55.0.5", to: "10.55.0.5" };
  await machine.putNad(NAMESPACE, "small", [machine.node.bridgePlugin(range)]);
  await machine.runPod({ namespace: NAMESPACE, name: "first", networks: "small" });
  await eventually(() => machine.node.leases("small").length > 0, TIMEOUT);
  await machine.runPod({ namespace: NAMESPACE, name: "second", networks: "small" });
  const reported = await waitFor("small", "AddressesExhausted");
  expect(reported).toMatch(
    /^all 1 addresses of ipam\.ranges\[0\] of network default\/small are in use/,
  );
  expect(await errorOf("second")).toBe(`AddressesExhausted ${reported}`);
  await machine.ask(NAMESPACE, "second", "");
  await machine.ask(NAMESPACE, "first", "");
  await waitFor("small", undefined);
});

test("reports a VLAN on a bridge where the kernel cannot filter VLANs", async () => {
  await machine.runPod({ namespace: NAMESPACE, name: "makes-bridge", networks: "good" });
  await eventually(() => machine.node.bridgePorts().length > 0, TIMEOUT);
  const bridge = machine.node.nameLink("v");
  await machine.putNad(NAMESPACE, "tagged", [{ type: "bridge", bridge, vlan: 100 }]);
  await machine.runPod({ namespace: NAMESPACE, name: "tagged", networks: "tagged" });
  const want = canFilterVlans() ? "attached" : "VlanUnsupported";
  const outcome = await eventually(async () => {
    const [problem] = await problemsOf("tagged");
    const errors = Object.values(await machine.errors(NAMESPACE, "tagged"));
    const isAttached = (await machine.networkStatus(NAMESPACE, "tagged")).length > 0;
    if (isAttached) return "attached";
    return errors[0]?.reason === problem?.reason ? problem?.reason : undefined;
  }, TIMEOUT);
  expect(outcome).toBe(want);
});

test("reports ipvlan as soon as a VM's launcher requests it", async () => {
  const master = machine.node.addParent();
  await machine.putNad(NAMESPACE, "shared-mac", [{ type: "ipvlan", master }]);
  const { kind } = VIRTUAL_MACHINE_INSTANCES;
  const vmi = await machine.admin.store.create(VIRTUAL_MACHINE_INSTANCES, {
    apiVersion: "kubevirt.io/v1",
    kind,
    metadata: { namespace: NAMESPACE, name: "vm" },
    spec: { domain: {} },
  });
  const { uid = "" } = vmi.metadata;
  const owner = { apiVersion: "kubevirt.io/v1", kind, name: "vm", uid, controller: true };
  expect(await problemsOf("shared-mac")).toEqual([]);
  await machine.runPod({
    namespace: NAMESPACE,
    name: "launcher",
    networks: "shared-mac",
    metadata: { ownerReferences: [owner] },
  });
  expect(await waitFor("shared-mac", "NetworkCannotCarryVm")).toMatch(
    /^plugin ipvlan of network default\/shared-mac makes NICs that cannot carry .*; use a network of/,
  );
});

test("preserves another node's report unless that node is deleted", async () => {
  const metadata = { name: "node-0" };
  await machine.admin.store.create(NODES, { apiVersion: "v1", kind: NODES.kind, metadata });
  await machine.putNad(NAMESPACE, "two", '{"cniVersion":"1.0.0","type":"no-such-plugin"}');
  await waitFor("two", "PluginMissing");
  const [own] = await problemsOf("two");
  const other = { ...own, node: "node-0", reason: "NodeLinkUnfit" };
  const gone = { ...other, node: "node-9" };
  await machine.admin.store.patch(
    NETWORK_ATTACHMENT_DEFINITIONS,
    { namespace: NAMESPACE, name: "two" },
    { type: "merge", fields: { status: { problems: [other, own, gone] } } },
    { subresource: "status" },
  );
  await eventually(async () => (await problemsOf("two")).length === 2 || undefined, TIMEOUT);
  expect(await problemsOf("two")).toEqual([other, own]);
  machine.node.addPlugin("no-such-plugin", "exit 1");
  await waitFor("two", undefined);
  expect(await problemsOf("two")).toEqual([other]);
  rmSync(join(machine.node.binDir, "no-such-plugin"));
});

test("uses events for Multus' own kind, which has no status", async () => {
  await using other = await AgentMachine.start(async ({ store }) => {
    const kind = await store.find(CUSTOM_RESOURCE_DEFINITIONS, NAD_KIND);
    // In Multus' form.
    const text = JSON.stringify(kind).replace('"subresources":{"status":{}},', "");
    await store.update(CUSTOM_RESOURCE_DEFINITIONS, JSON.parse(text) as KubeObject);
  });
  await other.putNad(NAMESPACE, "broken", "{");
  const [event] = await eventually(async () => {
    const events = await eventsOf(other, "broken");
    return events.length > 0 ? events : undefined;
  }, TIMEOUT);
  expect(event).toMatch(/^Warning NetworkInvalid .*is not a JSON object/);
});
