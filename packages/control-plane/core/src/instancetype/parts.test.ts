// SPDX-License-Identifier: Apache-2.0
import type { Matcher, VirtualMachine, VmStatus } from "@patchbay/api";
import { aVm } from "@patchbay/support";
import { describe, expect, test } from "vitest";
import { usesParts } from "./facts.ts";
import { findDefaultKind, hasParts, locatePart, findPartType } from "./parts.ts";

function vmOf(instancetype: Matcher, status: VmStatus = {}): VirtualMachine {
  const vm = aVm();
  return { ...vm, spec: { ...vm.spec, instancetype }, status };
}

describe("the kind of a part", () => {
  test.each([
    { part: "instancetype", kind: undefined, want: "virtualmachineclusterinstancetypes" },
    { part: "instancetype", kind: "", want: "virtualmachineclusterinstancetypes" },
    {
      part: "instancetype",
      kind: "VirtualMachineInstancetype",
      want: "virtualmachineinstancetypes",
    },
    {
      part: "instancetype",
      kind: "virtualmachineinstancetypes",
      want: "virtualmachineinstancetypes",
    },
    {
      part: "instancetype",
      kind: "virtualmachineclusterinstancetype",
      want: "virtualmachineclusterinstancetypes",
    },
    { part: "instancetype", kind: "VirtualMachinePreference", want: undefined },
    { part: "preference", kind: undefined, want: "virtualmachineclusterpreferences" },
    { part: "preference", kind: "VirtualMachinePreference", want: "virtualmachinepreferences" },
    { part: "preference", kind: "Pod", want: undefined },
  ] as const)("$kind of a $part is $want", ({ part, kind, want }) => {
    expect(findPartType(part, kind)?.resource).toBe(want);
  });

  test("gets KubeVirt's default if unset", () => {
    expect(findDefaultKind("instancetype")).toBe("virtualmachineclusterinstancetype");
    expect(findDefaultKind("preference")).toBe("virtualmachineclusterpreference");
  });
});

describe("reads the fields of a part", () => {
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
    expect(locatePart(vm, "instancetype")).toMatchObject(want);
    expect(locatePart(vm, "preference")).toBeUndefined();
  });

  test("ignores VMs without parts, unless their status still has references", () => {
    const had = { ...aVm(), status: used("small") };
    expect([hasParts(aVm()), usesParts(aVm())]).toEqual([false, false]);
    expect([hasParts(had), usesParts(had)]).toEqual([false, true]);
    expect(hasParts(vmOf({ name: "small" }))).toBe(true);
  });
});
