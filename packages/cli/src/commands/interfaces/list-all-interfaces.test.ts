// SPDX-License-Identifier: Apache-2.0
import type { VirtualMachine, VirtualMachineInstance } from "@patchbay/api";
import { aVm, aVmi } from "@patchbay/support";
import { describe, expect, test } from "vitest";
import { printInterfacesOfAll } from "../../print/interfaces.ts";
import { joinByName } from "./list-all-interfaces.ts";

function spec(...interfaces: readonly { name: string; state?: string }[]) {
  return { domain: { devices: { interfaces: [...interfaces] } } };
}

function vm(name: string, template: VirtualMachine["spec"]["template"]["spec"]): VirtualMachine {
  return { ...aVm(), metadata: { namespace: "ns", name }, spec: { template: { spec: template } } };
}

function vmi(name: string, linkState: string): VirtualMachineInstance {
  const hotplug = { type: "Plug", phase: "Ready" } as const;
  return {
    ...aVmi({ status: { phase: "Running", interfaces: [{ name: "red", linkState, hotplug }] } }),
    metadata: { namespace: "ns", name },
    spec: spec({ name: "red" }),
  };
}

describe("get interfaces without a VM", () => {
  test("prints one table by VM, including VMIs without a VM and links that are down", () => {
    const vms = [vm("web", spec({ name: "red" })), vm("db", spec({ name: "blue", state: "down" }))];
    const text = printInterfacesOfAll(joinByName(vms, [vmi("web", "down"), vmi("alone", "up")]));
    const cells = text.split("\n").map((line) => line.split(/ {2,}/).slice(0, 6));
    expect(cells.slice(0, -1)).toEqual([
      ["VM", "NAME", "NETWORK", "PHASE", "REASON", "LINK"],
      ["alone", "red", "-", "Ready", "-", "up"],
      ["db", "blue", "-", "Stopped", "-", "down"],
      ["web", "red", "-", "Ready", "-", "down"],
    ]);
  });

  test("reports that there are no interfaces", () => {
    expect(printInterfacesOfAll(joinByName([vm("web", spec())], []))).toBe("no interfaces\n");
  });
});
