// SPDX-License-Identifier: Apache-2.0
// Dependencies and state of the loop over definitions.
import type { Files } from "@patchbay/core/interfaces";
import type { Deps } from "../../deps.ts";
import type { NodeView } from "./node-view.ts";

export interface CheckDeps extends Pick<
  Deps,
  "store" | "pods" | "nads" | "definitionFiles" | "readDefaultNetwork" | "policy" | "listOwnBridges"
> {
  readonly node: NodeView;
  readonly files: Pick<Files, "list">;
}

export interface DefinitionDeps extends CheckDeps, Pick<Deps, "events" | "clock" | "log"> {
  readonly nodeName: string;
  /** Results of the last checks, by NAMESPACE/NAME. */
  readonly checked: Map<string, CheckedDefinition>;
}

export interface CheckedDefinition {
  readonly uid: string | undefined;
  readonly reasons: readonly string[];
  /** Kinds of the links that the definition names, by link name; undefined for a missing link. */
  readonly links: ReadonlyMap<string, string | undefined>;
  /** Whether guests cannot use the network. The check then depends on which pods request it. */
  readonly isUnfitForGuests: boolean;
  /** Full lease directories. A lease must be released in them before a NIC can be created. */
  readonly exhausted: readonly string[];
  readonly reported: string | undefined;
  /** Whether the kind has no status subresource, like the CRD of Multus. */
  readonly isWithoutStatus: boolean;
  /** Monotonic time in milliseconds since which other nodes' entries refer to an older version of the definition. */
  readonly staleSinceMs: number | undefined;
  /** Monotonic time of the last lookup of the nodes of other entries, in milliseconds; undefined before the first. */
  readonly nodesReadMs: number | undefined;
}
