// SPDX-License-Identifier: Apache-2.0
// Whether a VM has what its preference asks for. Source: KubeVirt pkg/instancetype/preference/requirements, whose words
// these are.
import { parseQuantity, type Cause, type PreferenceSpec, type VmiSpec } from "@patchbay/api";
import { preferredTopologyOf, spreadOf } from "./apply/topology.ts";
import type { Parts } from "./parts.ts";

const DEFAULT_ARCHITECTURE = "amd64";
const DOMAIN = "spec.template.spec.domain";

type Requirements = NonNullable<PreferenceSpec["requirements"]>;
/** What is missing, and which fields say it. */
interface Lack {
  readonly fields: readonly string[];
  readonly message: string;
}
type Counted = "sockets" | "cores" | "threads";

const OF_SPREAD = {
  SocketsCores: ["sockets", "cores"],
  CoresThreads: ["cores", "threads"],
  SocketsCoresThreads: ["sockets", "cores", "threads"],
} as const satisfies Readonly<Record<string, readonly Counted[]>>;

/** Which counts of the template are multiplied, and how they are called. */
function countedBy(preference: PreferenceSpec): {
  readonly counts: readonly Counted[];
  readonly words: string;
} {
  const liked = preferredTopologyOf(preference);
  if (liked === "any")
    return { counts: ["cores", "sockets", "threads"], words: "cores, sockets and threads" };
  if (liked !== "spread") return { counts: [liked], words: liked };
  const { across } = spreadOf(preference);
  return { counts: OF_SPREAD[across], words: across };
}

function lackOfOwnCpus(
  least: number,
  { domain }: VmiSpec,
  preference: PreferenceSpec,
): Lack | undefined {
  const { cpu } = domain;
  if (cpu === undefined) {
    const message = `no CPU resources provided by VirtualMachine, preference requires ${String(least)} vCPU`;
    return { fields: [`${DOMAIN}.cpu`], message };
  }
  const { counts, words } = countedBy(preference);
  const vcpus = counts.reduce((product, count) => product * (cpu[count] ?? 0), 1);
  if (vcpus >= least) return undefined;
  const message = `insufficient CPU resources of ${String(vcpus)} vCPU provided by VirtualMachine, preference requires ${String(least)} vCPU provided as ${words}`;
  return { fields: counts.map((count) => `${DOMAIN}.cpu.${count}`), message };
}

function lackOfCpus(
  { cpu }: Requirements,
  { instancetype, preference = {} }: Parts,
  spec: VmiSpec,
): Lack | undefined {
  if (cpu === undefined) return undefined;
  if (instancetype === undefined) return lackOfOwnCpus(cpu.guest, spec, preference);
  const { guest } = instancetype.cpu;
  if (guest >= cpu.guest) return undefined;
  const message = `insufficient CPU resources of ${String(guest)} vCPU provided by instance type, preference requires ${String(cpu.guest)} vCPU`;
  return { fields: ["spec.instancetype"], message };
}

function lackOfMemory(
  { memory }: Requirements,
  { instancetype }: Parts,
  { domain }: VmiSpec,
): Lack | undefined {
  const has = instancetype?.memory.guest ?? domain.memory?.guest;
  if (memory === undefined || has === undefined) return undefined;
  if ((parseQuantity(has) ?? 0) >= (parseQuantity(memory.guest) ?? 0)) return undefined;
  const [fields, by] =
    instancetype === undefined
      ? [[`${DOMAIN}.memory`], "VirtualMachine"]
      : [["spec.instancetype"], "instance type"];
  const message = `insufficient Memory resources of ${String(has)} provided by ${by}, preference requires ${String(memory.guest)}`;
  return { fields, message };
}

function lackOfArchitecture({ architecture }: Requirements, spec: VmiSpec): Lack | undefined {
  if (architecture === undefined) return undefined;
  const asked = spec.architecture;
  const has = typeof asked === "string" && asked !== "" ? asked : DEFAULT_ARCHITECTURE;
  if (has === architecture) return undefined;
  const message = `preference requires architecture ${architecture} but ${has} is being requested`;
  return { fields: ["spec.template.spec.architecture"], message };
}

/** What a VM lacks of what its preference asks for; `spec` is the template's, without its parts but for the architecture. */
export function requirementCauses(parts: Parts, spec: VmiSpec): readonly Cause[] {
  const asked = parts.preference?.requirements;
  if (asked === undefined) return [];
  const lacks = [
    lackOfCpus(asked, parts, spec),
    lackOfMemory(asked, parts, spec),
    lackOfArchitecture(asked, spec),
  ];
  return lacks.flatMap((lack) =>
    (lack?.fields ?? []).map((field) => ({
      reason: "FieldValueInvalid" as const,
      field,
      message: `failure checking preference requirements: ${lack?.message ?? ""}`,
    })),
  );
}
