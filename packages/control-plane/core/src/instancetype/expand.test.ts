// SPDX-License-Identifier: Apache-2.0
// What a preference asks of a VM. Source of the rows: KubeVirt pkg/instancetype/preference/requirements.
import type { InstancetypeSpec, PreferenceSpec, VmiSpec } from "@patchbay/api";
import { expect, test } from "vitest";
import { listRequirementCauses } from "./expand.ts";

const TWO: InstancetypeSpec = { cpu: { guest: 2 }, memory: { guest: "1Gi" } };
const DOMAIN = "spec.template.spec.domain";
const FOUR = { requirements: { cpu: { guest: 4 } } };
const likes = (preferredCPUTopology: "cores" | "threads" | "any" | "spread"): PreferenceSpec => ({
  ...FOUR,
  cpu: { preferredCPUTopology },
});

interface Row {
  readonly name: string;
  readonly instancetype?: InstancetypeSpec;
  readonly preference: PreferenceSpec;
  readonly spec?: VmiSpec;
  readonly fields: readonly string[];
  readonly message?: string;
}

const ROWS: readonly Row[] = [
  { name: "no requirements", preference: {}, fields: [] },
  {
    name: "enough vCPUs",
    instancetype: TWO,
    preference: { requirements: { cpu: { guest: 2 } } },
    fields: [],
  },
  {
    name: "too few vCPUs in the instancetype",
    instancetype: TWO,
    preference: FOUR,
    fields: ["spec.instancetype"],
    message:
      "insufficient CPU resources of 2 vCPU provided by instance type, preference requires 4 vCPU",
  },
  {
    name: "no vCPUs in the VM",
    preference: FOUR,
    fields: [`${DOMAIN}.cpu`],
    message: "no CPU resources provided by VirtualMachine, preference requires 4 vCPU",
  },
  {
    name: "too few sockets",
    preference: FOUR,
    spec: { domain: { cpu: { sockets: 2, cores: 2 } } },
    fields: [`${DOMAIN}.cpu.sockets`],
    message:
      "insufficient CPU resources of 2 vCPU provided by VirtualMachine, preference requires 4 vCPU provided as sockets",
  },
  {
    name: "enough cores",
    preference: likes("cores"),
    spec: { domain: { cpu: { cores: 4 } } },
    fields: [],
  },
  {
    name: "too few threads",
    preference: likes("threads"),
    spec: { domain: { cpu: { cores: 4 } } },
    fields: [`${DOMAIN}.cpu.threads`],
    message:
      "insufficient CPU resources of 0 vCPU provided by VirtualMachine, preference requires 4 vCPU provided as threads",
  },
  {
    name: "any topology",
    preference: likes("any"),
    spec: { domain: { cpu: { sockets: 2, cores: 2, threads: 1 } } },
    fields: [],
  },
  {
    name: "too few vCPUs with any topology",
    preference: likes("any"),
    spec: { domain: { cpu: { sockets: 1, cores: 2, threads: 1 } } },
    fields: ["cores", "sockets", "threads"].map((count) => `${DOMAIN}.cpu.${count}`),
    message:
      "insufficient CPU resources of 2 vCPU provided by VirtualMachine, preference requires 4 vCPU provided as cores, sockets and threads",
  },
  {
    name: "too few vCPUs with topology spread",
    preference: likes("spread"),
    spec: { domain: { cpu: { sockets: 1, cores: 2 } } },
    fields: [`${DOMAIN}.cpu.sockets`, `${DOMAIN}.cpu.cores`],
    message:
      "insufficient CPU resources of 2 vCPU provided by VirtualMachine, preference requires 4 vCPU provided as SocketsCores",
  },
  {
    name: "too little memory in the instancetype",
    instancetype: TWO,
    preference: { requirements: { memory: { guest: "2Gi" } } },
    fields: ["spec.instancetype"],
    message:
      "insufficient Memory resources of 1Gi provided by instance type, preference requires 2Gi",
  },
  {
    name: "too little memory in the VM",
    preference: { requirements: { memory: { guest: "2Gi" } } },
    spec: { domain: { memory: { guest: "512Mi" } } },
    fields: [`${DOMAIN}.memory`],
    message:
      "insufficient Memory resources of 512Mi provided by VirtualMachine, preference requires 2Gi",
  },
  {
    name: "memory with a different unit",
    instancetype: TWO,
    preference: { requirements: { memory: { guest: "1024Mi" } } },
    fields: [],
  },
  {
    name: "another architecture",
    preference: { requirements: { architecture: "arm64" } },
    fields: ["spec.template.spec.architecture"],
    message: "preference requires architecture arm64 but amd64 is being requested",
  },
  {
    name: "the required architecture",
    preference: { requirements: { architecture: "amd64" } },
    fields: [],
  },
];

test.each(ROWS)("$name", ({ instancetype, preference, spec = { domain: {} }, fields, message }) => {
  const specs = { preference, ...(instancetype === undefined ? {} : { instancetype }) };
  expect(listRequirementCauses(specs, spec)).toEqual(
    fields.map((field) => ({
      reason: "FieldValueInvalid",
      field,
      message: `failure checking preference requirements: ${message ?? ""}`,
    })),
  );
});
