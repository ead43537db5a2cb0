// SPDX-License-Identifier: Apache-2.0
// What becomes of a request that a VM's guest goes to another node?
import type { VirtualMachineInstance, VmiPhase } from "@patchbay/api";
import { aVmi } from "@patchbay/support";
import { expect, test } from "vitest";
import { parseMigrateBody, planMigrate } from "./migrate.ts";

function vmiThat(phase: VmiPhase, status: "True" | "False"): VirtualMachineInstance {
  const why = { reason: "DisksNotLiveMigratable", message: "not yet" };
  return aVmi({ status: { phase, conditions: [{ type: "LiveMigratable", status, ...why }] } });
}

function going(): VirtualMachineInstance {
  const vmi = vmiThat("Running", "True");
  const metadata = { ...vmi.metadata, deletionTimestamp: "2026-01-01T00:00:00Z" };
  return { ...vmi, metadata };
}

test.each<{ name: string; vmi: VirtualMachineInstance | undefined; code: number; words: string }>([
  { name: "a missing guest", vmi: undefined, code: 409, words: "VM is not running" },
  {
    name: "a guest that is not running yet",
    vmi: vmiThat("Scheduled", "True"),
    code: 409,
    words: "VM is not running",
  },
  { name: "a guest that is being deleted", vmi: going(), code: 409, words: "VM is not running" },
  {
    name: "a guest that cannot be migrated",
    vmi: vmiThat("Running", "False"),
    code: 400,
    words: "Cannot migrate VMI, Reason: DisksNotLiveMigratable, Message: not yet",
  },
])("rejects $name: $code", ({ vmi, code, words: text }) => {
  expect(planMigrate(vmi, {})).toMatchObject({
    kind: "refused",
    refusal: { code, message: text },
  });
});

test.each([{}, { addedNodeSelector: { zone: "b" } }])("copies %j into the migration", (options) => {
  expect(planMigrate(vmiThat("Running", "True"), options)).toMatchObject({
    kind: "create",
    spec: { vmiName: "vm1", ...options },
  });
});

test.each([
  { body: undefined, want: {} },
  { body: null, want: {} },
  { body: {}, want: {} },
  { body: { dryRun: ["All"] }, want: {} },
  { body: { addedNodeSelector: null }, want: {} },
  { body: { addedNodeSelector: { a: "b" } }, want: { addedNodeSelector: { a: "b" } } },
])("body $body requests $want", ({ body, want }) => {
  expect(parseMigrateBody(body)).toEqual({ ok: true, value: want });
});

test.each([
  { body: [], field: undefined },
  { body: "x", field: undefined },
  { body: { addedNodeSelector: "a=b" }, field: "addedNodeSelector" },
  { body: { addedNodeSelector: { a: 1 } }, field: "addedNodeSelector" },
])("rejects body $body", ({ body, field }) => {
  const parsed = parseMigrateBody(body);
  expect(parsed).toMatchObject({ ok: false, refusal: { code: 400 } });
  const causes = parsed.ok ? [] : parsed.refusal.causes;
  expect(causes.map((cause) => cause.field)).toEqual(field === undefined ? [] : [field]);
});
