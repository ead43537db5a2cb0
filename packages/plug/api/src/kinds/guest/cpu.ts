// SPDX-License-Identifier: Apache-2.0
// Processors of the guest. Source: KubeVirt api/core/v1 schema.go, type CPU.
import { Type } from "../../fields/schema.ts";
import { CPU_FIELDS } from "../../fields/guest-fields.ts";

/** A feature of a processor, by name. */
export const CpuFeatureSchema = Type.Object(
  {
    name: Type.String({ description: "Name of the feature, for example apic." }),
    policy: Type.Optional(
      Type.String({
        description: "force, require, optional, disable or forbid; require when absent.",
      }),
    ),
  },
  { description: "One feature." },
);

/** `spec.domain.cpu`. */
export const CpuSchema = Type.Object(
  {
    cores: Type.Optional(Type.Integer({ minimum: 1, description: "Cores of each socket." })),
    sockets: Type.Optional(Type.Integer({ minimum: 1, description: "Sockets." })),
    threads: Type.Optional(Type.Integer({ minimum: 1, description: "Threads of each core." })),
    model: Type.Optional(
      Type.String({
        description:
          "Model that the guest sees: host-model, host-passthrough, or a name as libvirt has it; host-model when absent.",
      }),
    ),
    features: Type.Optional(
      Type.Array(CpuFeatureSchema, { description: "Features that the guest has or lacks." }),
    ),
    ...CPU_FIELDS,
  },
  { description: "Virtual processors." },
);
