// SPDX-License-Identifier: Apache-2.0
// Clients that request a relay certificate without the right to it.
import { eventually } from "@patchbay/support";
import { afterAll, beforeAll, expect, test } from "vitest";
import { VirtApiMachine, type Answer } from "../virt-api-machine.ts";

const GROUP = "/apis/subresources.kubevirt.io/v1";
const ACCOUNT = "system:serviceaccount:patchbay:";

let machine: VirtApiMachine;

beforeAll(async () => {
  machine = await VirtApiMachine.start((caFile) => [
    "--webhook-client-ca-file",
    caFile,
    "--webhook-allowed-names",
    "webhook-client",
  ]);
  const person = await machine.person("root", ["system:masters"]);
  const isServed = (): Promise<boolean> =>
    person.ask("GET", `${GROUP}/version`).then(
      ({ code }) => code === 200,
      () => false,
    );
  await eventually(isServed, { withinMs: 30_000 });
});
afterAll(() => machine[Symbol.asyncDispose]());

async function requestAs(name: string, groups: readonly string[]): Promise<Answer> {
  const body = { publicKey: "words", node: "node-1" };
  return (await machine.person(name, groups)).ask("PUT", `${GROUP}/relaycertificate`, body);
}

test("attack 112: signs the key of a node's agent after verifying it", async () => {
  const answer = await requestAs(`${ACCOUNT}virt-handler`, ["patchbay.io:node:node-1"]);
  expect(answer.code).toBe(400);
});

test.each([
  { who: "net-agent", name: `${ACCOUNT}net-agent`, groups: ["patchbay.io:node:node-1"] },
  { who: "virt-controller", name: `${ACCOUNT}virt-controller`, groups: [] },
  { who: "the account of a launcher", name: "system:serviceaccount:default:default", groups: [] },
  { who: "a node", name: "system:node:node-1", groups: ["system:nodes"] },
  { who: "an agent without a node", name: `${ACCOUNT}virt-handler`, groups: [] },
  {
    who: "an agent bound to two nodes",
    name: `${ACCOUNT}virt-handler`,
    groups: ["patchbay.io:node:node-1", "patchbay.io:node:node-2"],
  },
])("attack 112: rejects $who", async ({ name, groups }) => {
  expect((await requestAs(name, groups)).code).toBe(403);
});

test("attack 112: an account that may request everything is still not an agent", async () => {
  expect((await requestAs("root", ["system:masters", "patchbay.io:node:node-1"])).code).toBe(403);
});
