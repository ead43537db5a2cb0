// SPDX-License-Identifier: Apache-2.0
// patchbay accepts and rejects the same arguments as virtctl. Source: KubeVirt v1.0.1 pkg/virtctl/network.
import { expect, test } from "vitest";
import { createProgram } from "./program.ts";

/** Why the arguments are rejected; undefined if they are accepted and the missing server is the only error. */
async function refusalOf(args: readonly string[]): Promise<unknown> {
  const nothing = { write: (): void => undefined };
  const program = createProgram({
    out: nothing,
    err: nothing,
    environment: {},
    version: "1.2.3",
    signal: new AbortController().signal,
  });
  try {
    await program.parseAsync([...args, "--kubeconfig", "/nonexistent"], { from: "user" });
  } catch (error) {
    return error;
  }
  return undefined;
}

test.each([
  { name: "addinterface without VM", args: ["addinterface"] },
  {
    name: "addinterface without NAD flag",
    args: ["addinterface", "myvm1", "--name", "pluggediface1"],
  },
  { name: "removeinterface without flags", args: ["removeinterface", "myvm1"] },
  {
    name: "removeinterface with its flag but without VM",
    args: ["removeinterface", "--name", "pluggediface1"],
  },
])("$name is rejected before a request is sent", async ({ args }) => {
  expect(await refusalOf(args)).toMatchObject({ name: "CommanderError", exitCode: 1 });
});

test("removeinterface with all flags reaches the server", async () => {
  const args = ["removeinterface", "myvm1", "--name", "pluggediface1"];
  expect(await refusalOf(args)).toMatchObject({ code: "KUBE_CONFIG_INVALID" });
});
