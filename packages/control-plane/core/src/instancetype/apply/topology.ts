// SPDX-License-Identifier: Apache-2.0
// Chooses the CPU topology for an instancetype's vCPUs. Source: KubeVirt pkg/instancetype/apply/cpu.go and
// preference/validation/cpu.go.
import { CPU_TOPOLOGIES, type PreferenceSpec } from "@patchbay/api";
import type { Cause } from "@patchbay/api/kubernetes";
import type { CpuTopology } from "../../vm/spec/machine.ts";

export type PreferredTopology = (typeof CPU_TOPOLOGIES)[keyof typeof CPU_TOPOLOGIES];

const DEFAULT_RATIO = 2;
const THREADS_PER_CORE = 2;
const SINGLE_CPU: CpuTopology = { sockets: 1, cores: 1, threads: 1 };

export function findPreferredTopology(preference: PreferenceSpec | undefined): PreferredTopology {
  return CPU_TOPOLOGIES[preference?.cpu?.preferredCPUTopology ?? "sockets"];
}

export interface VcpuSpread {
  readonly across: "SocketsCores" | "CoresThreads" | "SocketsCoresThreads";
  readonly ratio: number;
}

export function findSpread(preference: PreferenceSpec | undefined): VcpuSpread {
  const olderRatio = preference?.preferSpreadSocketToCoreRatio ?? 0;
  const { across = "SocketsCores", ratio = olderRatio === 0 ? DEFAULT_RATIO : olderRatio } =
    preference?.cpu?.spreadOptions ?? {};
  return { across, ratio };
}

function buildSpreadTopology(vcpus: number, { across, ratio }: VcpuSpread): CpuTopology {
  switch (across) {
    case "SocketsCores":
      return { sockets: vcpus / ratio, cores: ratio, threads: 1 };
    case "CoresThreads":
      return { sockets: 1, cores: vcpus / ratio, threads: ratio };
    case "SocketsCoresThreads":
      return { sockets: vcpus / THREADS_PER_CORE / ratio, cores: ratio, threads: THREADS_PER_CORE };
  }
}

/** Returns the preferred topology. Callers must have checked with {@link findSpreadCauses} that it divides the vCPUs evenly. */
export function chooseTopology(vcpus: number, preference: PreferenceSpec | undefined): CpuTopology {
  if (vcpus === 1) return SINGLE_CPU;
  const preferredTopology = findPreferredTopology(preference);
  switch (preferredTopology) {
    case "spread":
      return buildSpreadTopology(vcpus, findSpread(preference));
    case "any":
      return { ...SINGLE_CPU, sockets: vcpus };
    case "sockets":
    case "cores":
    case "threads":
      return { ...SINGLE_CPU, [preferredTopology]: vcpus };
  }
}

const RATIO_FIELDS = "Spec.PreferSpreadSocketToCoreRatio or Spec.CPU.PreferSpreadOptions.Ratio of";

function describeUnevenSpread(vcpus: number, { across, ratio }: VcpuSpread): string | undefined {
  const threads = String(THREADS_PER_CORE);
  const spread = {
    SocketsCores: {
      divisor: ratio,
      text: `the ${RATIO_FIELDS} ${String(ratio)} provided by the preference`,
    },
    CoresThreads: { divisor: ratio, text: `the number of threads per core ${String(ratio)}` },
    SocketsCoresThreads: {
      divisor: THREADS_PER_CORE * ratio,
      text: `the number of threads per core ${threads} and ${RATIO_FIELDS} ${String(ratio)}`,
    },
  }[across];
  return vcpus % spread.divisor === 0 ? undefined : spread.text;
}

/** Returns a cause, with KubeVirt's message, if the preferred topology is `spread` and the vCPUs cannot be divided evenly. */
export function findSpreadCauses(
  vcpus: number,
  preference: PreferenceSpec | undefined,
): readonly Cause[] {
  if (findPreferredTopology(preference) !== "spread") return [];
  const divisor = describeUnevenSpread(vcpus, findSpread(preference));
  if (divisor === undefined) return [];
  const message = `${String(vcpus)} vCPUs provided by the instance type are not divisible by ${divisor}`;
  return [{ reason: "FieldValueInvalid", field: "instancetype.spec.cpu.guest", message }];
}
