// SPDX-License-Identifier: Apache-2.0
// Devices that a launcher requests, and networks that its node lacks, against an API
// server.
import {
  KUBEVIRTS,
  names,
  NETWORK_ATTACHMENT_DEFINITIONS,
  NODES,
  type NetworkAttachmentDefinition,
  type NodeProblem,
} from "@patchbay/api";
import { pointerToken } from "@patchbay/core/status";
import { eventually } from "@patchbay/support";
import { afterEach, expect, test } from "vitest";
import { useStage } from "./testing/component-environment.ts";

const SOON = { withinMs: 5000 };
const stage = useStage();
const made: { readonly namespace: string; readonly name: string }[] = [];

afterEach(async () => {
  for (const key of made.splice(0)) {
    await stage.admin.store.delete(NETWORK_ATTACHMENT_DEFINITIONS, key);
  }
});

async function define(name: string, resource?: string): Promise<NetworkAttachmentDefinition> {
  const key = { namespace: "default", name };
  made.push(key);
  const annotations = resource === undefined ? {} : { [names.RESOURCE_NAME_ANNOTATION]: resource };
  const { kind } = NETWORK_ATTACHMENT_DEFINITIONS;
  return stage.admin.store.create(NETWORK_ATTACHMENT_DEFINITIONS, {
    apiVersion: "k8s.cni.cncf.io/v1",
    kind,
    metadata: { ...key, annotations },
    spec: { config: "{}" },
  });
}

/** Problems that net-agents report. */
async function tell(name: string, problems: readonly NodeProblem[]): Promise<void> {
  const patch = { type: "merge", fields: { status: { problems } } } as const;
  const key = { namespace: "default", name };
  await stage.admin.store.patch(NETWORK_ATTACHMENT_DEFINITIONS, key, patch, {
    subresource: "status",
  });
}

test("a launcher requests the devices of its networks", async () => {
  await define("cards", "nics.io/card");
  await define("plain");
  await stage.scene.createVm([
    { name: "one", network: "cards" },
    { name: "two", network: "cards" },
    { name: "three", network: "plain" },
  ]);
  const { limits, requests } = (await stage.scene.pod()).spec.containers[0]?.resources ?? {};
  expect([limits?.["nics.io/card"], requests?.["nics.io/card"]]).toEqual(["2", "2"]);
});

test("a plug into a network that the node lacks waits until the node has it", async () => {
  const node = { apiVersion: "v1", kind: NODES.kind, metadata: { name: "node2" } };
  await stage.admin.store.create(NODES, node);
  const { metadata } = await define("far");
  const generation = metadata.generation ?? 0;
  const problem = { node: "node1", reason: "NodeLinkUnfit", message: "there is no eth7" };
  await tell("far", [{ ...problem, generation }]);
  await stage.scene.createVm([{ name: "one" }]);
  await stage.scene.boot();
  await stage.scene.attachAll();
  const base = "/spec/template/spec";
  await stage.scene.patchVm([
    {
      op: "add",
      path: `${base}/networks/-`,
      value: { name: "two", multus: { networkName: "far" } },
    },
    { op: "add", path: `${base}/domain/devices/interfaces/-`, value: { name: "two", bridge: {} } },
  ]);
  const vmi = await stage.scene.vmiWhen(({ status }) => status?.attachments?.length === 2);
  expect(vmi.status?.attachments?.[1]).toMatchObject({
    name: "two",
    state: "Failed",
    reason: "NetworkNotOnNode",
    message:
      "node node1 cannot make interfaces of network default/far: there is no eth7; node2 has it: a VM that is stopped and started there gets it",
  });
  expect(await stage.scene.elements()).toHaveLength(1);
  await tell("far", []);
  await stage.scene.vmiWhen(({ status }) => status?.attachments?.[1]?.state === "Requested");
  expect(await stage.scene.elements()).toHaveLength(2);
  await stage.admin.store.delete(NODES, node.metadata);
});

test("a launcher's annotation describes NICs for its binding and stays current", async () => {
  const { kind } = KUBEVIRTS;
  const network = { binding: { own: { domainAttachmentType: "tap", downwardAPI: "device-info" } } };
  const key = { namespace: "patchbay", name: "kubevirt" };
  await stage.admin.store.create(KUBEVIRTS, {
    apiVersion: "kubevirt.io/v1",
    kind,
    metadata: key,
    spec: { configuration: { network } },
  });
  await stage.scene.createVm([]);
  await stage.scene.boot();
  const base = "/spec/template/spec";
  const value = { name: "one", binding: { name: "own" } };
  await stage.scene.patchVm([
    {
      op: "add",
      path: `${base}/networks`,
      value: [{ name: "one", multus: { networkName: "blue" } }],
    },
    { op: "add", path: `${base}/domain/devices/interfaces`, value: [value] },
  ]);
  const [nic] = await eventually(async () => {
    const elements = await stage.scene.elements();
    return elements.length > 0 ? elements : undefined;
  }, SOON);
  const path = `/metadata/annotations/${pointerToken(names.NETWORK_STATUS_ANNOTATION)}`;
  const mac = nic?.mac ?? "";
  const seen = async (mtu: number): Promise<void> => {
    const entry = { name: "default/blue", interface: nic?.interface, mac, mtu };
    await stage.scene.patchPodStatus([{ op: "add", path, value: JSON.stringify([entry]) }]);
    await eventually(async () => {
      const { annotations = {} } = (await stage.scene.pod()).metadata;
      const want = { interfaces: [{ network: "one", mac, mtu }] };
      return annotations[names.NETWORK_INFO_ANNOTATION] === JSON.stringify(want) || undefined;
    }, SOON);
  };
  await seen(1500);
  await seen(1400);
  expect(nic?.mac).toMatch(/^[\da-f:]{17}$/);
  await stage.admin.store.delete(KUBEVIRTS, key);
});
