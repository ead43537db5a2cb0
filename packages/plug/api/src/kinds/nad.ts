// SPDX-License-Identifier: Apache-2.0
// NetworkAttachmentDefinition. Source: NPWG de-facto standard 1.3 section 3; the status is ours.
import type { Static } from "typebox";
import { Type } from "../fields/schema.ts";
import type { KubeObject } from "./kubernetes/meta.ts";

/** What is stored of a network. */
export const NadSpecSchema = Type.Object({
  config: Type.Optional(Type.String({ description: "CNI configuration as JSON text." })),
});

const NODE_PROBLEM = Type.Object({
  node: Type.String({ description: "Where it was found; writer: net-agent of that node." }),
  reason: Type.String({ description: "A word, as interfaces have it that wait for it." }),
  message: Type.String({ description: "What is wrong, and what can be done." }),
  generation: Type.Integer({ description: "Of the definition that was judged." }),
});

/** What keeps NICs from being made of a network. */
export const NadStatusSchema = Type.Object({
  problems: Type.Optional(
    Type.Array(NODE_PROBLEM, {
      description: "By node; absent where none is known. Ten nodes at most tell theirs.",
      "x-kubernetes-list-type": "map",
      "x-kubernetes-list-map-keys": ["node"],
    }),
  ),
});

/** Why NICs of a network cannot be made on a node. */
export type NodeProblem = Static<typeof NODE_PROBLEM>;

/** A network that pods can be attached to; `spec.config` is CNI configuration as JSON text. */
export interface NetworkAttachmentDefinition extends KubeObject {
  readonly spec?: { readonly config?: string };
  /** Absent too where the kind is Multus' own. */
  readonly status?: Static<typeof NadStatusSchema>;
}
