// SPDX-License-Identifier: Apache-2.0
// NetworkAttachmentDefinitions. Source: NPWG de-facto standard 1.3 section 3; the status is Patchbay's own.
import type { Static } from "typebox";
import { Type } from "../fields/schema.ts";
import type { KubeObject } from "./kubernetes/meta.ts";

export const NadSpecSchema = Type.Object({
  config: Type.Optional(Type.String({ description: "CNI configuration as JSON text." })),
});

const NODE_PROBLEM = Type.Object({
  node: Type.String({ description: "Where it was found; writer: net-agent of that node." }),
  reason: Type.String({ description: "A word, as interfaces have it that wait for it." }),
  message: Type.String({ description: "What is wrong, and what can be done." }),
  generation: Type.Integer({ description: "Of the definition that was judged." }),
});

export const NadStatusSchema = Type.Object({
  problems: Type.Optional(
    Type.Array(NODE_PROBLEM, {
      description: "By node; absent where none is known. Ten nodes at most tell theirs.",
      "x-kubernetes-list-type": "map",
      "x-kubernetes-list-map-keys": ["node"],
    }),
  ),
});

export type NodeProblem = Static<typeof NODE_PROBLEM>;

export interface NetworkAttachmentDefinition extends KubeObject {
  readonly spec?: { readonly config?: string };
  /** Always unset if Multus installed the CRD. */
  readonly status?: Static<typeof NadStatusSchema>;
}
