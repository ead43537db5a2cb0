// SPDX-License-Identifier: Apache-2.0
// How vCPUs are arranged. Source of the rows: KubeVirt pkg/instancetype/apply/cpu.go.
import type { PreferenceSpec } from "@patchbay/api";
import { expect, test } from "vitest";
import { findSpreadCauses, chooseTopology } from "./topology.ts";

type Cpu = NonNullable<PreferenceSpec["cpu"]>;

const spread = (spreadOptions: NonNullable<Cpu["spreadOptions"]> = {}): Cpu => ({
  preferredCPUTopology: "spread",
  spreadOptions,
});

test.each<{ vcpus: number; cpu?: Cpu; ratio?: number; want: readonly [number, number, number] }>([
  { vcpus: 4, want: [4, 1, 1] },
  { vcpus: 4, cpu: {}, want: [4, 1, 1] },
  { vcpus: 4, cpu: { preferredCPUTopology: "sockets" }, want: [4, 1, 1] },
  { vcpus: 4, cpu: { preferredCPUTopology: "cores" }, want: [1, 4, 1] },
  { vcpus: 4, cpu: { preferredCPUTopology: "threads" }, want: [1, 1, 4] },
  { vcpus: 4, cpu: { preferredCPUTopology: "any" }, want: [4, 1, 1] },
  { vcpus: 4, cpu: { preferredCPUTopology: "preferCores" }, want: [1, 4, 1] },
  { vcpus: 4, cpu: { preferredCPUTopology: "preferThreads" }, want: [1, 1, 4] },
  { vcpus: 6, cpu: { preferredCPUTopology: "preferSpread" }, want: [3, 2, 1] },
  { vcpus: 1, cpu: { preferredCPUTopology: "cores" }, want: [1, 1, 1] },
  { vcpus: 1, cpu: spread(), want: [1, 1, 1] },
  { vcpus: 6, cpu: spread(), want: [3, 2, 1] },
  { vcpus: 6, cpu: spread(), ratio: 3, want: [2, 3, 1] },
  { vcpus: 6, cpu: spread({ ratio: 2 }), ratio: 3, want: [3, 2, 1] },
  { vcpus: 6, cpu: spread({ across: "CoresThreads" }), want: [1, 3, 2] },
  { vcpus: 12, cpu: spread({ across: "SocketsCoresThreads", ratio: 3 }), want: [2, 3, 2] },
])("distributes $vcpus vCPUs by $cpu and ratio $ratio as $want", ({ vcpus, cpu, ratio, want }) => {
  const [sockets, cores, threads] = want;
  const preference = {
    ...(cpu === undefined ? {} : { cpu }),
    ...(ratio === undefined ? {} : { preferSpreadSocketToCoreRatio: ratio }),
  };
  expect(chooseTopology(vcpus, preference)).toEqual({ sockets, cores, threads });
  expect(vcpus === 1 ? [] : findSpreadCauses(vcpus, preference)).toEqual([]);
});

const RATIO = "Spec.PreferSpreadSocketToCoreRatio or Spec.CPU.PreferSpreadOptions.Ratio of";

test.each([
  { options: {}, by: `the ${RATIO} 2 provided by the preference` },
  { options: { across: "CoresThreads" as const }, by: "the number of threads per core 2" },
  {
    options: { across: "SocketsCoresThreads" as const, ratio: 3 },
    by: `the number of threads per core 2 and ${RATIO} 3`,
  },
])("5 vCPUs cannot be spread by $options", ({ options, by }) => {
  expect(findSpreadCauses(5, { cpu: spread(options) })).toEqual([
    {
      reason: "FieldValueInvalid",
      field: "instancetype.spec.cpu.guest",
      message: `5 vCPUs provided by the instance type are not divisible by ${by}`,
    },
  ]);
});
