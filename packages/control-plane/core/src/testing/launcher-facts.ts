// SPDX-License-Identifier: Apache-2.0
// Facts about a cluster with default settings.
import {
  networkConfigOf,
  readOvercommitConfig,
  readStorageConfig,
  type IpamClaim,
} from "@patchbay/api";
import type { PersistentVolumeClaim } from "@patchbay/api/kubernetes";
import { VM_OWNER } from "@patchbay/support";
import type { LauncherSettings } from "../vm/pod/launcher-pod.ts";
import type { StorageFacts } from "../vm/storage.ts";

export const SETTINGS: LauncherSettings = {
  image: "launcher",
  useEmulation: true,
  logsConsoles: true,
  sidecarShimImage: "sidecar-shim",
  supportsImageVolumes: true,
  overcommit: readOvercommitConfig(undefined),
};

export const NO_STORAGE: StorageFacts = {
  claims: new Map(),
  config: readStorageConfig(undefined),
};

export const CLUSTER = {
  network: networkConfigOf(undefined),
  storage: NO_STORAGE,
  definitions: new Map(),
  absences: new Map(),
} as const;

/** A bound claim of 1 GiB. */
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

/** An IPAMClaim of the VM `vm1`. */
export function anIpamClaim(
  metadata: Partial<IpamClaim["metadata"]> & Pick<IpamClaim["metadata"], "name">,
  spec: IpamClaim["spec"],
): IpamClaim {
  return {
    apiVersion: "k8s.cni.cncf.io/v1alpha1",
    kind: "IPAMClaim",
    metadata: {
      namespace: "default",
      labels: { "kubevirt.io/vm": "vm1" },
      finalizers: ["kubevirt.io/persistent-ipam"],
      ownerReferences: [VM_OWNER],
      ...metadata,
    },
    spec,
  };
}
