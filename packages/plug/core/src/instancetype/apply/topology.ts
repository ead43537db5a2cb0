// SPDX-License-Identifier: Apache-2.0
// How the processors of an instancetype are arranged: as the preference likes them. Source: KubeVirt
// pkg/instancetype/apply/cpu.go, pkg/instancetype/preference/validation/cpu.go.
import { CPU_TOPOLOGIES, type Cause, type PreferenceSpec } from "@patchbay/api";
import type { CpuTopology } from "../../spec/machine.ts";

/** What is liked. */
export type PreferredTopology = (typeof CPU_TOPOLOGIES)[keyof typeof CPU_TOPOLOGIES];

const DEFAULT_RATIO = 2;
const THREADS_OF_CORE = 2;
const ONE_EACH: CpuTopology = { sockets: 1, cores: 1, threads: 1 };

/** What is liked; sockets where nothing is said. */
export function preferredTopologyOf(preference: PreferenceSpec | undefined): PreferredTopology {
  return CPU_TOPOLOGIES[preference?.cpu?.preferredCPUTopology ?? "sockets"];
}

/** Where vCPUs are spread, and by how many. */
export interface Spread {
  readonly across: "SocketsCores" | "CoresThreads" | "SocketsCoresThreads";
  readonly ratio: number;
}

/** Cores of each socket by two, where nothing is said. */
export function spreadOf(preference: PreferenceSpec | undefined): Spread {
  const older = preference?.preferSpreadSocketToCoreRatio ?? 0;
  const { across = "SocketsCores", ratio = older === 0 ? DEFAULT_RATIO : older } =
    preference?.cpu?.spreadOptions ?? {};
  return { across, ratio };
}

function spreadTopology(vcpus: number, { across, ratio }: Spread): CpuTopology {
  switch (across) {
    case "SocketsCores":
      return { sockets: vcpus / ratio, cores: ratio, threads: 1 };
    case "CoresThreads":
      return { sockets: 1, cores: vcpus / ratio, threads: ratio };
    case "SocketsCoresThreads":
      return { sockets: vcpus / THREADS_OF_CORE / ratio, cores: ratio, threads: THREADS_OF_CORE };
  }
}

/** So many vCPUs as they are liked; what cannot be spread evenly `spreadCauses` refuses. */
export function topologyOf(vcpus: number, preference: PreferenceSpec | undefined): CpuTopology {
  if (vcpus === 1) return ONE_EACH;
  const liked = preferredTopologyOf(preference);
  switch (liked) {
    case "spread":
      return spreadTopology(vcpus, spreadOf(preference));
    case "any":
      return { ...ONE_EACH, sockets: vcpus };
    case "sockets":
    case "cores":
    case "threads":
      return { ...ONE_EACH, [liked]: vcpus };
  }
}

const RATIO = "Spec.PreferSpreadSocketToCoreRatio or Spec.CPU.PreferSpreadOptions.Ratio of";

function uneven(vcpus: number, { across, ratio }: Spread): string | undefined {
  const threads = String(THREADS_OF_CORE);
  const by = {
    SocketsCores: {
      count: ratio,
      words: `the ${RATIO} ${String(ratio)} provided by the preference`,
    },
    CoresThreads: { count: ratio, words: `the number of threads per core ${String(ratio)}` },
    SocketsCoresThreads: {
      count: THREADS_OF_CORE * ratio,
      words: `the number of threads per core ${threads} and ${RATIO} ${String(ratio)}`,
    },
  }[across];
  return vcpus % by.count === 0 ? undefined : by.words;
}

/** Whether so many vCPUs can be spread as they are liked. Source: KubeVirt, whose words these are. */
export function spreadCauses(
  vcpus: number,
  preference: PreferenceSpec | undefined,
): readonly Cause[] {
  if (preferredTopologyOf(preference) !== "spread") return [];
  const by = uneven(vcpus, spreadOf(preference));
  if (by === undefined) return [];
  const message = `${String(vcpus)} vCPUs provided by the instance type are not divisible by ${by}`;
  return [{ reason: "FieldValueInvalid", field: "instancetype.spec.cpu.guest", message }];
}
