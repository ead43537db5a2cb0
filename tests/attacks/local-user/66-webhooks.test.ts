// SPDX-License-Identifier: Apache-2.0
// virt-api's webhooks for unauthorized clients: MAC owners and users' rights must stay private.
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { VirtApiMachine } from "../virt-api-machine.ts";

const MAC = "02:00:00:00:00:66";
const REQUESTS = ["/mutate", "/validate"];

/** A review as from the API server: a VM with a MAC in use. */
function review(namespace: string): object {
  const interfaces = [{ name: "n", bridge: {}, macAddress: MAC }];
  const networks = [{ name: "n", multus: { networkName: "default/blue" } }];
  const spec = { domain: { devices: { interfaces } }, networks };
  return {
    apiVersion: "admission.k8s.io/v1",
    kind: "AdmissionReview",
    request: {
      uid: "1",
      operation: "CREATE",
      kind: { kind: "VirtualMachine" },
      namespace,
      userInfo: { username: "kubernetes-admin", groups: ["system:masters"] },
      object: { metadata: { name: "probe" }, spec: { template: { spec } } },
    },
  };
}

describe("when the API server presents a certificate", () => {
  let machine: VirtApiMachine;

  beforeAll(async () => {
    machine = await VirtApiMachine.start((caFile) => [
      "--webhook-client-ca-file",
      caFile,
      "--webhook-allowed-names",
      "webhook-client",
    ]);
  });
  afterAll(() => machine[Symbol.asyncDispose]());

  test.each([
    { who: "nobody", name: "" },
    { who: "another client of the authority", name: "jane" },
    { who: "an agent", name: "system:serviceaccount:patchbay:virt-handler" },
    { who: "the front proxy", name: "front-proxy-client" },
  ])("attack 66: rejects $who", async ({ name }) => {
    const otherClient = await machine.person(name);
    for (const path of REQUESTS) {
      const answer = await otherClient.ask("POST", `${machine.url}${path}`, review("default"));
      expect(answer).toMatchObject({ code: 401, body: { message: "Unauthorized" } });
    }
  });

  test("attack 66: accepts the API server", async () => {
    expect(await machine.makeVm("default", "victim", MAC)).toMatchObject({ code: 201 });
    const copy = await machine.makeVm("default", "twin", MAC);
    expect(copy).toMatchObject({ code: 422 });
    expect(copy.body.message).toContain("by VM default/victim");
  });
});

describe("when the API server presents no certificate", () => {
  let machine: VirtApiMachine;

  beforeAll(async () => {
    machine = await VirtApiMachine.start();
    await machine.makeVm("default", "victim", MAC);
  });
  afterAll(() => machine[Symbol.asyncDispose]());

  test("attack 66: does not reveal VMs of another namespace to unauthenticated clients or tenants", async () => {
    const otherClient = await machine.person();
    const { body } = await otherClient.ask("POST", `${machine.url}/validate`, review("other"));
    const output = JSON.stringify(body);
    expect(output).toContain("by a VM of another namespace");
    expect(output).not.toContain("victim");
    await machine.api.post("/api/v1/namespaces", { metadata: { name: "other" } });
    const copy = await machine.makeVm("other", "twin", MAC);
    expect(copy.body.message).toContain("by a VM of another namespace");
  });
});
