// SPDX-License-Identifier: Apache-2.0
import { createFakeProcessRunner } from "@patchbay/os/testing";
import { createFakeLogger } from "@patchbay/telemetry/testing";
import { expect, test } from "vitest";
import { createPolicyTable, printPolicyTable, type PolicyOfPod } from "./service-policies.ts";

const TABLE = "p";
const GOOD: PolicyOfPod = { address: "10.88.0.5", policy: { ingress: [{ peers: ["10.88.0.6"] }] } };
const BAD: PolicyOfPod = {
  address: "10.88.0.7",
  policy: { ingress: [{ peers: ["10.88.0.666"] }] },
};
const ISOLATED: PolicyOfPod = { address: BAD.address, policy: { ingress: [] } };

function start(refuses: (stdin: string) => boolean) {
  const runner = createFakeProcessRunner({
    nft: ({ stdin = "" }) => (refuses(stdin) ? { exitCode: 1, stderr: "no such host\n" } : {}),
  });
  const log = createFakeLogger();
  return { runner, log, write: createPolicyTable({ runner, log, table: TABLE }) };
}

test("isolates a pod whose policies nft refuses, and applies those of other pods", async () => {
  const { runner, write } = start((stdin) => stdin.includes("10.88.0.666"));
  await write([GOOD, BAD]);
  expect(runner.commands.at(-1)).toMatchObject({
    argv: ["nft", "-f", "-"],
    stdin: printPolicyTable(TABLE, [GOOD, ISOLATED]),
  });
});

test("fails if nft refuses the table itself", async () => {
  const { write } = start(() => true);
  await expect(write([GOOD])).rejects.toMatchObject({
    code: "SERVICE_RULES_REFUSED",
    details: { reason: "no such host" },
  });
});

test("writes only changes", async () => {
  const { runner, write } = start(() => false);
  await write([GOOD]);
  await write([GOOD]);
  await write([]);
  expect(runner.commands.map(({ stdin }) => stdin)).toEqual([
    printPolicyTable(TABLE, [GOOD]),
    printPolicyTable(TABLE, []),
  ]);
});
