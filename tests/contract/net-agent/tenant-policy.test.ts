// SPDX-License-Identifier: Apache-2.0
// Changes of the tenant policy in the KubeVirt object while net-agent runs.
import {
  EVENTS,
  KUBEVIRTS,
  NETWORK_ATTACHMENT_DEFINITIONS,
  type ClusterTenantPolicy,
} from "@patchbay/api";
import type { KubeObject } from "@patchbay/api/kubernetes";
import { eventually, run } from "@patchbay/support";
import { CUSTOM_RESOURCE_DEFINITIONS } from "@patchbay/support/api-server";
import { afterAll, beforeAll, expect, test } from "vitest";
import { AgentMachine } from "./machine.ts";

const TIMEOUT = { withinMs: 15_000 };
const TENANT = "tenant";
const KEY = { namespace: "default", name: "kubevirt" };
const KUBEVIRT_KIND = { name: "kubevirts.kubevirt.io" };

let machine: AgentMachine;

beforeAll(async () => {
  machine = await AgentMachine.start();
  await machine.addNamespace(TENANT);
  await machine.admin.store.create(KUBEVIRTS, {
    apiVersion: "kubevirt.io/v1",
    kind: "KubeVirt",
    metadata: KEY,
    spec: { configuration: { network: { tenantPolicy: { plugins: ["!bridge", "*"] } } } },
  });
});
afterAll(async () => {
  await machine.close();
});

async function setPolicy(tenantPolicy: ClusterTenantPolicy): Promise<void> {
  const fields = { spec: { configuration: { network: { tenantPolicy } } } };
  await machine.admin.store.patch(KUBEVIRTS, KEY, { type: "merge", fields });
}

/** Why the pod's attachment waits. */
async function errorOf(pod: string): Promise<string> {
  const [error] = await eventually(async () => {
    const errors = Object.values(await machine.errors(TENANT, pod));
    return errors.length > 0 ? errors : undefined;
  }, TIMEOUT);
  return `${error?.reason ?? ""} ${error?.message ?? ""}`;
}

async function waitUntilAttached(pod: string): Promise<void> {
  await eventually(
    async () => (await machine.networkStatus(TENANT, pod)).length > 0 || undefined,
    TIMEOUT,
  );
}

test("attaches a rejected network as soon as the configuration allows it", async () => {
  await machine.putNad(TENANT, "blue", [machine.node.bridgePlugin()]);
  await machine.runPod({ namespace: TENANT, name: "waits", networks: "blue" });
  expect(await errorOf("waits")).toMatch(
    /^DefinitionForbidden .*type "bridge" \(--tenant-plugins\).* or in spec\.configuration\.network\.tenantPolicy of the KubeVirt object$/,
  );
  await setPolicy({ plugins: ["*"] });
  await waitUntilAttached("waits");
  expect(await machine.errors(TENANT, "waits")).toEqual({});
});

test("rejects an invalid policy at admission", async () => {
  await expect(setPolicy({ masters: ["eth1", "e*0"], paths: ["/run/../etc"] })).rejects.toThrow(
    /spec\.configuration\.network\.tenantPolicy\.masters\[1\]/,
  );
});

test("where the kind accepts it, reports it in events and retains the previous policy", async () => {
  const { store } = machine.admin;
  const kind = await store.find(CUSTOM_RESOURCE_DEFINITIONS, KUBEVIRT_KIND);
  const text = JSON.stringify(kind);
  // Like KubeVirt's own kind if it preserved unknown fields.
  const open = text.replaceAll(/"pattern":"(?:[^"\\]|\\.)*",?/g, "").replaceAll(",}", "}");
  await store.update(CUSTOM_RESOURCE_DEFINITIONS, JSON.parse(open) as KubeObject);
  await eventually(async () => {
    await setPolicy({ plugins: ["b*e"] });
    return true;
  }, TIMEOUT);
  const event = await eventually(async () => {
    const { items } = await store.list(EVENTS, { namespace: KEY.namespace });
    return items.find(({ reason }) => reason === "TenantPolicyInvalid");
  }, TIMEOUT);
  expect(event.involvedObject).toMatchObject({ kind: "KubeVirt", name: KEY.name });
  expect(event.message).toMatch(
    /tenantPolicy\.plugins\[0\]: "b\*e" must be .*previous policy stays in force/,
  );
  await machine.putNad(TENANT, "red", [machine.node.bridgePlugin()]);
  await machine.runPod({ namespace: TENANT, name: "second", networks: "red" });
  await waitUntilAttached("second");
});

test("without KubeVirt's kinds only the flags apply", async () => {
  await using other = await AgentMachine.start(async ({ store }) => {
    await store.delete(CUSTOM_RESOURCE_DEFINITIONS, KUBEVIRT_KIND);
  });
  await other.addNamespace(TENANT);
  await other.putNad(TENANT, "blue", [{ type: "host-device", device: "eth0" }]);
  await other.runPod({ namespace: TENANT, name: "pod", networks: "blue" });
  const [error] = await eventually(async () => {
    const errors = Object.values(await other.errors(TENANT, "pod"));
    return errors.length > 0 ? errors : undefined;
  }, TIMEOUT);
  expect(error?.reason).toBe("DefinitionForbidden");
  expect(error?.message).toMatch(/allow it by the flag of net-agent that is named$/);
});

test("beside Multus attaches and reports a tenant's network on the node's own bridge", async () => {
  await using other = await AgentMachine.start(undefined, { tenantPolicyMode: "auto" });
  await other.addNamespace(TENANT);
  const bridge = other.node.nameLink("own");
  const uplink = other.node.nameLink("up");
  run("ip", "link", "add", bridge, "type", "bridge");
  run("ip", "link", "add", uplink, "link", other.node.addParent(), "type", "macvlan");
  run("ip", "link", "set", uplink, "master", bridge);
  await other.putNad(TENANT, "uplink", [{ type: "bridge", bridge }]);
  const sandbox = await other.runPod({ namespace: TENANT, name: "pod", networks: "uplink@net1" });
  const { store } = other.admin;
  const problems = await eventually(async () => {
    const key = { namespace: TENANT, name: "uplink" };
    return (await store.find(NETWORK_ATTACHMENT_DEFINITIONS, key))?.status?.problems;
  }, TIMEOUT);
  const message = expect.stringMatching(
    /^networks of this definition are attached, .*--tenant-bridges.*named$/,
  ) as string;
  expect(problems).toMatchObject([{ reason: "DefinitionTolerated", message }]);
  const event = await eventually(async () => {
    const { items } = await store.list(EVENTS, { namespace: TENANT });
    return items.find(({ reason }) => reason === "DefinitionTolerated");
  }, TIMEOUT);
  expect(event).toMatchObject({ type: "Warning", involvedObject: { name: "uplink" }, message });
  expect(await other.printMetrics()).toContain(
    'patchbay_network_problems{reason="DefinitionTolerated"} 1\n',
  );
  await expect
    .poll(() => other.node.nics(sandbox), { timeout: TIMEOUT.withinMs })
    .toEqual(["net1"]);
  expect(await other.errors(TENANT, "pod")).toEqual({});
});
