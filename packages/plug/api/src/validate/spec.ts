// SPDX-License-Identifier: Apache-2.0
// Whether a VM or a VMI may be stored: all causes at once, in KubeVirt's order.
import type { Cause } from "../kinds/kubernetes/meta.ts";
import type { VmSpec } from "../kinds/vm.ts";
import type { VmiSpec } from "../kinds/vmi-spec.ts";
import { dataVolumeCauses } from "./data-volumes.ts";
import { DEVICE_RULES } from "./devices.ts";
import { IFACE_FIELD_RULES } from "./iface-fields.ts";
import { DISCONTINUED, IFACE_STATE_RULES } from "./iface-state.ts";
import { IFACE_TRAFFIC_RULES } from "./iface-traffic.ts";
import { NETWORK_NAME_RULES, NETWORK_SOURCE_RULES } from "./networks.ts";
import { DHCP_OPTION_RULES } from "./guest/dhcp-options.ts";
import { GUEST_RULES } from "./guest/rules.ts";
import { inCurrentWords } from "../spellings/in-current-words.ts";
import { rememberedAt } from "../values/remembered.ts";
import type { FieldProblem } from "./unsupported.ts";
import { causeIf, forEachIface, type JudgedSpec, type Rule } from "./rule.ts";

/** Source: KubeVirt pkg/network/admitter/validator.go. */
const RULES: readonly Rule[] = [
  ...NETWORK_SOURCE_RULES,
  ...IFACE_STATE_RULES,
  ...NETWORK_NAME_RULES,
  ...IFACE_FIELD_RULES,
  ...IFACE_TRAFFIC_RULES,
  ...DHCP_OPTION_RULES,
  ...DEVICE_RULES,
  ...GUEST_RULES,
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

function judgedSpecOf(given: VmiSpec, base: string): JudgedSpec {
  const spec = inCurrentWords(given);
  const devices = spec.domain.devices ?? {};
  return {
    spec,
    disks: devices.disks ?? [],
    volumes: spec.volumes ?? [],
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
  const judged = judgedSpecOf(spec, base);
  const rules = admission === "create" ? [...CREATION_RULES, ...RULES] : RULES;
  return rules.flatMap((rule) => rule(judged));
}

/**
 * What is wrong with the guest that a specification at `base` declares: the part of `validateVmiSpec` that has nothing to
 * do with networks. A guest with a problem is not started, whenever and by whomever it was stored.
 */
export const guestProblems: (spec: VmiSpec, base: string) => readonly FieldProblem[] = rememberedAt(
  (spec, base) => {
    const judged = judgedSpecOf(spec, base);
    const causes = GUEST_RULES.flatMap((rule) => rule(judged));
    // Problems are told behind their fields, causes name them.
    return causes.map(({ field, message }) => ({
      field,
      message: message.startsWith(`${field} `) ? message.slice(field.length + 1) : message,
    }));
  },
);

/** Every cause against a VM specification, those against its template with their paths in the VM. */
export function validateVmSpec(spec: VmSpec, admission: Admission = "update"): readonly Cause[] {
  return [
    ...causeIf(spec.running !== undefined && spec.runStrategy !== undefined, {
      reason: "FieldValueInvalid",
      field: "spec.running",
      message: "Running and RunStrategy are mutually exclusive",
    }),
    ...dataVolumeCauses(spec),
    ...validateVmiSpec(spec.template.spec, "spec.template.spec", admission),
  ];
}
