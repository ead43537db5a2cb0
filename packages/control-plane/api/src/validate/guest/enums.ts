// SPDX-License-Identifier: Apache-2.0
// Fields of a guest that accept a fixed set of values.
import { EVICTION_STRATEGIES } from "../../kinds/kubevirt-config.ts";
import type { Cause } from "../../kinds/kubernetes/meta.ts";
import { isJsonObject } from "../../values/json.ts";
import type { Rule } from "../rule.ts";

/** Field with a fixed set of values. An empty value counts as unset. */
interface EnumField {
  /** Path relative to the specification, with `[]` after the name of a list. */
  readonly path: string;
  readonly values: readonly string[];
  readonly reason?: Cause["reason"];
  readonly describe?: (field: string, value: string) => string;
}

const TICK_POLICIES = ["delay", "catchup", "merge", "discard"];
const WATCHDOG_ACTIONS = ["poweroff", "reset", "shutdown"];
const PULL_POLICIES = ["Always", "IfNotPresent", "Never"];
const DISKS_PATH = "domain.devices.disks[]";
const INPUTS_PATH = "domain.devices.inputs[]";
const TIMER_PATH = "domain.clock.timer";

function describeUnrecognized(field: string, value: string): string {
  return `${field} is set with an unrecognized option: ${value}`;
}

function listAllowedValues(values: readonly string[]): NonNullable<EnumField["describe"]> {
  return (field, value) => `${field} has invalid value ${value}; it can be ${values.join(", ")}`;
}

/** Fields with KubeVirt's values and messages. Source: KubeVirt api/core/v1 schema.go, types.go, admitters. */
const ENUM_FIELDS: readonly EnumField[] = [
  {
    path: `${DISKS_PATH}.cache`,
    values: ["none", "writethrough", "writeback", "directsync"],
    describe: (field, value) => `${field} has invalid value ${value}`,
  },
  {
    path: `${DISKS_PATH}.io`,
    values: ["native", "threads"],
    reason: "FieldValueNotSupported",
    describe: (field) =>
      `Disk IO mode for ${field} is not supported. Supported modes are: native, threads.`,
  },
  {
    path: `${DISKS_PATH}.errorPolicy`,
    values: ["stop", "ignore", "report", "enospace"],
    describe: (field, value) => `${field} has invalid value "${value}"`,
  },
  { path: `${DISKS_PATH}.cdrom.tray`, values: ["open", "closed"] },
  {
    path: `${INPUTS_PATH}.bus`,
    values: ["virtio", "usb"],
    describe: () => "Input device can have only virtio or usb bus.",
  },
  {
    path: `${INPUTS_PATH}.type`,
    values: ["tablet"],
    describe: () => "Input device can have only tablet type.",
  },
  {
    path: "domain.cpu.features[].policy",
    values: ["force", "require", "optional", "disable", "forbid"],
    reason: "FieldValueNotSupported",
    describe: (field, value) => `${field}: CPU feature uses policy ${value} that is not supported.`,
  },
  {
    path: "domain.ioThreadsPolicy",
    values: ["shared", "auto", "supplementalPool"],
    describe: (_field, value) => `Invalid IOThreadsPolicy (${value})`,
  },
  { path: "domain.rebootPolicy", values: ["Reboot", "Terminate"], describe: describeUnrecognized },
  { path: `${TIMER_PATH}.hpet.tickPolicy`, values: TICK_POLICIES },
  { path: `${TIMER_PATH}.pit.tickPolicy`, values: TICK_POLICIES },
  { path: `${TIMER_PATH}.rtc.tickPolicy`, values: TICK_POLICIES },
  { path: `${TIMER_PATH}.rtc.track`, values: ["guest", "wall"] },
  { path: "domain.devices.watchdog.i6300esb.action", values: WATCHDOG_ACTIONS },
  { path: "domain.devices.watchdog.diag288.action", values: WATCHDOG_ACTIONS },
  { path: "domain.firmware.kernelBoot.container.imagePullPolicy", values: PULL_POLICIES },
  { path: "volumes[].containerDisk.imagePullPolicy", values: PULL_POLICIES },
  {
    path: "evictionStrategy",
    values: EVICTION_STRATEGIES,
    describe: describeUnrecognized,
  },
  { path: "startStrategy", values: ["Paused"], describe: describeUnrecognized },
  {
    path: "dnsPolicy",
    values: ["ClusterFirstWithHostNet", "ClusterFirst", "Default", "None"],
    reason: "FieldValueNotSupported",
    describe: (_field, value) =>
      `DNSPolicy: ${value} is not supported, valid values: [ClusterFirstWithHostNet ClusterFirst Default None ]`,
  },
];

interface FieldValue {
  readonly field: string;
  readonly value: unknown;
}

function findChildren({ field, value }: FieldValue, step: string): readonly FieldValue[] {
  const isList = step.endsWith("[]");
  const key = isList ? step.slice(0, -2) : step;
  const child = isJsonObject(value) ? value[key] : undefined;
  if (child === undefined) return [];
  if (!isList) return [{ field: `${field}.${key}`, value: child }];
  if (!Array.isArray(child)) return [];
  return child.map((entry: unknown, index) => ({
    field: `${field}.${key}[${String(index)}]`,
    value: entry,
  }));
}

function findValues(steps: readonly string[], root: FieldValue): readonly FieldValue[] {
  return steps.reduce<readonly FieldValue[]>(
    (found, step) =>
      found.length === 0 ? found : found.flatMap((each) => findChildren(each, step)),
    [root],
  );
}

/** Fields with split paths. The paths are split once, because `enumValuesAreValid` runs often. */
const SPLIT_FIELDS = ENUM_FIELDS.map((field) => ({ ...field, steps: field.path.split(".") }));

export const enumValuesAreValid: Rule = ({ spec, base }) =>
  SPLIT_FIELDS.flatMap(({ steps, values, reason = "FieldValueInvalid", describe }) =>
    findValues(steps, { field: base, value: spec }).flatMap(
      ({ field, value }): readonly Cause[] => {
        if (typeof value !== "string" || value === "" || values.includes(value)) return [];
        const message = (describe ?? listAllowedValues(values))(field, value);
        return [{ reason, field, message }];
      },
    ),
  );
