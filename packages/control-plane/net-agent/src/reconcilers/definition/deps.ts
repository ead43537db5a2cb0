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
  /** Guests cannot use it, so the check depends on which pods request it. */
  readonly isUnfitForGuests: boolean;
  /** Lease directories that are full, where a lease must be released before a NIC can be created. */
  readonly exhausted: readonly string[];
  readonly reported: string | undefined;
  /** The kind has no status subresource, like Multus' own CRD. */
  readonly isWithoutStatus: boolean;
  /** Since when other nodes' entries refer to an older version of the definition, monotonic milliseconds. */
  readonly staleSinceMs: number | undefined;
  /** When the nodes of other entries were last looked up, monotonic milliseconds; undefined for never. */
  readonly nodesReadMs: number | undefined;
}
