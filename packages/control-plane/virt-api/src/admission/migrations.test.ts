// SPDX-License-Identifier: Apache-2.0
// Admission of migrations and of launcher evictions.
import {
  names,
  VIRTUAL_MACHINE_INSTANCE_MIGRATIONS,
  VIRTUAL_MACHINE_INSTANCES,
  type VirtualMachineInstance,
} from "@patchbay/api";
import { launcherPodName } from "@patchbay/core/migration";
import { createFakeStore } from "@patchbay/kube/testing";
import { describe, expect, test } from "vitest";
import type { Deps } from "../deps.ts";
import { depsOn } from "../testing/deps.ts";
import { aVmi } from "../testing/objects.ts";
import { printReview, type AdmissionRequest } from "./review.ts";
import { validate } from "./validate.ts";

const TOLD = "Cannot migrate VMI, Reason: DisksNotLiveMigratable, Message: no";

function vmiThat(status: "True" | "False"): VirtualMachineInstance {
  const why = { reason: "DisksNotLiveMigratable", message: "no" };
  const condition = { type: "LiveMigratable", status, ...why };
  return { ...aVmi("vm"), status: { phase: "Running", conditions: [condition] } };
}

function asked(kind: string, more: Partial<AdmissionRequest>): AdmissionRequest {
  return {
    uid: "1",
    kind,
    operation: "CREATE",
    subresource: "",
    namespace: "ns",
    name: "m",
    user: { name: "alice", groups: [] },
    object: {},
    oldObject: undefined,
    ...more,
  };
}

function buildMigration(spec: unknown, old?: unknown): AdmissionRequest {
  const change =
    old === undefined ? {} : ({ operation: "UPDATE", oldObject: { spec: old } } as const);
  return asked("VirtualMachineInstanceMigration", { object: { spec }, ...change });
}

function depsWith(vmi: VirtualMachineInstance) {
  const store = createFakeStore();
  store.put(VIRTUAL_MACHINE_INSTANCES, vmi);
  return depsOn(store, {
    findByLauncher: ({ name }) => (name === launcherPodName(vmi) ? vmi : undefined),
    evictionStrategy: () => "LiveMigrate",
  });
}

const SPEC = { vmiName: "vm" };

test.each<{ name: string; spec: unknown; old?: unknown; can: "True" | "False"; want?: string }>([
  { name: "of a VMI that cannot migrate", spec: SPEC, can: "False", want: TOLD },
  { name: "of a migratable VMI", spec: SPEC, can: "True" },
  {
    name: "of a missing VMI",
    spec: { vmiName: "other" },
    can: "True",
    want: 'the VMI "ns/other" does not exist',
  },
  { name: "without a name", spec: {}, can: "True", want: 'the VMI "ns/" does not exist' },
  {
    name: "with a number as VMI name",
    spec: { vmiName: 1 },
    can: "True",
    want: 'the VMI "ns/" does not exist',
  },
  { name: "with an unchanged spec", spec: SPEC, old: SPEC, can: "False" },
  {
    name: "with a changed VMI name",
    spec: SPEC,
    old: { vmiName: "other" },
    can: "True",
    want: "update of Migration object's spec is restricted",
  },
])("a migration $name: $want", async ({ spec, old, can, want }) => {
  const verdict = await validate(depsWith(vmiThat(can)), buildMigration(spec, old));
  expect(verdict.allowed ? undefined : verdict.message).toBe(want);
});

test.each<{ phase: "Pending" | "Running" | "Failed"; vmiName: string; isRefused: boolean }>([
  { phase: "Pending", vmiName: "vm", isRefused: true },
  { phase: "Running", vmiName: "vm", isRefused: true },
  { phase: "Failed", vmiName: "vm", isRefused: false },
  { phase: "Running", vmiName: "other", isRefused: false },
])(
  "a migration beside one of $vmiName in phase $phase: rejected: $isRefused",
  async ({ phase, vmiName, isRefused }) => {
    const deps = depsWith(vmiThat("True"));
    await deps.store.create(VIRTUAL_MACHINE_INSTANCE_MIGRATIONS, {
      apiVersion: "kubevirt.io/v1",
      kind: "VirtualMachineInstanceMigration",
      metadata: { name: "first", namespace: "ns", uid: "m1" },
      spec: { vmiName },
      status: { phase },
    });
    const verdict = await validate(deps, buildMigration(SPEC));
    expect(verdict.allowed).toBe(!isRefused);
    expect(verdict.allowed ? undefined : verdict.message).toBe(
      isRefused
        ? "in-flight migration detected. Active migration job (m1) is currently already in progress for VMI vm."
        : undefined,
    );
  },
);

