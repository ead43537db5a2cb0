// SPDX-License-Identifier: Apache-2.0
// Selection of the objects that admission reads; the schema rejects the others.
import { describe, expect, test } from "vitest";
import { aVm, aVmi } from "../testing/objects.ts";
import { findSubject, isUnchanged, metadataOf, vmiSpecOf } from "./review.ts";

const VM = "VirtualMachine";
const VMI = "VirtualMachineInstance";
const NAMED = [{ name: "one" }];

function vmOf(spec: unknown): object {
  return { ...aVm(), spec: { template: { spec } } };
}

describe("findSubject", () => {
  test("returns the VM or VMI of its kind", () => {
    expect(findSubject(VM, aVm())).toEqual({ kind: "vm", vm: aVm() });
    expect(findSubject(VMI, aVmi())).toEqual({ kind: "vmi", vmi: aVmi() });
    expect(findSubject("Pod", aVm())).toBeUndefined();
  });

  test.each([
    { domain: {} },
    { domain: { devices: {} } },
    { domain: { devices: { interfaces: [] } }, networks: [] },
    { domain: { devices: { interfaces: NAMED } }, networks: NAMED },
  ])("accepts the specification %j", (spec) => {
    expect(findSubject(VM, vmOf(spec))?.kind).toBe("vm");
    expect(findSubject(VMI, { ...aVmi(), spec })?.kind).toBe("vmi");
  });

  test.each([
    undefined,
    "text",
    {},
    { domain: [] },
    { domain: {}, networks: {} },
    { domain: {}, networks: [null] },
    { domain: {}, networks: ["one"] },
    { domain: {}, networks: [{ name: 1 }] },
    { domain: {}, networks: [...NAMED, {}] },
    { domain: { devices: [] } },
    { domain: { devices: { interfaces: {} } } },
    { domain: { devices: { interfaces: [{}] } } },
    { domain: { devices: { interfaces: [{ name: "one", macAddress: {} }] } } },
    { domain: { devices: { interfaces: [{ name: "one", state: 1 }] } } },
    { domain: {}, networks: [{ name: "one", multus: "blue" }] },
    { domain: {}, networks: [{ name: "one", multus: { networkName: [] } }] },
  ])("ignores the specification %j", (spec) => {
    expect(findSubject(VM, vmOf(spec))).toBeUndefined();
    expect(findSubject(VMI, { ...aVmi(), spec })).toBeUndefined();
  });

  test.each([
    { name: "no object", object: undefined },
    { name: "text", object: "text" },
    { name: "no metadata", object: { spec: aVm().spec } },
    { name: "metadata that is not an object", object: { ...aVm(), metadata: [] } },
    { name: "no specification", object: { metadata: {} } },
    { name: "no template", object: { metadata: {}, spec: {} } },
    { name: "a template that is not an object", object: { metadata: {}, spec: { template: 1 } } },
  ])("ignores $name", ({ object }) => {
    expect(findSubject(VM, object)).toBeUndefined();
  });
});

describe("of a VM and of a VMI", () => {
  const vm = { kind: "vm", vm: aVm() } as const;
  const vmi = { kind: "vmi", vmi: aVmi("lone") } as const;

  test("vmiSpecOf and metadataOf work for VMs and VMIs", () => {
    expect(vmiSpecOf(vm)).toBe(vm.vm.spec.template.spec);
    expect(vmiSpecOf(vmi)).toBe(vmi.vmi.spec);
    expect([metadataOf(vm).name, metadataOf(vmi).name]).toEqual(["vm", "lone"]);
  });

  test("isUnchanged compares the whole specification", () => {
    expect(isUnchanged(vm, undefined)).toBe(false);
    expect(isUnchanged(vm, { kind: "vm", vm: { ...aVm(), metadata: { name: "x" } } })).toBe(true);
    expect(isUnchanged(vm, { kind: "vm", vm: aVm({ runStrategy: "Halted" }) })).toBe(false);
    expect(isUnchanged(vmi, { kind: "vmi", vmi: { ...aVmi("lone"), status: {} } })).toBe(true);
    expect(isUnchanged(vmi, { kind: "vmi", vmi: { ...aVmi(), spec: { domain: {} } } })).toBe(false);
  });
});
