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

describe("evacuate-cancel", () => {
  const VM_CALL = `${SUBRESOURCES}/virtualmachines/one/evacuate/cancel`;
  const VMI_CALL = `${SUBRESOURCES}/virtualmachineinstances/one/evacuate/cancel`;
  const NODE = "/api/v1/nodes/node1";
  const ALL_VMIS = "/apis/kubevirt.io/v1/virtualmachineinstances";

  function listPuts(): readonly string[] {
    return machine.requests.filter(({ method }) => method === "PUT").map(({ path }) => path);
  }

  test.each([
    { args: ["vm", "one"], path: VM_CALL },
    { args: ["VirtualMachines", "one"], path: VM_CALL },
    { args: ["vmi", "one"], path: VMI_CALL },
  ])("$args requests the subresource", async ({ args, path }) => {
    const { error } = await patchbay("evacuate-cancel", ...args);
    expect(error).toBeUndefined();
    expect(listPuts()).toEqual([path]);
  });

  test("prints the API server's answer to a dry run", async () => {
    const message = "the evacuation of VMI blue/one from node node1 was canceled";
    machine.judgement = { body: { kind: "Status", message } };
    const { out } = await patchbay("evacuate-cancel", "vmi", "one", "--dry-run");
    expect(out).toBe(`dry run: ${message}\n`);
    expect(machine.requests).toMatchObject([{ path: VMI_CALL, isDryRun: true }]);
  });

  test("of a node requests it for the VMIs that must leave the node", async () => {
    const [leaving, other] = ["one", "two"].map((name) => ({
      metadata: { name, namespace: "blue" },
      status: { evacuationNodeName: name === "one" ? "node1" : "node2" },
    }));
    machine.objects = {
      [NODE]: { metadata: { name: "node1" } },
      [ALL_VMIS]: { metadata: { resourceVersion: "1" }, items: [leaving, other] },
    };
    const { error } = await patchbay("evacuate-cancel", "node", "node1");
    expect(error).toBeUndefined();
    expect(listPuts()).toEqual([VMI_CALL]);
  });

  test("of a node without evacuations reports that", async () => {
    machine.objects = {
      [NODE]: { metadata: { name: "node1" } },
      [ALL_VMIS]: { metadata: { resourceVersion: "1" }, items: [] },
    };
    const { out } = await patchbay("evacuate-cancel", "node", "node1");
    expect(out).toBe("no VM is being evacuated from node node1\n");
  });

  test("rejects an unknown node and another kind", async () => {
    const unknown = await patchbay("evacuate-cancel", "node", "node9");
    expect(printError(unknown.error)).toContain("node9");
    const { error } = await patchbay("evacuate-cancel", "pod", "one");
    expect(printError(error)).toContain("use vm NAME, vmi NAME or node NAME");
    expect(listPuts()).toEqual([]);
  });

  test("reports the API server's rejection", async () => {
    machine.refusal = { code: 404, body: { kind: "Status", message: "no guest runs" } };
    const { error } = await patchbay("evacuate-cancel", "vm", "one");
    expect(printError(error)).toContain("no guest runs");
  });

  test("with --migrate-cancel also deletes the running migration", async () => {
    const items = [migrationOf("1", { phase: "Running" })];
    machine.objects = { [MIGRATIONS]: { metadata: { resourceVersion: "1" }, items } };
    const { out } = await patchbay("evacuate-cancel", "vmi", "one", "--migrate-cancel");
    expect(out).toContain("migration m-1 is being canceled");
    const deleted = machine.requests.filter(({ method }) => method === "DELETE");
    expect(deleted.map(({ path }) => path)).toEqual([`${MIGRATIONS}/m-1`]);
  });
});
