// SPDX-License-Identifier: Apache-2.0
// Validation of VMs and VMIs. Each function returns the first eight causes, in KubeVirt's order.
import { type Rule, causeIf, forEachIface, toValidatedSpec } from "./rule.ts";
import { findMalformedQuantities, listLimitCauses, type FieldProblem } from "./fields.ts";
import { BLOCK_SIZE_RULES, DISK_RULES, SHARING_RULES } from "./guest/disks.ts";
import { BOOT_ORDER_RULES, CPU_RULES, FIRMWARE_RULES, RESOURCE_RULES } from "./guest/machine.ts";
import { CLOUD_INIT_RULES, VOLUME_RULES } from "./guest/volumes.ts";
import { POD_RULES, PROBE_RULES } from "./guest/pod.ts";
import { enumValuesAreValid } from "./guest/enums.ts";
import type { Cause } from "../kinds/kubernetes/meta.ts";
import type { VmSpec } from "../kinds/vm.ts";
import type { VmiSpec } from "../kinds/vmi-spec.ts";
import {
  DEVICE_RULES,
  IFACE_FIELD_RULES,
  DISCONTINUED_BINDINGS,
  IFACE_STATE_RULES,
} from "./ifaces.ts";
import { CLAIMED_NETWORK_RULES } from "./claimed-networks.ts";
import { IFACE_TRAFFIC_RULES, DHCP_OPTION_RULES } from "./iface-traffic.ts";
import { NETWORK_NAME_RULES, NETWORK_SOURCE_RULES } from "./networks.ts";
import { findByName, memoize, memoizeAt } from "../values/memoize.ts";
import { collectProblems } from "../limits.ts";
import { isDefaultNetwork, type Network } from "../kinds/network.ts";

const quantitiesAreReadable: Rule = ({ spec, base }) =>
  findMalformedQuantities(spec, base).map((problem) => ({
    reason: "FieldValueInvalid",
    ...problem,
  }));

/** Source: KubeVirt pkg/virt-api/webhooks/validating-webhook/admitters, pkg/storage/admitters. */
const GUEST_RULES: readonly Rule[] = [
  ...POD_RULES,
  ...PROBE_RULES,
  quantitiesAreReadable,
  ...RESOURCE_RULES,
  ...CPU_RULES,
  ...BOOT_ORDER_RULES,
  ...DISK_RULES,
  ...BLOCK_SIZE_RULES,
  ...SHARING_RULES,
  ...FIRMWARE_RULES,
  ...VOLUME_RULES,
  ...CLOUD_INIT_RULES,
  enumValuesAreValid,
];

const listUsedVolumes = memoize(
  ({ template }: VmSpec): ReadonlySet<string | undefined> =>
    new Set(
      (template.spec.volumes ?? []).flatMap(({ dataVolume, persistentVolumeClaim }) => [
        dataVolume?.name,
        persistentVolumeClaim?.claimName,
      ]),
    ),
);

function findTargetFault(spec: Readonly<Record<string, unknown>>): string | undefined {
  const targets = ["pvc", "storage"].filter((key) => spec[key] !== undefined).length;
  if (targets === 0) return "Missing Data volume PVC or Storage";
  return targets === 1
    ? undefined
    : "Duplicate storage definition, both target storage and target pvc defined";
}

function listDataVolumeTemplateCauses(spec: VmSpec, index: number): readonly Cause[] {
  const path = `spec.dataVolumeTemplates[${String(index)}]`;
  const template = spec.dataVolumeTemplates?.[index];
  const name = template?.metadata?.name ?? "";
  if (name === "") {
    const field = `${path}.name`;
    const message = `'name' field must not be empty for DataVolumeTemplate entry ${field}.`;
    return [{ reason: "FieldValueRequired", field, message }];
  }
  const fault = findTargetFault(template?.spec ?? {});
  if (fault !== undefined) {
    return [{ reason: "FieldValueInvalid", field: `${path}.spec`, message: fault }];
  }
  if (listUsedVolumes(spec).has(name)) return [];
  const message = `DataVolumeTemplate entry ${path} must be referenced in the VMI template's 'volumes' list`;
  return [{ reason: "FieldValueRequired", field: path, message }];
}

