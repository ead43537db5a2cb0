// SPDX-License-Identifier: Apache-2.0
// What the server serves with: the same for every call, so that calls differ in what is asked only.
import type { KeyedMutex } from "@patchbay/core/keyed-mutex";
import type { Clock, Logger } from "@patchbay/core/ports";
import type { Admission } from "../admission/admission.ts";
import type { Authorizer } from "../auth/authorizer.ts";
import type { Registry } from "../kinds/registry.ts";
import type { Limits, Shares } from "../limits/limits.ts";
import type { FairQueue } from "../limits/fair-queue.ts";
import type { Store } from "../storage/store.ts";
import type { WatchManners } from "../strict/watch-manners.ts";

/** One server's parts, shared by verbs and by the controllers that write as clients do. */
export interface VerbDeps {
  readonly store: Store;
  readonly registry: Registry;
  readonly admission: Admission;
  readonly authorizer: Authorizer;
  readonly clock: Clock;
  readonly logger: Logger;
  readonly watchManners: WatchManners;
  /** Held while an object is changed by printed address, or pods of a namespace are evicted. */
  readonly mutex: KeyedMutex;
  /** Who may use the processor for long. */
  readonly fairQueue: FairQueue;
  /** What each user takes of memory and connections, and how much that may be. */
  readonly shares: Shares;
  readonly limits: Limits;
  /** Network of which Services have their addresses, in CIDR form. */
  readonly serviceNetwork: string;
  /** Random names: a uid, and five characters behind generateName; and a number from 0, and below 1. */
  readonly random: {
    readonly uid: () => string;
    readonly suffix: () => string;
    readonly part: () => number;
  };
}
