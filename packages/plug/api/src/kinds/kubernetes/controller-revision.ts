// SPDX-License-Identifier: Apache-2.0
// ControllerRevision: what something was once. Source: Kubernetes apps/v1.
import type { KubeObject } from "./meta.ts";

/** Immutable; what `data` is, its labels tell. */
export interface ControllerRevision extends KubeObject {
  readonly data?: unknown;
  readonly revision: number;
}
