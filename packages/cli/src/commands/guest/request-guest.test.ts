// SPDX-License-Identifier: Apache-2.0
import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterEach, beforeEach, expect, test } from "vitest";
import { createProgram } from "../../program.ts";
import { FakeMachine, SUBRESOURCES } from "../../testing/fake-machine.ts";

const GUEST = `${SUBRESOURCES}/virtualmachineinstances/one`;

let directory: string;
let machine: FakeMachine;
let kubeconfig: string;

beforeEach(async () => {
  directory = mkdtempSync(join(tmpdir(), "patchbay-guest-"));
  machine = new FakeMachine();
  kubeconfig = await machine.start(directory);
});
afterEach(async () => {
  await machine.stop();
  rmSync(directory, { recursive: true });
});

async function patchbay(...args: readonly string[]): Promise<string> {
  let out = "";
  const program = createProgram({
    out: { write: (text) => (out += text) },
    err: { write: (text) => (out += text) },
    environment: {},
    version: "1.2.3",
    signal: new AbortController().signal,
  });
  await program.parseAsync([...args, "--kubeconfig", kubeconfig], { from: "user" });
  return out;
}

test.each([
  { args: ["pause", "vm", "one"], path: "pause" },
  { args: ["unpause", "vmi/one"], path: "unpause" },
  { args: ["reset", "one"], path: "reset" },
  { args: ["soft-reboot", "one.blue"], path: "softreboot" },
])("$args requests $path and reports success", async ({ args, path }) => {
  expect(await patchbay(...args)).toBe(`VMI one: ${path}: done\n`);
  expect(machine.requests).toEqual([{ method: "PUT", path: `${GUEST}/${path}`, body: "{}" }]);
});

test.each([
  { command: "guestosinfo", path: "guestosinfo" },
  { command: "userlist", path: "userlist" },
  { command: "fslist", path: "filesystemlist" },
])("$command prints the answer without terminal control characters", async ({ command, path }) => {
  machine.objects = { [`${GUEST}/${path}`]: { hostname: "a\u001b[2J" } };
  expect(await patchbay(command, "vm", "one")).toBe('{\n  "hostname": "a\\u001b[2J"\n}\n');
});

test("rejects more than one name", async () => {
  await expect(patchbay("pause", "vm", "one", "two")).rejects.toMatchObject({
    code: "FLAG_INVALID",
  });
});

test("fails if virt-api rejects the request", async () => {
  const message = "VMI is already paused";
  const body = { kind: "Status", status: "Failure", reason: "Conflict", code: 409, message };
  machine.refusal = { code: 409, body };
  await expect(patchbay("pause", "one")).rejects.toMatchObject({ code: "KUBE_CONFLICT" });
});
