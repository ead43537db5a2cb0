// SPDX-License-Identifier: Apache-2.0
// Dependencies and state of the loop over NetworkAttachmentDefinitions.
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
  readonly checkedDefinitions: Map<string, CheckedDefinition>;
}

export interface CheckedDefinition {
  readonly uid: string | undefined;
  readonly reasons: readonly string[];
  /** Kinds of the links that the definition names, by link name. The kind of a missing link is undefined. */
  readonly links: ReadonlyMap<string, string | undefined>;
  /** Whether guests cannot use the network. If true, each change of a pod that requests the network triggers a new check. */
  readonly isUnfitForGuests: boolean;
  /** Lease directories without a free address. */
  readonly fullLeaseDirectories: readonly string[];
  readonly reported: string | undefined;
  /** Whether the kind has no status subresource, as in the CRD of Multus. */
  readonly isWithoutStatus: boolean;
  /** Monotonic time, in ms, at which other nodes' entries for an older definition were first found. Undefined if there are none. */
  readonly staleSinceMs: number | undefined;
  /** Monotonic time of the last lookup of other nodes, in milliseconds; undefined before the first lookup. */
  readonly nodesReadMs: number | undefined;
}
