// SPDX-License-Identifier: Apache-2.0
// What a cluster has that says nothing of launchers and has no claims.
import {
  networkConfigOf,
  overcommitConfigOf,
  storageConfigOf,
  type PersistentVolumeClaim,
} from "@patchbay/api";
import type { LauncherSettings } from "../plan/pod/launcher-pod.ts";
import type { StorageFacts } from "../plan/vm/storage.ts";

/** Emulated guests, images as volumes. */
export const SETTINGS: LauncherSettings = {
  image: "launcher",
  useEmulation: true,
  logsConsoles: true,
  sidecarShimImage: "sidecar-shim",
  keepsImageVolumes: true,
  overcommit: overcommitConfigOf(undefined),
};

/** No claims. */
export const NO_STORAGE: StorageFacts = {
  claims: new Map(),
  config: storageConfigOf(undefined),
};

/** Of a cluster that says nothing. */
export const CLUSTER = {
  network: networkConfigOf(undefined),
  storage: NO_STORAGE,
  definitions: new Map(),
  absences: new Map(),
} as const;

/** A claim that is bound, of 1 GiB. */
export function aClaim(
  name: string,
  more: Partial<Pick<PersistentVolumeClaim, "spec" | "status">> & {
    readonly metadata?: Partial<PersistentVolumeClaim["metadata"]>;
  } = {},
): PersistentVolumeClaim {
  const { metadata, ...others } = more;
  return {
    apiVersion: "v1",
    kind: "PersistentVolumeClaim",
    metadata: { name, namespace: "default", ...metadata },
    spec: { resources: { requests: { storage: "1Gi" } } },
    status: { phase: "Bound", capacity: { storage: "1Gi" } },
    ...others,
  };
}
