// SPDX-License-Identifier: Apache-2.0
import type { KeyedMutex, Clock, Logger } from "@patchbay/base";

import type { Admission } from "../admission/admission.ts";
import type { Authorizer } from "../auth/authorizer.ts";
import type { Registry } from "../kinds/registry.ts";
import type { Limits, UserQuotas } from "../limits/limits.ts";
import type { ResourceQuotas } from "../limits/resource-quotas.ts";
import type { FairQueue } from "../limits/fair-queue.ts";
import type { Store } from "../storage/store.ts";
import type { WatchBehavior } from "./watch/watch-behavior.ts";

export interface VerbDeps {
  readonly store: Store;
  readonly registry: Registry;
  readonly admission: Admission;
  readonly authorizer: Authorizer;
  readonly clock: Clock;
  readonly logger: Logger;
  readonly watchBehavior: WatchBehavior;
  /** Serializes conflicting updates of an object, and evictions in a namespace. */
  readonly mutex: KeyedMutex;
  readonly fairQueue: FairQueue;
  readonly quotas: UserQuotas;
  readonly resourceQuotas: ResourceQuotas;
  readonly limits: Limits;
  readonly serviceNetwork: string;
  /** Random values. `suffix` returns five characters for generateName; `fraction` returns a number that is at least 0 and less than 1. */
  readonly random: {
    readonly uid: () => string;
    readonly suffix: () => string;
    readonly fraction: () => number;
  };
}
