// SPDX-License-Identifier: Apache-2.0
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
  /** Kinds of the definition's links by name. The kind of a missing link is undefined. */
  readonly links: ReadonlyMap<string, string | undefined>;
  /** Whether guests cannot use the network. If true, changes of requesting pods trigger a new check. */
  readonly isUnfitForGuests: boolean;
  readonly fullLeaseDirectories: readonly string[];
  readonly reported: string | undefined;
  /** Whether definitions have no status subresource, as with the CRD of Multus. */
  readonly isWithoutStatus: boolean;
  /** Monotonic ms when the status first had outdated problems of other nodes; undefined if none. */
  readonly staleSinceMs: number | undefined;
  /** Monotonic ms of the last lookup of the status' other nodes; undefined before the first lookup. */
  readonly nodesReadMs: number | undefined;
}
