// SPDX-License-Identifier: Apache-2.0
// What definitions say of nodes: devices that a launcher asks for, and networks that its node does not have, against an API
// server.
import {
  names,
  NETWORK_ATTACHMENT_DEFINITIONS,
  NODES,
  type NetworkAttachmentDefinition,
  type NodeProblem,
} from "@patchbay/api";
import { afterEach, expect, test } from "vitest";
import { useStage } from "./testing/stage.ts";

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
    ...{ apiVersion: "k8s.cni.cncf.io/v1", kind, metadata: { ...key, annotations } },
    spec: { config: "{}" },
  });
}

/** What net-agents say of it. */
async function tell(name: string, problems: readonly NodeProblem[]): Promise<void> {
  const patch = { type: "merge", fields: { status: { problems } } } as const;
  const key = { namespace: "default", name };
  await stage.admin.store.patch(NETWORK_ATTACHMENT_DEFINITIONS, key, patch, {
    subresource: "status",
  });
}

test("a launcher asks for the devices of its networks", async () => {
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

test("a plug to a network that the node does not have asks for nothing until it has it", async () => {
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
    ...{ name: "two", state: "Failed", reason: "NetworkNotOnNode" },
    message:
      "node node1 cannot make interfaces of network default/far: there is no eth7; node2 has it: a VM that is stopped and started there gets it",
  });
  expect(await stage.scene.elements()).toHaveLength(1);
  await tell("far", []);
  await stage.scene.vmiWhen(({ status }) => status?.attachments?.[1]?.state === "Requested");
  expect(await stage.scene.elements()).toHaveLength(2);
  await stage.admin.store.delete(NODES, node.metadata);
});
