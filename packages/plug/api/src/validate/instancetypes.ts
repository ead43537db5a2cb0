// SPDX-License-Identifier: Apache-2.0
// Whether an instancetype or a preference may be stored, beside what its schema says. Source: KubeVirt
// pkg/instancetype/webhooks, pkg/instancetype/preference/webhooks, whose words these are.
import {
  type InstancetypeSpec,
  CPU_TOPOLOGIES,
  type PreferenceSpec,
} from "../kinds/instancetype.ts";
import type { Cause } from "../kinds/kubernetes/meta.ts";
import { causeIf } from "./rule.ts";

/** Against an instancetype. */
export function instancetypeCauses({ memory }: InstancetypeSpec): readonly Cause[] {
  const { overcommitPercent = 0, hugepages } = memory;
  return causeIf(overcommitPercent !== 0 && hugepages !== undefined, {
    reason: "FieldValueInvalid",
    field: "spec.memory.overcommitPercent",
    message:
      "spec.memory.overcommitPercent and spec.memory.hugepages should not be requested together.",
  });
}

/** Threads of a core; another number cannot be had. */
const THREADS_OF_CORE = 2;

/** Against a preference. */
export function preferenceCauses({ cpu }: PreferenceSpec): readonly Cause[] {
  const { preferredCPUTopology = "sockets", spreadOptions = {} } = cpu ?? {};
  const isSpread = CPU_TOPOLOGIES[preferredCPUTopology] === "spread";
  const { across, ratio = THREADS_OF_CORE } = spreadOptions;
  return causeIf(isSpread && across === "CoresThreads" && ratio !== THREADS_OF_CORE, {
    reason: "FieldValueInvalid",
    field: "spec.cpu.spreadOptions.ratio",
    message:
      "only a ratio of 2 (1 core 2 threads) is allowed when spreading vCPUs over cores and threads",
  });
}

/** What whoever writes a preference is told. */
export function preferenceWarnings({ cpu }: PreferenceSpec): readonly string[] {
  const said = cpu?.preferredCPUTopology;
  if (said === undefined || CPU_TOPOLOGIES[said] === said) return [];
  return [
    `PreferredCPUTopology ${said} is deprecated for removal in a future release, please use ${CPU_TOPOLOGIES[said]} instead`,
  ];
}
