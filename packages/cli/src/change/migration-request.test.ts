// SPDX-License-Identifier: Apache-2.0
import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterEach, beforeEach, describe, expect, test } from "vitest";
import { printError } from "../print/error.ts";
import {
  FakeMachine,
  MIGRATIONS,
  migrationOf,
  SUBRESOURCES,
  VMIS,
  vmiOf,
} from "../testing/fake-machine.ts";
import { runPatchbay, maskTimes, type Ended } from "../testing/run-patchbay.ts";

let directory = "";
let machine = new FakeMachine();
let kubeconfig = "";
beforeEach(async () => {
  directory = mkdtempSync(join(tmpdir(), "patchbay-migrate-"));
  machine = new FakeMachine();
  machine.objects = { [`${VMIS}/one`]: vmiOf("1") };
  kubeconfig = await machine.start(directory);
});
afterEach(async () => {
  await machine.stop();
  rmSync(directory, { recursive: true, force: true });
});

function patchbay(...args: readonly string[]): Promise<Ended> {
  return runPatchbay([...args, "--kubeconfig", kubeconfig], new AbortController().signal);
}

describe("migrate", () => {
  test.each([
    { flags: [], body: {} },
    {
      flags: ["--to", "node2"],
      body: { addedNodeSelector: { "kubernetes.io/hostname": "node2" } },
    },
  ])("$flags requests the VM's migrate subresource", async ({ flags, body }) => {
    const path = `${SUBRESOURCES}/virtualmachines/one/migrate`;
    const { out, error } = await patchbay("migrate", "one", ...flags);
    expect(error).toBeUndefined();
    expect(out).toBe("virtualmachine one: migration requested\n");
    expect(machine.requests.filter(({ method }) => method === "PUT")).toMatchObject([
      { path, body: JSON.stringify(body) },
    ]);
  });

  test("reports why a migration is rejected", async () => {
    const message = "Cannot migrate VMI, Reason: DisksNotLiveMigratable, Message: not yet";
    machine.refusal = { code: 400, body: { kind: "Status", message } };
    const { error } = await patchbay("migrate", "one");
    expect(printError(error)).toContain(message);
  });

  const NONE = { metadata: { resourceVersion: "1" }, items: [] };

  test("waits until the guest runs on the target and prints each phase", async () => {
    machine.objects = { ...machine.objects, [MIGRATIONS]: NONE };
    machine.migrationAfter = ["Scheduling", "Running", "Succeeded"].map((phase, index) =>
      migrationOf(String(index + 2), { phase }),
    );
    const { out, error } = await patchbay("migrate", "one", "--wait");
    expect(error).toBeUndefined();
    const lines = ["T s  Scheduling", "T s  Running", "T s  Succeeded"];
    const done = "virtualmachine one: migration done after T s";
    expect(maskTimes(out)).toBe([...lines, done, ""].join("\n"));
  });

  test("reports why the guest stays on its node", async () => {
    machine.objects = { ...machine.objects, [MIGRATIONS]: NONE };
    const migrationState = { failureReason: "no relay" };
    machine.migrationAfter = [migrationOf("2", { phase: "Failed", migrationState })];
    const { error } = await patchbay("migrate", "one", "--wait");
    expect(error).toMatchObject({ code: "KUBE_WAIT_FAILED" });
    expect(printError(error)).toContain("no relay");
  });

  test("migrate-cancel deletes the running migration", async () => {
    const items = [migrationOf("1", { phase: "Running" })];
    machine.objects = { ...machine.objects, [MIGRATIONS]: { ...NONE, items } };
    const { out } = await patchbay("migrate-cancel", "one");
    expect(out).toBe("virtualmachine one: migration m-1 is being canceled\n");
    const deleted = machine.requests.filter(({ method }) => method === "DELETE");
    expect(deleted.map(({ path }) => path)).toEqual([`${MIGRATIONS}/m-1`]);
  });

  test("migrate-cancel fails if no migration is running", async () => {
    machine.objects = { ...machine.objects, [MIGRATIONS]: NONE };
    const { error } = await patchbay("migrate-cancel", "one");
    expect(printError(error)).toContain("migration of virtualmachine blue/one does not exist");
  });
});
