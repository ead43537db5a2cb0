// SPDX-License-Identifier: Apache-2.0
// NetworkAttachmentDefinition. Source: NPWG de-facto standard 1.3 section 3.
import type { KubeObject } from "./kubernetes/meta.ts";

/** A network that pods can be attached to; `spec.config` is CNI configuration as JSON text. */
export interface NetworkAttachmentDefinition extends KubeObject {
  readonly spec?: { readonly config?: string };
}
