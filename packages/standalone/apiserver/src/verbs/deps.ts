// SPDX-License-Identifier: Apache-2.0
import type { KeyedMutex, Clock, Logger } from "@patchbay/base";

import type { Admission } from "../admission/admission.ts";
import type { Authorizer } from "../auth/authorizer.ts";
import type { Registry } from "../kinds/registry.ts";
import type { Limits, UserQuotas } from "../limits/limits.ts";
import type { FairQueue } from "../limits/fair-queue.ts";
import type { Store } from "../storage/store.ts";
import type { WatchBehavior } from "./watch/watch-behavior.ts";

/** Parts of the server that are the same for all calls. Verbs and controllers share them. */
export interface VerbDeps {
  readonly store: Store;
  readonly registry: Registry;
  readonly admission: Admission;
  readonly authorizer: Authorizer;
  readonly clock: Clock;
  readonly logger: Logger;
  readonly watchBehavior: WatchBehavior;
  /** Keys: an object's printed address during conflicting updates, or the evictions of a namespace. */
  readonly mutex: KeyedMutex;
  readonly fairQueue: FairQueue;
  /** Memory and connections in use by each user, and their limits. */
  readonly quotas: UserQuotas;
  readonly limits: Limits;
  readonly serviceNetwork: string;
  /** `uid` returns a UID, `suffix` five characters for generateName, `part` a number from 0 up to but not including 1. */
  readonly random: {
    readonly uid: () => string;
    readonly suffix: () => string;
    readonly part: () => number;
  };
}
