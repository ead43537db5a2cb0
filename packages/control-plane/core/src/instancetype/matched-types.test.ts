// SPDX-License-Identifier: Apache-2.0
import type { Matcher, VirtualMachine, VmStatus } from "@patchbay/api";
import { aVm } from "@patchbay/support";
import { describe, expect, test } from "vitest";
import { usesInstancetype } from "./facts.ts";
import { findDefaultKind, hasMatcher, locateMatchedObject, findMatchedType } from "./matchers.ts";

function vmOf(instancetype: Matcher, status: VmStatus = {}): VirtualMachine {
  const vm = aVm();
  return { ...vm, spec: { ...vm.spec, instancetype }, status };
}

describe("the kind of a matcher", () => {
  test.each([
    { role: "instancetype", kind: undefined, want: "virtualmachineclusterinstancetypes" },
    { role: "instancetype", kind: "", want: "virtualmachineclusterinstancetypes" },
    {
      role: "instancetype",
      kind: "VirtualMachineInstancetype",
      want: "virtualmachineinstancetypes",
    },
    {
      role: "instancetype",
      kind: "virtualmachineinstancetypes",
      want: "virtualmachineinstancetypes",
    },
    {
      role: "instancetype",
      kind: "virtualmachineclusterinstancetype",
      want: "virtualmachineclusterinstancetypes",
    },
    { role: "instancetype", kind: "VirtualMachinePreference", want: undefined },
    { role: "preference", kind: undefined, want: "virtualmachineclusterpreferences" },
    {
      role: "preference",
      kind: "VirtualMachinePreference",
      want: "virtualmachinepreferences",
    },
    { role: "preference", kind: "Pod", want: undefined },
  ] as const)("$kind of the $role is $want", ({ role, kind, want }) => {
    expect(findMatchedType(role, kind)?.resource).toBe(want);
  });

  test("gets KubeVirt's default if unset", () => {
    expect(findDefaultKind("instancetype")).toBe("virtualmachineclusterinstancetype");
    expect(findDefaultKind("preference")).toBe("virtualmachineclusterpreference");
  });
});

describe("reads the fields of a matcher", () => {
  const KIND = "VirtualMachineInstancetype";
  const used = (name: string, kind = KIND): VmStatus => ({
    instancetypeRef: { name, kind, controllerRevisionRef: { name: "kept" } },
  });

  test.each<{ name: string; vm: VirtualMachine; want: object }>([
    {
      name: "in the named object",
      vm: vmOf({ name: "small", kind: KIND }),
      want: {
        kind: "object",
        type: expect.objectContaining({ kind: KIND }) as object,
        name: "small",
      },
    },
    {
      name: "in the revision in use",
      vm: vmOf({ name: "small", kind: KIND.toLowerCase() }, used("small")),
      want: { kind: "revision", name: "kept" },
    },
    {
      name: "in the VM's revisionName before the revision in use",
      vm: vmOf({ name: "small", kind: KIND, revisionName: "own" }, used("small")),
      want: { kind: "revision", name: "own" },
    },
    {
      name: "in the object if the name has changed",
      vm: vmOf({ name: "large", kind: KIND }, used("small")),
      want: { kind: "object", name: "large" },
    },
    {
      name: "in the object if the kind has changed",
      vm: vmOf({ name: "small" }, used("small")),
      want: { kind: "object", name: "small" },
    },
    {
      name: "nowhere for an unknown kind",
      vm: vmOf({ name: "small", kind: "Pod" }),
      want: { kind: "unknownKind", message: "got unexpected kind in InstancetypeMatcher: Pod" },
    },
  ])("$name", ({ vm, want }) => {
    expect(locateMatchedObject(vm, "instancetype")).toMatchObject(want);
    expect(locateMatchedObject(vm, "preference")).toBeUndefined();
  });

  test("ignores VMs without matchers, unless their status still has references", () => {
    const had = { ...aVm(), status: used("small") };
    expect([hasMatcher(aVm()), usesInstancetype(aVm())]).toEqual([false, false]);
    expect([hasMatcher(had), usesInstancetype(had)]).toEqual([false, true]);
    expect(hasMatcher(vmOf({ name: "small" }))).toBe(true);
  });
});
