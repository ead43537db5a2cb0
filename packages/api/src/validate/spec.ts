// SPDX-License-Identifier: Apache-2.0
// Whether a VM or a VMI may be stored: all causes at once, in KubeVirt's order.
import type { Cause } from "../kinds/meta.ts";
import type { VmSpec } from "../kinds/vm.ts";
import type { VmiSpec } from "../kinds/vmi-spec.ts";
import { DEVICE_RULES } from "./devices.ts";
import { IFACE_FIELD_RULES } from "./iface-fields.ts";
import { DISCONTINUED, IFACE_STATE_RULES } from "./iface-state.ts";
import { NETWORK_NAME_RULES, NETWORK_SOURCE_RULES } from "./networks.ts";
import { unreadableQuantities } from "./quantities.ts";
import { causeIf, forEachIface, type NetworkingSpec, type Rule } from "./rule.ts";

/** Source: KubeVirt pkg/network/admitter/validator.go. */
const RULES: readonly Rule[] = [
  ...NETWORK_SOURCE_RULES,
  ...IFACE_STATE_RULES,
  ...NETWORK_NAME_RULES,
  ...IFACE_FIELD_RULES,
  ...DEVICE_RULES,
];

/** Bindings that KubeVirt took out. Source: KubeVirt pkg/network/admitter/discontinued.go. */
const noDiscontinuedBinding = forEachIface((iface, path) =>
  DISCONTINUED.filter((name) => name in iface).map((name) => ({
    reason: "FieldValueInvalid",
    field: `${path}.${name}`,
    message: `${name} network interface has been discontinued since v1.3`,
  })),
);

const CREATION_RULES: readonly Rule[] = [noDiscontinuedBinding];

/** Whether the object comes new into the store, or an older one is changed. */
type Admission = "create" | "update";

function networkingOf(spec: VmiSpec, base: string): NetworkingSpec {
  const devices = spec.domain.devices ?? {};
  return {
    networks: spec.networks ?? [],
    ifaces: devices.interfaces ?? [],
    devices,
    machine: spec.domain.machine?.type ?? "",
    base,
  };
}

/** Every cause against a VMI specification at `base`; a new one is judged by more rules than one that is stored. */
export function validateVmiSpec(
  spec: VmiSpec,
  base: string,
  admission: Admission = "update",
): readonly Cause[] {
  const networking = networkingOf(spec, base);
  const rules = admission === "create" ? [...CREATION_RULES, ...RULES] : RULES;
  const unreadable = unreadableQuantities(spec, base).map((problem): Cause => ({
    reason: "FieldValueInvalid",
    ...problem,
  }));
  return [...rules.flatMap((rule) => rule(networking)), ...unreadable];
}

/** Every cause against a VM specification, those against its template with their paths in the VM. */
export function validateVmSpec(spec: VmSpec, admission: Admission = "update"): readonly Cause[] {
  return [
    ...causeIf(spec.running !== undefined && spec.runStrategy !== undefined, {
      reason: "FieldValueInvalid",
      field: "spec.running",
      message: "Running and RunStrategy are mutually exclusive",
    }),
    ...validateVmiSpec(spec.template.spec, "spec.template.spec", admission),
  ];
}
