// SPDX-License-Identifier: Apache-2.0
// Admission of resource claims and of networks that are their devices.
import { networkConfigOf, type Network, type VmiSpec } from "@patchbay/api";
import { createFakeStore } from "@patchbay/kube/testing";
import { expect, test } from "vitest";
import type { Deps } from "../deps.ts";
import { admissionRequest, causesOf, POD, specWith } from "../testing/admission.ts";
import { depsOn } from "../testing/deps.ts";
import { aVm, aVmi } from "../testing/objects.ts";
import { validate } from "./validate.ts";

const DEVICE: Network = { name: "nic1", resourceClaim: { claimName: "nics", requestName: "nic" } };
const CLAIMED: VmiSpec = {
  ...specWith({ bridge: {} }, DEVICE),
  resourceClaims: [{ name: "nics", resourceClaimTemplateName: "nic" }],
};
const PLAIN: VmiSpec = { ...specWith(undefined), networks: [POD] };

function deps({ isServed = true, hasGate = true } = {}): Deps {
  const nicGates = hasGate ? (["NetworkDevicesWithDRA"] as const) : [];
  return depsOn(createFakeStore(), {
    networkConfig: () => ({ ...networkConfigOf(undefined), nicGates: [...nicGates] }),
    servesResourceClaims: () => Promise.resolve(isServed),
  });
}

const FIELDS = ["networks[1].resourceClaim", "resourceClaims"];

test.each([
  { name: "with gate and support", settings: {}, reason: undefined },
  { name: "without the gate", settings: { hasGate: false }, reason: "FieldValueForbidden" },
  {
    name: "on a cluster without resource claims",
    settings: { isServed: false },
    reason: "FieldValueNotSupported",
  },
])("a device of a claim $name has cause $reason", async ({ settings, reason }) => {
  const causesAt = (base: string): readonly string[] =>
    reason === undefined ? [] : FIELDS.map((field) => `${reason} ${base}.${field}`);
  const vm = aVm({ template: { spec: CLAIMED } });
  expect(causesOf(await validate(deps(settings), admissionRequest(vm)))).toEqual(
    causesAt("spec.template.spec"),
  );
  const vmi = { ...aVmi("lone"), spec: CLAIMED };
  expect(causesOf(await validate(deps(settings), admissionRequest(vmi)))).toEqual(causesAt("spec"));
});

test("stored claims do not block other changes on a cluster that no longer serves them", async () => {
  const vm = aVm({ template: { spec: CLAIMED } });
  const halted = { ...vm, spec: { ...vm.spec, runStrategy: "Halted" as const } };
  const verdict = await validate(deps({ isServed: false }), admissionRequest(halted, vm));
  expect(causesOf(verdict)).toEqual([]);
});

test("the kinds of a cluster are not discovered for a VM without claims", async () => {
  let discoveries = 0;
  const counting = {
    ...deps(),
    servesResourceClaims: () => {
      discoveries += 1;
      return Promise.resolve(true);
    },
  };
  const vm = aVm({ template: { spec: PLAIN } });
  expect(await validate(counting, admissionRequest(vm))).toMatchObject({ allowed: true });
  expect(discoveries).toBe(0);
});

test("a running VMI's device of a claim cannot be changed to another request", async () => {
  const old = { ...aVmi("lone"), spec: CLAIMED };
  const network = { ...DEVICE, resourceClaim: { claimName: "nics", requestName: "other" } };
  const changed = { ...old, spec: { ...CLAIMED, networks: [POD, network] } };
  expect(causesOf(await validate(deps(), admissionRequest(changed, old)))).toEqual([
    "FieldValueForbidden spec.networks[1]",
  ]);
});
