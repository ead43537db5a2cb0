// SPDX-License-Identifier: Apache-2.0
// Data of users that pods are given. Source: Kubernetes core/v1 ConfigMap, Secret.
import type { KubeObject } from "./meta.ts";

/** Configuration in the open. */
export interface ConfigMap extends KubeObject {
  readonly data?: Readonly<Record<string, string>>;
  /** Base64. */
  readonly binaryData?: Readonly<Record<string, string>>;
}

/** Configuration that not everybody may read. */
export interface Secret extends KubeObject {
  /** Base64. */
  readonly data?: Readonly<Record<string, string>>;
  readonly type?: string;
}
