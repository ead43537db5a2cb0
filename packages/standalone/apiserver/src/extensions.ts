// SPDX-License-Identifier: Apache-2.0
import type { Admission } from "./admission/admission.ts";
import type { Authorizer } from "./auth/authorizer.ts";
import type { Registry } from "./kinds/registry.ts";
import type { WatchBehavior } from "./verbs/watch/watch-behavior.ts";

export interface AdmissionDeps {
  readonly authorizer: Pick<Authorizer, "authorize">;
  readonly registry: Pick<Registry, "findByKind">;
}

/** Behavior beyond that of the server itself. */
export interface ServerExtensions {
  /** Returns admission with additional steps around the server's own. */
  readonly wrapAdmission?: (admission: Admission, deps: AdmissionDeps) => Admission;
  /** `startRevision` is the store's when the server starts. */
  readonly makeWatchBehavior?: (startRevision: number) => WatchBehavior;
}