/** Returns at most one cause for each DataVolume template. Source: KubeVirt pkg/storage/admitters/data-volume-template.go. */
function listDataVolumeCauses(spec: VmSpec): readonly Cause[] {
  return (spec.dataVolumeTemplates ?? []).flatMap((_template, index) =>
    listDataVolumeTemplateCauses(spec, index),
  );
}

/** Rules for new and changed objects. Source: KubeVirt pkg/network/admitter/validator.go. */
const COMMON_RULES: readonly Rule[] = [
  ...NETWORK_SOURCE_RULES,
  ...IFACE_STATE_RULES,
  ...NETWORK_NAME_RULES,
  ...CLAIMED_NETWORK_RULES,
  ...IFACE_FIELD_RULES,
  ...IFACE_TRAFFIC_RULES,
  ...DHCP_OPTION_RULES,
  ...DEVICE_RULES,
  ...GUEST_RULES,
];

/** Rejects discontinued bindings in new objects; existing objects may have them. Source: KubeVirt pkg/network/admitter/discontinued.go. */
const noDiscontinuedBinding = forEachIface((iface, path) =>
  DISCONTINUED_BINDINGS.filter((name) => name in iface).map((name) => ({
    reason: "FieldValueInvalid",
    field: `${path}.${name}`,
    message: `${name} network interface has been discontinued since v1.3`,
  })),
);

const CREATION_RULES: readonly Rule[] = [noDiscontinuedBinding];

type AdmissionOperation = "create" | "update";

type Judge = () => readonly Cause[];

function listVmiJudges(
  spec: VmiSpec,
  base: string,
  admission: AdmissionOperation,
): readonly Judge[] {
  const validated = toValidatedSpec(spec, base);
  const rules = admission === "create" ? [...CREATION_RULES, ...COMMON_RULES] : COMMON_RULES;
  return rules.map((rule) => () => rule(validated));
}

function judge(judges: readonly Judge[]): readonly Cause[] {
  return collectProblems(judges, (list) => list());
}

export function validateVmiSpec(
  spec: VmiSpec,
  base: string,
  admission: AdmissionOperation = "update",
): readonly Cause[] {
  const beyond = listLimitCauses("VirtualMachineInstance", spec, base);
  return beyond.length > 0 ? beyond : judge(listVmiJudges(spec, base, admission));
}

/** Returns the guest's invalid fields, which keep the VM from starting. Does not check networks and interfaces. */
export const validateGuest: (spec: VmiSpec, base: string) => readonly FieldProblem[] = memoizeAt(
  (spec, base) => {
    const validated = toValidatedSpec(spec, base);
    const causes = GUEST_RULES.flatMap((rule) => rule(validated));
    // Callers print the field before the message, so the message must not repeat the field.
    return causes.map(({ field, message }) => ({
      field,
      message: message.startsWith(`${field} `) ? message.slice(field.length + 1) : message,
    }));
  },
);

function listVmJudges(spec: VmSpec, admission: AdmissionOperation): readonly Judge[] {
  const listRunningCauses: Judge = () =>
    causeIf(spec.running !== undefined && spec.runStrategy !== undefined, {
      reason: "FieldValueInvalid",
      field: "spec.running",
      message: "Running and RunStrategy are mutually exclusive",
    });
  return [
    listRunningCauses,
    () => listDataVolumeCauses(spec),
    ...listVmiJudges(spec.template.spec, "spec.template.spec", admission),
  ];
}

