// SPDX-License-Identifier: Apache-2.0
// One request to a subresource, as the routes see it.
import type { MacOwner, RandomBytes } from "@patchbay/core";
import type { Logger, Store } from "@patchbay/ports";
import type { Answer } from "./status.ts";

/** What every route is given. */
export interface Deps {
  readonly store: Store;
  readonly log: Logger;
  readonly randomBytes: RandomBytes;
  /** VMs, and VMIs without a VM, as far as they are known. */
  readonly listMacOwners: () => readonly MacOwner[];
}

/** One request to a subresource. */
export interface Call {
  readonly namespace: string;
  readonly name: string;
  /** Name of the user, as the API server tells it. */
  readonly user: string;
  /** Nothing may be changed: `?dryRun=All`, or `dryRun: ["All"]` in the body. */
  readonly dryRun: boolean;
  /** The parsed body; undefined when there is none. */
  readonly body: unknown;
}

/** Answers one request to a subresource. */
export type CallHandler = (call: Call) => Promise<Answer>;
