// SPDX-License-Identifier: Apache-2.0
// Fields of a guest that accept a fixed set of values.
import { EVICTION_STRATEGIES } from "../../kinds/kubevirt-config.ts";
import type { Cause } from "../../kinds/kubernetes/meta.ts";
import { isJsonObject } from "../../values/json.ts";
import type { Rule } from "../rule.ts";

/** An empty value counts as unset. */
interface Choice {
  /** Below the specification; `[]` after a list. */
  readonly path: string;
  readonly words: readonly string[];
  readonly reason?: Cause["reason"];
  readonly say?: (field: string, word: string) => string;
}

const TICKS = ["delay", "catchup", "merge", "discard"];
const ACTIONS = ["poweroff", "reset", "shutdown"];
const PULL_POLICIES = ["Always", "IfNotPresent", "Never"];
const DISKS = "domain.devices.disks[]";
const INPUTS = "domain.devices.inputs[]";
const TIMER = "domain.clock.timer";

function unrecognized(field: string, word: string): string {
  return `${field} is set with an unrecognized option: ${word}`;
}

/** For fields that KubeVirt does not check. */
function sayWords(words: readonly string[]): NonNullable<Choice["say"]> {
  return (field, word) => `${field} has invalid value ${word}; it can be ${words.join(", ")}`;
}

/** Values and messages match KubeVirt. Source: KubeVirt api/core/v1 schema.go, types.go; its admitters. */
const CHOICES: readonly Choice[] = [
  {
    path: `${DISKS}.cache`,
    words: ["none", "writethrough", "writeback", "directsync"],
    say: (field, word) => `${field} has invalid value ${word}`,
  },
  {
    path: `${DISKS}.io`,
    words: ["native", "threads"],
    reason: "FieldValueNotSupported",
    say: (field) =>
      `Disk IO mode for ${field} is not supported. Supported modes are: native, threads.`,
  },
  {
    path: `${DISKS}.errorPolicy`,
    words: ["stop", "ignore", "report", "enospace"],
    say: (field, word) => `${field} has invalid value "${word}"`,
  },
  { path: `${DISKS}.cdrom.tray`, words: ["open", "closed"] },
  {
    path: `${INPUTS}.bus`,
    words: ["virtio", "usb"],
    say: () => "Input device can have only virtio or usb bus.",
  },
  {
    path: `${INPUTS}.type`,
    words: ["tablet"],
    say: () => "Input device can have only tablet type.",
  },
  {
    path: "domain.cpu.features[].policy",
    words: ["force", "require", "optional", "disable", "forbid"],
    reason: "FieldValueNotSupported",
    say: (field, word) => `${field}: CPU feature uses policy ${word} that is not supported.`,
  },
  {
    path: "domain.ioThreadsPolicy",
    words: ["shared", "auto", "supplementalPool"],
    say: (_field, word) => `Invalid IOThreadsPolicy (${word})`,
  },
  { path: "domain.rebootPolicy", words: ["Reboot", "Terminate"], say: unrecognized },
  { path: `${TIMER}.hpet.tickPolicy`, words: TICKS },
  { path: `${TIMER}.pit.tickPolicy`, words: TICKS },
  { path: `${TIMER}.rtc.tickPolicy`, words: TICKS },
  { path: `${TIMER}.rtc.track`, words: ["guest", "wall"] },
  { path: "domain.devices.watchdog.i6300esb.action", words: ACTIONS },
  { path: "domain.devices.watchdog.diag288.action", words: ACTIONS },
  { path: "domain.firmware.kernelBoot.container.imagePullPolicy", words: PULL_POLICIES },
  { path: "volumes[].containerDisk.imagePullPolicy", words: PULL_POLICIES },
  {
    path: "evictionStrategy",
    words: EVICTION_STRATEGIES,
    say: unrecognized,
  },
  { path: "startStrategy", words: ["Paused"], say: unrecognized },
  {
    path: "dnsPolicy",
    words: ["ClusterFirstWithHostNet", "ClusterFirst", "Default", "None"],
    reason: "FieldValueNotSupported",
    say: (_field, word) =>
      `DNSPolicy: ${word} is not supported, valid values: [ClusterFirstWithHostNet ClusterFirst Default None ]`,
  },
];

interface Found {
  readonly field: string;
  readonly value: unknown;
}

function below({ field, value }: Found, step: string): readonly Found[] {
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

function findAll(steps: readonly string[], root: Found): readonly Found[] {
  return steps.reduce<readonly Found[]>(
    (found, step) => (found.length === 0 ? found : found.flatMap((each) => below(each, step))),
    [root],
  );
}

/** Splits the paths once, because every observation of a VM runs this rule. */
const STEPS = CHOICES.map((choice) => ({ ...choice, steps: choice.path.split(".") }));

export const wordsAreKnown: Rule = ({ spec, base }) =>
  STEPS.flatMap(({ steps, words, reason = "FieldValueInvalid", say }) =>
    findAll(steps, { field: base, value: spec }).flatMap(({ field, value }): readonly Cause[] => {
      if (typeof value !== "string" || value === "" || words.includes(value)) return [];
      const message = (say ?? sayWords(words))(field, value);
      return [{ reason, field, message }];
    }),
  );
