// SPDX-License-Identifier: Apache-2.0
// What a pod may mount. Source: Kubernetes core/v1 Volume.

/** A key of a ConfigMap or Secret and the file that it becomes; `mode` as a number. */
export interface KeyToPath {
  readonly key: string;
  /** Relative, without `..`. */
  readonly path: string;
  readonly mode?: number;
}

/** A field of the pod's own object, for example `metadata.name`. */
export interface ObjectFieldSelector {
  readonly apiVersion?: string;
  readonly fieldPath: string;
}

/** A container's limit or request, for example `limits.memory`, in units of `divisor`. */
export interface ResourceFieldSelector {
  readonly containerName?: string;
  readonly resource: string;
  readonly divisor?: string;
}

/** One file of a downwardAPI volume. */
export interface DownwardFile {
  readonly path: string;
  readonly mode?: number;
  readonly fieldRef?: ObjectFieldSelector;
  readonly resourceFieldRef?: ResourceFieldSelector;
}

/** One source of a projected volume. */
export interface VolumeProjection {
  readonly configMap?: {
    readonly name?: string;
    readonly items?: readonly KeyToPath[];
    readonly optional?: boolean;
  };
  readonly secret?: {
    readonly name?: string;
    readonly items?: readonly KeyToPath[];
    readonly optional?: boolean;
  };
  readonly downwardAPI?: { readonly items?: readonly DownwardFile[] };
  readonly serviceAccountToken?: {
    readonly audience?: string;
    readonly expirationSeconds?: number;
    readonly path: string;
  };
}

/** A volume; exactly one of its members beside the name. */
export interface PodVolume {
  readonly name: string;
  readonly emptyDir?: { readonly medium?: string; readonly sizeLimit?: string };
  /** Files of an OCI image, read-only. Source: Kubernetes KEP-4639 "image volume source". */
  readonly image?: {
    readonly reference: string;
    readonly pullPolicy?: "Always" | "Never" | "IfNotPresent";
  };
  readonly configMap?: {
    readonly name?: string;
    readonly items?: readonly KeyToPath[];
    readonly defaultMode?: number;
    readonly optional?: boolean;
  };
  readonly secret?: {
    readonly secretName?: string;
    readonly items?: readonly KeyToPath[];
    readonly defaultMode?: number;
    readonly optional?: boolean;
  };
  readonly downwardAPI?: {
    readonly items?: readonly DownwardFile[];
    readonly defaultMode?: number;
  };
  readonly projected?: {
    readonly sources?: readonly VolumeProjection[];
    readonly defaultMode?: number;
  };
  /** A claim in the pod's namespace. */
  readonly persistentVolumeClaim?: { readonly claimName: string; readonly readOnly?: boolean };
  readonly hostPath?: { readonly path: string; readonly type?: string };
}
