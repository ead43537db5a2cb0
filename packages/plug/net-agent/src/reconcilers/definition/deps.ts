// SPDX-License-Identifier: Apache-2.0
// What does the loop over definitions work with?
import type { Files } from "@patchbay/core/ports";
import type { Deps } from "../../deps.ts";
import type { NodeView } from "./node-view.ts";

/** What a definition is judged by. */
export interface JudgeDeps extends Pick<
  Deps,
  "store" | "pods" | "nads" | "definitionFiles" | "readDefaultNetwork" | "policy" | "listOwnBridges"
> {
  readonly node: NodeView;
  readonly files: Pick<Files, "list">;
}

/** And who is told. */
export interface DefinitionDeps extends JudgeDeps, Pick<Deps, "events" | "clock" | "log"> {
  readonly nodeName: string;
  /** What was found of definitions, by NAMESPACE/NAME. */
  readonly judged: Map<string, Judged>;
}

/** What is remembered of a definition that is there. */
export interface Judged {
  readonly uid: string | undefined;
  /** Reasons of everything that was found, also of what the policy only warns of. */
  readonly reasons: readonly string[];
  /** Kinds that the links had which it names, by name; undefined: there was none. */
  readonly links: ReadonlyMap<string, string | undefined>;
  /** Guests cannot use it, so that it matters who asks for it. */
  readonly isUnfitForGuests: boolean;
  /** Directories in which something must go before a NIC can be made. */
  readonly exhausted: readonly string[];
  /** What was told of it; undefined: nothing. */
  readonly told: string | undefined;
  /** Its kind keeps no status, as that of Multus. */
  readonly isWithoutStatus: boolean;
  /** Since when others' entries have been of an older text, by the monotonic clock. */
  readonly staleSinceMs: number | undefined;
  /** When it was last asked whether the nodes are there that others' entries name, by the monotonic clock; undefined: never. */
  readonly nodesAskedMs: number | undefined;
}