export function validateVmSpec(
  spec: VmSpec,
  admission: AdmissionOperation = "update",
): readonly Cause[] {
  const beyond = listLimitCauses("VirtualMachine", spec, "spec");
  return beyond.length > 0 ? beyond : judge(listVmJudges(spec, admission));
}

/** Identifies a cause by names instead of indexes, so that a moved entry does not count as a new cause. */
function identifyCause(cause: Cause, spec: VmiSpec): string {
  const { networks = [], resourceClaims = [], volumes = [], domain } = spec;
  const { interfaces = [], disks = [] } = domain.devices ?? {};
  const entries = { networks, resourceClaims, interfaces, volumes, disks };
  const text = `${cause.reason} ${cause.field} ${cause.message}`;
  return text.replaceAll(
    /(networks|resourceClaims|interfaces|volumes|disks)\[(\d+)\]/g,
    (_match, key: keyof typeof entries, index: string) =>
      `${key}[${entries[key][Number(index)]?.name ?? index}]`,
  );
}

interface JudgedSpec {
  readonly spec: VmiSpec;
  readonly judges: readonly Judge[];
}

/** Returns the causes that the change introduces. Existing causes must not block changes, for example an unplug. */
function listNewCauses(before: JudgedSpec, after: JudgedSpec): readonly Cause[] {
  const oldCauses = before.judges.flatMap((list) => list());
  const knownIds = new Set(oldCauses.map((cause) => identifyCause(cause, before.spec)));
  const isNew = (cause: Cause): boolean => !knownIds.has(identifyCause(cause, after.spec));
  return collectProblems(after.judges, (list) => list().filter(isNew));
}

export function validateVmChange(before: VmSpec | undefined, after: VmSpec): readonly Cause[] {
  if (before === undefined) return validateVmSpec(after, "create");
  const beyond = listLimitCauses("VirtualMachine", after, "spec");
  if (beyond.length > 0) return beyond;
  return listNewCauses(
    { spec: before.template.spec, judges: listVmJudges(before, "update") },
    { spec: after.template.spec, judges: listVmJudges(after, "update") },
  );
}

export function validateVmiChange(before: VmiSpec | undefined, after: VmiSpec): readonly Cause[] {
  if (before === undefined) return validateVmiSpec(after, "spec", "create");
  const beyond = listLimitCauses("VirtualMachineInstance", after, "spec");
  if (beyond.length > 0) return beyond;
  return listNewCauses(
    { spec: before, judges: listVmiJudges(before, "spec", "update") },
    { spec: after, judges: listVmiJudges(after, "spec", "update") },
  );
}

function haveSameSource(network: Network, otherNetwork: Network): boolean {
  return (
    (network.pod === undefined) === (otherNetwork.pod === undefined) &&
    isDefaultNetwork(network) === isDefaultNetwork(otherNetwork) &&
    network.multus?.networkName === otherNetwork.multus?.networkName
  );
}

/** Rejects a change of the pod's default network, which cannot be plugged, unplugged or replaced while the pod runs. */
export function validateVmiNetworkChange(before: VmiSpec, after: VmiSpec): readonly Cause[] {
  const [oldNetworks = [], newNetworks = []] = [before, after].map((spec) =>
    (spec.networks ?? []).filter(isDefaultNetwork),
  );
  const removedNetworks = oldNetworks.filter((network) => {
    const other = findByName(newNetworks, network.name);
    return other === undefined || !haveSameSource(network, other);
  });
  const addedNetworks = oldNetworks.length === 0 ? newNetworks : [];
  const toCause = ({ name }: Network, problem: string): Cause => ({
    reason: "FieldValueForbidden",
    field: "spec.networks",
    message: `network '${name}' ${problem} while the VMI runs`,
  });
  return [
    ...removedNetworks.map((network) =>
      toCause(network, "is the default network of the pod and cannot be removed or replaced"),
    ),
    ...addedNetworks.map((network) =>
      toCause(network, "would be the default network of the pod and cannot be added"),
    ),
  ];
}