test.each<{ user: string; want: unknown }>([
  {
    user: "alice",
    want: { allowed: false, code: 403, causes: [{ field: "spec.priority" }] },
  },
  {
    user: `${names.SERVICE_ACCOUNT_PREFIX}virt-handler`,
    want: { allowed: false, code: 403, causes: [{ field: "spec.priority" }] },
  },
  { user: `${names.SERVICE_ACCOUNT_PREFIX}virt-controller`, want: { allowed: true } },
])("checks the priority set by $user", async ({ user, want }) => {
  const asking = { ...buildMigration({ ...SPEC, priority: "system-critical" }) };
  const verdict = await validate(depsWith(vmiThat("True")), {
    ...asking,
    user: { name: user, groups: [] },
  });
  expect(verdict).toMatchObject(want as object);
});

test("rejects a change with KubeVirt's cause, and other faults with 400", async () => {
  const deps = depsWith(vmiThat("False"));
  const changed = buildMigration(SPEC, {});
  expect(await validate(deps, changed)).toMatchObject({
    code: 422,
    causes: [{ reason: "FieldValueNotSupported", field: "spec" }],
  });
  expect(await validate(deps, buildMigration(SPEC))).toMatchObject({ code: 400, causes: [] });
});

test.each<{ pod: string; can: "True" | "False"; isHeld: boolean }>([
  { pod: launcherPodName(aVmi("vm")), can: "False", isHeld: true },
  { pod: "somebody-elses", can: "False", isHeld: false },
])("an eviction of pod $pod with migratable guest $can: denied: $isHeld", async (row) => {
  const { pod, can, isHeld } = row;
  const request = asked("Eviction", { subresource: "eviction", name: pod });
  const verdict = await validate(depsWith(vmiThat(can)), request);
  expect(verdict.allowed).toBe(!isHeld);
  if (!isHeld) return;
  expect(printReview(request, verdict)).toMatchObject({
    response: {
      status: {
        code: 429,
        reason: "TooManyRequests",
        message: "VMI vm is configured with an eviction strategy but is not live-migratable",
      },
    },
  });
});

describe("the eviction of a launcher whose guest can migrate", () => {
  const vmi = { ...vmiThat("True"), status: { ...vmiThat("True").status, nodeName: "a" } };
  const evict = (more: Partial<AdmissionRequest> = {}): AdmissionRequest =>
    asked("Eviction", { subresource: "eviction", name: launcherPodName(vmi), ...more });
  const markIn = async ({ store }: Pick<Deps, "store">): Promise<string | undefined> =>
    (await store.find(VIRTUAL_MACHINE_INSTANCES, vmi.metadata))?.status?.evacuationNodeName;
  const triggered = 'Eviction triggered evacuation of VMI "ns/vm"';

  test("marks the VMI for evacuation and denies the eviction", async () => {
    const deps = depsWith(vmi);
    const verdict = await validate(deps, evict());
    expect(verdict).toMatchObject({ allowed: false, code: 429, message: triggered });
    expect(await markIn(deps)).toBe("a");
  });

  test("changes nothing in a dry run", async () => {
    const deps = depsWith(vmi);
    const verdict = await validate(deps, evict({ dryRun: true }));
    expect(verdict).toMatchObject({ code: 429, message: triggered });
    expect(await markIn(deps)).toBeUndefined();
  });

  test("is also denied if the guest has left meanwhile, with the advice to retry", async () => {
    const deps = depsWith({ ...vmi, status: { ...vmi.status, nodeName: "b" } });
    const verdict = await validate({ ...deps, findByLauncher: () => vmi }, evict());
    expect(verdict).toMatchObject({
      allowed: false,
      code: 429,
      message: expect.stringMatching(
        /^VMI vm cannot be marked for evacuation; try again/,
      ) as string,
    });
    expect(await markIn(deps)).toBeUndefined();
  });
});
