// SPDX-License-Identifier: Apache-2.0
// Conditions, as the kinds of KubeVirt have them.
import { Type } from "../fields/schema.ts";

/** Conditions of a VM, a VMI, a migration or the cluster; `lastProbeTime` is null where others wrote it so. */
export const CONDITIONS_SCHEMA = Type.Array(
  Type.Object({
    type: Type.String(),
    status: Type.Unsafe<"True" | "False" | "Unknown">({
      type: "string",
      enum: ["True", "False", "Unknown"],
    }),
    reason: Type.Optional(Type.String()),
    message: Type.Optional(Type.String()),
    lastProbeTime: Type.Optional(Type.Unsafe<string | null>({ type: "string", nullable: true })),
    lastTransitionTime: Type.Optional(Type.String()),
  }),
);
