// SPDX-License-Identifier: Apache-2.0
// One node's virt-handler account against the status of another node's VMI.
import { afterAll, beforeAll, expect, test } from "vitest";
import { type Person, VirtApiMachine } from "../virt-api-machine.ts";

const VMIS = "/apis/kubevirt.io/v1/namespaces/default/virtualmachineinstances";
const AGENT = "system:serviceaccount:patchbay:virt-handler";

let machine: VirtApiMachine;

beforeAll(async () => {
  machine = await VirtApiMachine.start((caFile) => [
    "--webhook-client-ca-file",
    caFile,
    "--webhook-allowed-names",
    "webhook-client",
  ]);
  for (const node of ["a", "b"]) {
    await machine.api.post(VMIS, {
      apiVersion: "kubevirt.io/v1",
      kind: "VirtualMachineInstance",
      metadata: { name: `on-${node}` },
      spec: { domain: { devices: {} } },
    });
    const status = { phase: "Scheduled", nodeName: node, activePods: { [`pod-${node}`]: node } };
    await machine.api.patch(`${VMIS}/on-${node}/status`, { status });
  }
});
afterAll(() => machine[Symbol.asyncDispose]());

/**
 * A token bound to a pod on the node. Like a server before Kubernetes 1.30, the embedded one stores the pod in it and
 * no node.
 */
async function tokenOn(node: string): Promise<string> {
  const name = `virt-handler-${node}`;
  const containers = [{ name: "agent", image: "agent:1" }];
  const spec = { nodeName: node, serviceAccountName: "virt-handler", containers };
  await machine.api.post("/api/v1/namespaces/patchbay/pods", { metadata: { name }, spec });
  const boundObjectRef = { kind: "Pod", apiVersion: "v1", name };
  const { body } = await machine.api.post(
    "/api/v1/namespaces/patchbay/serviceaccounts/virt-handler/token",
    { spec: { boundObjectRef } },
  );
  return String(body.status?.["token"]);
}

function write(person: Person, name: string, status: object) {
  return person.ask("PATCH", `${VMIS}/${name}/status`, { status });
}

test("attack 69: an agent writes the status of its own node's objects", async () => {
  const agent = await machine.agentOf("a");
  expect(await write(agent, "on-a", { phase: "Running" })).toMatchObject({ code: 200 });
});

test.each([
  { what: "the phase of another node's VMI", status: { phase: "Failed" } },
  { what: "its own node name into another node's VMI", status: { activePods: { "pod-a": "a" } } },
  {
    what: "another node's NICs",
    status: { interfaces: [{ name: "x", mac: "02:00:00:00:00:01" }] },
  },
])("attack 69: rejects an agent that writes $what", async ({ status }) => {
  const agent = await machine.agentOf("a");
  expect(await write(agent, "on-b", status)).toMatchObject({
    code: 403,
    body: { message: expect.stringContaining("may not write objects of another node") as string },
  });
});

test("attack 69: an agent cannot assign its VMI to another node", async () => {
  const agent = await machine.agentOf("a");
  const answer = await write(agent, "on-a", { activePods: { "pod-b": "b" } });
  expect(answer).toMatchObject({
    code: 403,
    body: { message: expect.stringContaining("may not write status.activePods") as string },
  });
});

test("attack 69: a token that names only a pod is bound to the pod's node", async () => {
  const token = await tokenOn("a");
  const phase = (name: string, value: string) =>
    machine.api.ask("PATCH", `${VMIS}/${name}/status`, {
      token,
      type: "application/merge-patch+json",
      body: { status: { phase: value } },
    });
  expect(await phase("on-a", "Running")).toMatchObject({ code: 200 });
  expect(await phase("on-b", "Failed")).toMatchObject({
    code: 403,
    body: { message: expect.stringContaining('of node "a" may not write objects of') as string },
  });
});

test.each([
  { what: "no node", groups: [] },
  { what: "two nodes", groups: ["patchbay.io:node:a", "patchbay.io:node:b"] },
])("attack 69: rejects an account that names $what", async ({ groups }) => {
  const agent = await machine.person(AGENT, groups);
  expect(await write(agent, "on-a", { phase: "Failed" })).toMatchObject({
    code: 403,
    body: { message: expect.stringContaining("does not name exactly one node") as string },
  });
});

test("attack 69: another account gains nothing by naming a node", async () => {
  const tenant = await machine.person("jane", ["patchbay.io:node:b"]);
  expect(await write(tenant, "on-b", { phase: "Failed" })).toMatchObject({ code: 403 });
});
