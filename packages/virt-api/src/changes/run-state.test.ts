// SPDX-License-Identifier: Apache-2.0
import { describe, expect, test } from "vitest";
import { ifStartable, type RunPlan } from "./run-state.ts";
import { aVm } from "../testing/objects.ts";

const ACT: RunPlan = { kind: "act", act: () => Promise.resolve(), message: "done" };

describe("a start or restart", () => {
  test("goes on where the VM can be started", () => {
    expect(ifStartable({ vm: aVm() }, ACT)).toBe(ACT);
  });

  test("is refused where it cannot, with every field: a restart would only end the guest", () => {
    const spec = { ...aVm().spec.template.spec, domain: { cpu: { model: "x" } } };
    const vm = aVm({ template: { spec } });
    const fields = ["firmware.kernelBoot.container", "cpu.model"];
    expect(ifStartable({ vm }, ACT)).toMatchObject({
      kind: "refused",
      causes: fields.map((field) => ({ field: `spec.template.spec.domain.${field}` })),
    });
    const conflict: RunPlan = { kind: "conflict", message: "VM is not running" };
    expect(ifStartable({ vm }, conflict)).toBe(conflict);
  });
});
