// SPDX-License-Identifier: Apache-2.0
import { names, type VirtualMachineInstance, type VmiSpec } from "@patchbay/api";
import { aVmi } from "@patchbay/support";
import { describe, expect, test } from "vitest";
import { refuseVmiChange } from "./vmi-change.ts";

const PLAIN = aVmi().spec;
const NICS = aVmi({ nics: [{ name: "it's" }] }).spec;
const GRACE = { terminationGracePeriodSeconds: 1 };
const CHANGES = { nothing: PLAIN, nics: NICS, rest: { ...PLAIN, ...GRACE } };
const BOTH: VmiSpec = { ...NICS, ...GRACE };

function service(name: string): string {
  return `${names.SERVICE_ACCOUNT_PREFIX}${name}`;
}

function vmi(kind: string | undefined, spec: VmiSpec): VirtualMachineInstance {
  const { metadata, ...rest } = aVmi();
  const owner = { apiVersion: "kubevirt.io/v1", name: "vm1", uid: "u", controller: true };
  const ownerReferences = kind === undefined ? [] : [{ ...owner, kind }];
  return { ...rest, metadata: { ...metadata, ownerReferences }, spec };
}

/** 0: it may be made. */
function codeOf(kind: string | undefined, spec: VmiSpec, user: string): number {
  const refusal = refuseVmiChange({ old: vmi(kind, PLAIN), vmi: vmi(kind, spec), user });
  return refusal?.code ?? 0;
}

describe("nothing, the NICs, the rest, and both of a VMI", () => {
  test.each([
    { of: "nobody", kind: undefined, user: "alice", want: [0, 0, 422, 422] },
    { of: "a VM", kind: "VirtualMachine", user: "alice", want: [0, 403, 422, 403] },
    { of: "a pool", kind: "Pool", user: "alice", want: [0, 0, 422, 422] },
    {
      of: "a VM",
      kind: "VirtualMachine",
      user: service("virt-controller"),
      want: [0, 0, 0, 0],
    },
    { of: "a VM", kind: "VirtualMachine", user: service("virt-handler"), want: [0, 403, 0, 403] },
    { of: "nobody", kind: undefined, user: service("virt-handler"), want: [0, 0, 0, 0] },
  ])("of $of, by $user: $want", ({ kind, user, want }) => {
    const specs = [...Object.values(CHANGES), BOTH];
    expect(specs.map((spec) => codeOf(kind, spec, user))).toEqual(want);
  });
});

test("who may not change NICs is told the command that changes those of the VM", () => {
  const kind = "VirtualMachine";
  const change = { old: vmi(kind, PLAIN), vmi: vmi(kind, NICS), user: "alice" };
  const patch = {
    spec: {
      template: {
        spec: {
          networks: NICS.networks,
          domain: { devices: { interfaces: NICS.domain.devices?.interfaces } },
        },
      },
    },
  };
  const quoted = JSON.stringify(patch).replaceAll("'", `'\\''`);
  expect(refuseVmiChange(change)).toEqual({
    code: 403,
    message: `the VM vm1 decides the networks and interfaces of this VMI; change the VM instead: kubectl patch vm vm1 -n default --type merge -p '${quoted}'`,
    causes: [],
  });
});

test("who may not change the rest is told which field it is about", () => {
  const change = {
    old: vmi(undefined, PLAIN),
    vmi: vmi(undefined, CHANGES.rest),
    user: "alice",
  };
  const message = "update of VMI object is restricted";
  expect(refuseVmiChange(change)).toEqual({
    code: 422,
    message,
    causes: [{ reason: "FieldValueNotSupported", field: "spec", message }],
  });
});
