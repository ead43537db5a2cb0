// SPDX-License-Identifier: Apache-2.0
// Validation of instancetypes and preferences beyond their schemas, with KubeVirt's messages. Source: KubeVirt
// pkg/instancetype/webhooks, pkg/instancetype/preference/webhooks.
import {
  type InstancetypeSpec,
  CPU_TOPOLOGIES,
  type PreferenceSpec,
} from "../kinds/instancetype.ts";
import type { Cause } from "../kinds/kubernetes/meta.ts";
import { causeIf } from "./rule.ts";

export function validateInstancetype({ memory }: InstancetypeSpec): readonly Cause[] {
  const { overcommitPercent = 0, hugepages } = memory;
  return causeIf(overcommitPercent !== 0 && hugepages !== undefined, {
    reason: "FieldValueInvalid",
    field: "spec.memory.overcommitPercent",
    message:
      "spec.memory.overcommitPercent and spec.memory.hugepages should not be requested together.",
  });
}

const THREADS_PER_CORE = 2;

export function validatePreference({ cpu }: PreferenceSpec): readonly Cause[] {
  const { preferredCPUTopology = "sockets", spreadOptions = {} } = cpu ?? {};
  const isSpread = CPU_TOPOLOGIES[preferredCPUTopology] === "spread";
  const { across, ratio = THREADS_PER_CORE } = spreadOptions;
  return causeIf(isSpread && across === "CoresThreads" && ratio !== THREADS_PER_CORE, {
    reason: "FieldValueInvalid",
    field: "spec.cpu.spreadOptions.ratio",
    message:
      "only a ratio of 2 (1 core 2 threads) is allowed when spreading vCPUs over cores and threads",
  });
}

export function preferenceWarnings({ cpu }: PreferenceSpec): readonly string[] {
  const topology = cpu?.preferredCPUTopology;
  if (topology === undefined || CPU_TOPOLOGIES[topology] === topology) return [];
  return [
    `PreferredCPUTopology ${topology} is deprecated for removal in a future release, please use ${CPU_TOPOLOGIES[topology]} instead`,
  ];
}
