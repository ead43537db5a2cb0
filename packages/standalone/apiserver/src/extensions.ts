// SPDX-License-Identifier: Apache-2.0
import type { Admission } from "./admission/admission.ts";
import type { Authorizer } from "./auth/authorizer.ts";
import type { Registry } from "./kinds/registry.ts";
import type { WatchBehavior } from "./verbs/watch/watch-behavior.ts";

export interface AdmissionDeps {
  readonly authorizer: Pick<Authorizer, "authorize">;
  readonly registry: Pick<Registry, "findByKind">;
}

export interface ServerExtensions {
  readonly wrapAdmission?: (admission: Admission, deps: AdmissionDeps) => Admission;
  /** Returns the behavior of watches. `startRevision` is the store's revision when the server started. */
  readonly makeWatchBehavior?: (startRevision: number) => WatchBehavior;
}
