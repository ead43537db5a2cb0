// SPDX-License-Identifier: Apache-2.0
// Rules of KubeVirt for networks of resource claims, and of Kubernetes for the claims. Source: KubeVirt
// pkg/network/admitter/dra.go.
import { expect, test } from "vitest";
import type { NicGate } from "../kinds/kubevirt-config.ts";
import type { VmiSpec } from "../kinds/vmi-spec.ts";
import { listGatedCauses } from "./iface-traffic.ts";
import { validateVmChange, validateVmiSpec } from "./spec.ts";
import { POD, BRIDGE } from "../testing/rule-rows.ts";

const CLAIM = { name: "nics", resourceClaimTemplateName: "nic" };

function claimed(name: string, claimName = "nics", requestName = name) {
  return { name, resourceClaim: { claimName, requestName } };
}

interface Given {
  readonly networks?: readonly object[];
  readonly interfaces?: readonly object[];
  readonly resourceClaims?: readonly object[] | undefined;
}

function specOf({
  networks = [claimed("blue")],
  interfaces = networks.map((network) => ({ bridge: {}, ...network, resourceClaim: undefined })),
  resourceClaims = [CLAIM],
}: Given): VmiSpec {
  // Rows contain what clients may send, which is wider than the types.
  const domain = { devices: { interfaces } };
  return JSON.parse(JSON.stringify({ domain, networks, resourceClaims })) as VmiSpec;
}

const NETWORK = "spec.networks[0]";

test.each<Given & { name: string; want: readonly string[] }>([
  { name: "a device with bridge", want: [] },
  {
    name: "two requests of one claim",
    networks: [claimed("blue"), claimed("red")],
    want: [],
  },
  {
    name: "a device beside the pod network",
    networks: [POD, claimed("blue")],
    interfaces: [BRIDGE, { name: "blue", bridge: {} }],
    want: [],
  },
  { name: "a claim without a network", networks: [POD], interfaces: [BRIDGE], want: [] },
  {
    name: "an existing claim",
    resourceClaims: [{ name: "nics", resourceClaimName: "a.b" }],
    want: [],
  },
  {
    name: "a registered binding",
    interfaces: [{ name: "blue", binding: { name: "plugin" } }],
    want: [],
  },
  { name: "SR-IOV", interfaces: [{ name: "blue", sriov: {} }], want: [] },
  {
    name: "masquerade",
    interfaces: [{ name: "blue", masquerade: {} }],
    want: [
      "FieldValueInvalid spec.domain.devices.interfaces[0].name",
      "FieldValueInvalid spec.domain.devices.interfaces",
    ],
  },
  {
    name: "a second source",
    networks: [{ ...claimed("blue"), pod: {} }],
    want: [`FieldValueRequired ${NETWORK}`],
  },
  {
    name: "a network of a NetworkAttachmentDefinition beside it",
    networks: [claimed("blue"), { name: "red", multus: { networkName: "red" } }],
    interfaces: [
      { name: "blue", bridge: {} },
      { name: "red", bridge: {} },
    ],
    want: ["FieldValueInvalid spec.networks"],
  },
  {
    name: "no names",
    networks: [{ name: "blue", resourceClaim: {} }],
    want: [
      `FieldValueRequired ${NETWORK}.resourceClaim.claimName`,
      `FieldValueRequired ${NETWORK}.resourceClaim.requestName`,
    ],
  },
  {
    name: "an undefined claim",
    networks: [claimed("blue", "other")],
    want: [`FieldValueNotFound ${NETWORK}.resourceClaim.claimName`],
  },
  {
    name: "a request that is used twice",
    networks: [claimed("blue", "nics", "nic"), claimed("red", "nics", "nic")],
    want: ["FieldValueDuplicate spec.networks[1]"],
  },
  {
    name: "claims of the same name",
    resourceClaims: [CLAIM, CLAIM],
    want: ["FieldValueDuplicate spec.resourceClaims[1].name"],
  },
  {
    name: "a claim without a source",
    resourceClaims: [{ name: "nics" }],
    want: ["FieldValueInvalid spec.resourceClaims[0]"],
  },
  {
    name: "a claim with two sources",
    resourceClaims: [{ ...CLAIM, resourceClaimName: "a" }],
    want: ["FieldValueInvalid spec.resourceClaims[0]"],
  },
  {
    name: "invalid names",
    networks: [POD],
    interfaces: [BRIDGE],
    resourceClaims: [
      { name: "A", resourceClaimName: "a b" },
      { name: "", resourceClaimTemplateName: "" },
    ],
    want: [
      "FieldValueInvalid spec.resourceClaims[0].name",
      "FieldValueInvalid spec.resourceClaims[0].resourceClaimName",
      "FieldValueRequired spec.resourceClaims[1].name",
      "FieldValueInvalid spec.resourceClaims[1].resourceClaimTemplateName",
    ],
  },
  {
    name: "too many claims",
    resourceClaims: Array.from({ length: 65 }, () => CLAIM),
    want: ["FieldValueInvalid spec.resourceClaims"],
  },
])("$name: causes $want", ({ want, ...given }) => {
  const causes = validateVmiSpec(specOf(given), "spec");
  expect(causes.map(({ reason, field }) => `${reason} ${field}`)).toEqual(want);
});

test("an existing problem of a claim that moves in the list does not block a change", () => {
  const template = (resourceClaims: readonly object[]) => ({
    template: { spec: specOf({ networks: [POD], interfaces: [BRIDGE], resourceClaims }) },
  });
  const bad = { name: "bad" };
  expect(validateVmChange(template([bad]), template([CLAIM, bad]))).toEqual([]);
});

test.each<{ name: string; before?: Given; after: Given; gates?: NicGate[]; want: string[] }>([
  {
    name: "a new device",
    after: {},
    want: ["spec.networks[0].resourceClaim", "spec.resourceClaims"],
  },
  { name: "a new device with the gate", after: {}, gates: ["NetworkDevicesWithDRA"], want: [] },
  { name: "an unchanged device", before: {}, after: {}, want: [] },
  {
    name: "another request",
    before: {},
    after: { networks: [claimed("blue", "nics", "other")] },
    want: ["spec.networks[0].resourceClaim"],
  },
  {
    name: "a further claim",
    before: {},
    after: { resourceClaims: [CLAIM, { ...CLAIM, name: "more" }] },
    want: ["spec.resourceClaims"],
  },
  {
    name: "no claims",
    after: { networks: [POD], interfaces: [BRIDGE], resourceClaims: [] },
    want: [],
  },
])("$name without the feature gate: causes $want", ({ before, after, gates = [], want }) => {
  const specs = { ...(before && { before: specOf(before) }), after: specOf(after), base: "spec" };
  const causes = listGatedCauses(specs, gates);
  expect(causes.map(({ field }) => field)).toEqual(want);
  expect(causes.every(({ message }) => message.includes("NetworkDevicesWithDRA"))).toBe(true);
});
