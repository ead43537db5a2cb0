// SPDX-License-Identifier: Apache-2.0
// virt-handler's account against fields of its own VMIs that virt-handler never writes.
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { VirtApiMachine } from "../virt-api-machine.ts";

const VMIS = "/apis/kubevirt.io/v1/namespaces/default/virtualmachineinstances";

let machine: VirtApiMachine;

beforeAll(async () => {
  machine = await VirtApiMachine.start((caFile) => [
    "--webhook-client-ca-file",
    caFile,
    "--webhook-allowed-names",
    "webhook-client",
  ]);
  await machine.api.post(VMIS, {
    apiVersion: "kubevirt.io/v1",
    kind: "VirtualMachineInstance",
    metadata: { name: "own" },
    spec: { domain: { devices: {} } },
  });
  const status = { phase: "Scheduled", nodeName: "a", activePods: { pod: "a" } };
  await machine.api.patch(`${VMIS}/own/status`, { status });
});
afterAll(() => machine[Symbol.asyncDispose]());

test.each([
  { field: "conditions", value: [{ type: "Ready", status: "True" }] },
  { field: "volumeStatus", value: [{ name: "root", target: "vda" }] },
  { field: "migrationState", value: { completed: true } },
  { field: "phase", value: "Failed" },
])(
  "attack 95: rejects an agent that writes $field of its own node's VMI",
  async ({ field, value }) => {
    const agent = await machine.agentOf("a");
    const answer = await agent.ask("PATCH", `${VMIS}/own/status`, { status: { [field]: value } });
    expect(answer).toMatchObject({
      code: 403,
      body: { message: expect.stringContaining(`may not write status.${field}`) as string },
    });
  },
);

describe("attack 95: an agent of a migration's target", () => {
  const migrationState = { migrationUid: "m1", sourceNode: "a", targetNode: "b" };

  async function write(status: object) {
    await machine.api.patch(`${VMIS}/own/status`, { status: { migrationState } });
    const target = await machine.agentOf("b");
    return target.ask("PATCH", `${VMIS}/own/status`, { status });
  }

  test.each([
    { field: "nodeName", status: { nodeName: "b" } },
    { field: "migrationState.completed", status: { migrationState: { completed: true } } },
    { field: "migrationState.failed", status: { migrationState: { failed: true } } },
    { field: "interfaces", status: { interfaces: [] } },
  ])("cannot write $field of a guest that it does not run", async ({ field, status }) => {
    expect(await write(status)).toMatchObject({
      code: 403,
      body: { message: expect.stringContaining(`may not write status.${field}`) as string },
    });
  });

  test("reports its listen address", async () => {
    const reported = { migrationState: { targetNodeAddress: "192.0.2.2" } };
    expect(await write(reported)).toMatchObject({ code: 200, body: { status: reported } });
  });
});

test("attack 95: an agent writes what virt-handler reports", async () => {
  const agent = await machine.agentOf("a");
  const interfaces = [{ name: "nic", mac: "02:00:00:00:00:01" }];
  const status = { phase: "Running", pciePorts: { total: 34, free: 33 }, interfaces };
  const reported = await agent.ask("PATCH", `${VMIS}/own/status`, { status });
  expect(reported).toMatchObject({ code: 200, body: { status } });
});
