// SPDX-License-Identifier: Apache-2.0
import {
  names,
  type Iface,
  type VmiSpec,
  type Network,
  type VirtualMachineInstance,
} from "@patchbay/api";
import { describe, expect, test } from "vitest";
import { aVmi } from "@patchbay/support";
import {
  listNewIfaceBindingCauses,
  listLiveNetworkChangeCauses,
  refuseVmiChange,
} from "./spec-edits.ts";

describe("an iface plugged into a running VMI", () => {
  const withIfaces = (...interfaces: readonly Iface[]): VmiSpec => ({
    domain: { devices: { interfaces: [...interfaces] } },
  });
  const FINE: Iface = { name: "fine", bridge: {} };
  const SRIOV: Iface = { name: "vf", sriov: {} };
  const refused = (index: number): object => ({
    reason: "FieldValueNotSupported",
    field: `spec.domain.devices.interfaces[${String(index)}].sriov`,
    message: expect.stringContaining("is not supported yet") as string,
  });

  test.each([
    {
      name: "may have a supported binding",
      before: withIfaces(),
      after: withIfaces(FINE),
      want: [],
    },
    {
      name: "cannot have an unsupported binding",
      before: withIfaces(FINE),
      after: withIfaces(FINE, SRIOV),
      want: [1],
    },
    {
      name: "cannot have an unsupported binding as the first iface",
      before: { domain: {} },
      after: withIfaces(SRIOV),
      want: [0],
    },
    {
      name: "cannot have an unsupported binding as the first device",
      before: { domain: { devices: {} } },
      after: withIfaces(SRIOV),
      want: [0],
    },
    {
      name: "is not checked if it existed before",
      before: withIfaces(SRIOV),
      after: withIfaces(FINE, SRIOV),
      want: [],
    },
    {
      name: "cannot be requested again with an unsupported binding",
      before: withIfaces({ ...SRIOV, state: "absent" }),
      after: withIfaces(SRIOV),
      want: [0],
    },
    {
      name: "is not checked while it is being unplugged",
      before: withIfaces(SRIOV),
      after: withIfaces({ ...SRIOV, state: "absent" }),
      want: [],
    },
    {
      name: "may be added as absent",
      before: withIfaces(),
      after: withIfaces({ ...SRIOV, state: "absent" }),
      want: [],
    },
    { name: "may be missing", before: withIfaces(SRIOV), after: { domain: {} }, want: [] },
  ])("$name", ({ before, after, want }) => {
    expect(listNewIfaceBindingCauses({ before, after, base: "spec" }, {})).toEqual(
      want.map(refused),
    );
  });
});

const BINDINGS = { own: { domainAttachmentType: "tap" } };
const BRIDGE: Iface = { name: "a", bridge: {} };
const TAP: Iface = { name: "a", binding: { name: "own" } };
const on = (networkName: string): Network => ({ name: "a", multus: { networkName } });

function spec(network: Network, iface: Iface): VmiSpec {
  return { networks: [network], domain: { devices: { interfaces: [iface] } } };
}

test.each<{ name: string; from: VmiSpec; to: VmiSpec; want: number }>([
  {
    name: "with a bridge binding may change",
    from: spec(on("blue"), BRIDGE),
    to: spec(on("red"), BRIDGE),
    want: 0,
  },
  {
    name: "with a tap binding may not change",
    from: spec(on("blue"), TAP),
    to: spec(on("red"), TAP),
    want: 1,
  },
  {
    name: "may not become the pod network",
    from: spec(on("blue"), BRIDGE),
    to: spec({ name: "a", pod: {} }, BRIDGE),
    want: 1,
  },
  {
    name: "may not become a default network",
    from: spec(on("blue"), BRIDGE),
    to: spec({ name: "a", multus: { networkName: "blue", default: true } }, BRIDGE),
    want: 1,
  },
  { name: "may stay the same", from: spec(on("blue"), TAP), to: spec(on("blue"), TAP), want: 0 },
  {
    name: "is not checked while the NIC is being unplugged",
    from: spec(on("blue"), { ...TAP, state: "absent" }),
    to: spec(on("red"), TAP),
    want: 0,
  },
  { name: "is not checked for a new NIC", from: { domain: {} }, to: spec(on("red"), TAP), want: 0 },
])("the network of a running NIC $name", ({ from, to, want }) => {
  const causes = listLiveNetworkChangeCauses({ before: from, after: to, base: "spec" }, BINDINGS);
  expect(causes.map(({ field }) => field)).toEqual(Array(want).fill("spec.networks[0]"));
});

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

describe("codes for a change of nothing, of the NICs, of the rest, and of both", () => {
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
  ])("in a VMI of $of, by user $user: $want", ({ kind, user, want }) => {
    const specs = [...Object.values(CHANGES), BOTH];
    expect(specs.map((spec) => codeOf(kind, spec, user))).toEqual(want);
  });
});

test("suggests the VM's command to users who may not change NICs", () => {
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

test("names the field that the user may not change", () => {
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
