// SPDX-License-Identifier: Apache-2.0
// Allowed changes of VMIs with and without a VM, by user.
import { names, type VirtualMachineInstance, type VmiSpec } from "@patchbay/api";
import type { MacOwner } from "@patchbay/core/nics";
import { createFakeStore } from "@patchbay/kube/testing";
import { describe, expect, test } from "vitest";
import { admissionRequest, causesOf, MAC, specWith } from "../testing/admission.ts";
import { depsOn } from "../testing/deps.ts";
import { aVmi } from "../testing/objects.ts";
import type { Verdict } from "./review.ts";
import { validate } from "./validate.ts";

const PLUGGED = specWith({ bridge: {}, macAddress: MAC });
const PLAIN = specWith(undefined);
const GRACE = { terminationGracePeriodSeconds: 1 };
/** Specifications with changed NICs, other changes, or both. */
const CHANGES = { nics: PLUGGED, rest: { ...PLAIN, ...GRACE }, both: { ...PLUGGED, ...GRACE } };

function account(service: string): string {
  return `${names.SERVICE_ACCOUNT_PREFIX}${service}`;
}

function vmi(name: "vm" | "lone", spec: VmiSpec): VirtualMachineInstance {
  return { ...aVmi(name), spec };
}

function judge(
  object: VirtualMachineInstance,
  old: VirtualMachineInstance | undefined,
  { user = "alice", owners = [] }: { user?: string; owners?: readonly MacOwner[] } = {},
): Promise<Verdict> {
  const deps = depsOn(createFakeStore(), { listMacOwners: () => owners });
  return validate(deps, admissionRequest(object, old, user));
}

function codeOf(verdict: Verdict): number {
  return verdict.allowed ? 200 : verdict.code;
}

describe("a write to a running VMI", () => {
  test.each<{ user: string; of: "vm" | "lone"; change: keyof typeof CHANGES; want: number }>([
    { user: "alice", of: "lone", change: "nics", want: 200 },
    { user: "alice", of: "lone", change: "rest", want: 422 },
    { user: "alice", of: "lone", change: "both", want: 422 },
    { user: "alice", of: "vm", change: "nics", want: 403 },
    { user: "alice", of: "vm", change: "rest", want: 422 },
    { user: "alice", of: "vm", change: "both", want: 403 },
    { user: account("virt-controller"), of: "vm", change: "nics", want: 200 },
    { user: account("virt-controller"), of: "vm", change: "both", want: 200 },
    { user: account("virt-handler"), of: "vm", change: "rest", want: 200 },
    { user: account("virt-handler"), of: "vm", change: "nics", want: 403 },
    { user: account("virt-handler"), of: "lone", change: "rest", want: 200 },
    { user: account("virt-api"), of: "lone", change: "nics", want: 200 },
  ])("$of, by $user, of $change: $want", async ({ user, of, change, want }) => {
    const verdict = await judge(vmi(of, CHANGES[change]), vmi(of, PLAIN), { user });
    expect(codeOf(verdict)).toBe(want);
  });

  test("is rejected with the command that changes the VM, or with the field", async () => {
    const nics = await judge(vmi("vm", PLUGGED), vmi("vm", PLAIN));
    expect(nics).toMatchObject({
      causes: [],
      message: expect.stringContaining("kubectl patch vm vm -n ns --type merge -p '") as string,
    });
    expect(causesOf(await judge(vmi("lone", CHANGES.rest), vmi("lone", PLAIN)))).toEqual([
      "FieldValueNotSupported spec",
    ]);
  });

  test("counts as owned only if a VM is the controller", async () => {
    const owner = { apiVersion: "v1", kind: "Pool", name: "vm", uid: "u" };
    for (const reference of [
      { ...owner, controller: true },
      { ...owner, kind: "VirtualMachine" },
    ]) {
      const metadata = { ...aVmi("lone").metadata, ownerReferences: [reference] };
      const old = { ...vmi("lone", PLAIN), metadata };
      expect(codeOf(await judge({ ...old, spec: PLUGGED }, old))).toBe(200);
    }
  });
});

describe("a new VMI", () => {
  const OWNERS = [{ namespace: "ns", name: "other", spec: PLUGGED }];
  const UNBUILT = specWith({ sriov: {} });
  const UNACTED: VmiSpec = { ...PLAIN, domain: { ...PLAIN.domain, launchSecurity: {} } };

  test("may have NICs that cannot be plugged into a running guest", async () => {
    expect(codeOf(await judge(vmi("lone", UNBUILT), undefined))).toBe(200);
    expect(codeOf(await judge(vmi("lone", UNBUILT), vmi("lone", PLAIN)))).toBe(422);
  });

  test("may not use another VM's MAC; a VMI of a VM was validated with its VM", async () => {
    const lone = await judge(vmi("lone", PLUGGED), undefined, { owners: OWNERS });
    expect(causesOf(lone)).toEqual([
      "FieldValueDuplicate spec.domain.devices.interfaces[1].macAddress",
    ]);
    const owned = await judge(vmi("vm", PLUGGED), undefined, { owners: OWNERS });
    expect(owned).toEqual({ allowed: true, warnings: [] });
  });

  test("gets warnings for unsupported fields, except for a VMI of a VM", async () => {
    const lone = await judge(vmi("lone", UNACTED), undefined);
    expect(lone).toEqual({
      allowed: true,
      warnings: [
        "the VMI is stored but cannot be started: not supported yet: spec.domain.launchSecurity",
      ],
    });
    const owned = await judge(vmi("vm", UNACTED), undefined);
    expect(owned).toEqual({ allowed: true, warnings: [] });
  });
});

test("rejects a VMI without a VM with an invalid PCI address", async () => {
  const lone = vmi("lone", specWith({ bridge: {}, macAddress: MAC, pciAddress: "0000:01:01.0" }));
  expect(causesOf(await judge(lone, undefined))).toEqual([
    "FieldValueInvalid spec.domain.devices.interfaces[1].pciAddress",
  ]);
});
