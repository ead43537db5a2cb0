// SPDX-License-Identifier: Apache-2.0
// NetworkAttachmentDefinitions, with a status that Patchbay adds. Source: NPWG de-facto standard 1.3 section 3.
import type { Static } from "typebox";
import { Type } from "../fields/schema.ts";
import type { KubeObject } from "./kubernetes/meta.ts";

export const NadSpecSchema = Type.Object({
  config: Type.Optional(Type.String({ description: "CNI configuration as JSON text." })),
});

const NODE_PROBLEM = Type.Object({
  node: Type.String({ description: "Node with the problem; writer: its net-agent." }),
  reason: Type.String({ description: "Reason in CamelCase, equal to that of waiting interfaces." }),
  message: Type.String({ description: "Cause and remedy." }),
  generation: Type.Integer({ description: "Generation of the checked definition." }),
});

export const NadStatusSchema = Type.Object({
  problems: Type.Optional(
    Type.Array(NODE_PROBLEM, {
      description: "Problems by node, of at most ten nodes; absent if none is known.",
      "x-kubernetes-list-type": "map",
      "x-kubernetes-list-map-keys": ["node"],
    }),
  ),
});

export type NodeProblem = Static<typeof NODE_PROBLEM>;

export interface NetworkAttachmentDefinition extends KubeObject {
  readonly spec?: { readonly config?: string };
  /** Unset if Multus installed the CRD, because Multus' CRD defines no status. */
  readonly status?: Static<typeof NadStatusSchema>;
}
