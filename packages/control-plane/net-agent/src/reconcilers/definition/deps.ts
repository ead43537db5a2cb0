// SPDX-License-Identifier: Apache-2.0
import type { Files } from "@patchbay/core/interfaces";
import type { Deps } from "../../deps.ts";
import type { NodeView } from "./node-view.ts";

export interface CheckDeps extends Pick<
  Deps,
  | "store"
  | "pods"
  | "nads"
  | "definitionFiles"
  | "readDefaultNetwork"
  | "policy"
  | "listOwnBridges"
  | "listNodeSubnets"
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
  readonly fullLeaseDirectories: readonly string[];
  readonly reported: string | undefined;
  /** Whether definitions have no status subresource, as with the CRD of Multus. */
  readonly isWithoutStatus: boolean;
  /** Monotonic time in ms at which the status first had outdated problems of other nodes. Undefined if it has none. */
  readonly staleSinceMs: number | undefined;
  /** Monotonic time in ms at which this agent last checked whether the other nodes in the status exist; undefined if it never did. */
  readonly nodesReadMs: number | undefined;
}
