// SPDX-License-Identifier: Apache-2.0
// One request to a subresource, as the routes see it.
import type { NadName } from "@patchbay/api";
import type { MacOwner, RandomBytes } from "@patchbay/core";
import type { Logger, Store } from "@patchbay/ports";
import type { Turns } from "../changes/races.ts";
import type { Answer } from "../http/answers.ts";

/** Who asks, as the API server tells it. */
export interface User {
  readonly name: string;
  readonly groups: readonly string[];
  /** What else the API server knows of them, by name. */
  readonly extra?: Readonly<Record<string, readonly string[]>>;
}

/** Answers whether the user may read the definition. */
export type MayReadNetwork = (user: User, nad: Required<NadName>) => Promise<boolean>;

/** A pod that a token is bound to. */
export interface TokenPod {
  readonly namespace: string;
  readonly name: string;
  readonly uid: string;
}

/** Finds the node of the pod; undefined where there is no such pod, or it has no node yet. */
export type NodeOfPod = (pod: TokenPod) => Promise<string | undefined>;

/** What every route is given. */
export interface Deps {
  readonly store: Store;
  readonly log: Logger;
  readonly randomBytes: RandomBytes;
  readonly turns: Turns;
  readonly mayReadNetwork: MayReadNetwork;
  readonly nodeOfPod: NodeOfPod;
  /** VMs, and VMIs without a VM, as far as they are known. */
  readonly listMacOwners: () => readonly MacOwner[];
}

/** One request to a subresource. */
export interface Call {
  readonly namespace: string;
  readonly name: string;
  readonly user: User;
  /** Nothing may be changed: `?dryRun=All`, or `dryRun: ["All"]` in the body. */
  readonly dryRun: boolean;
  /** The parsed body; undefined when there is none. */
  readonly body: unknown;
}

/** Answers one request to a subresource. */
export type CallHandler = (call: Call) => Promise<Answer>;
