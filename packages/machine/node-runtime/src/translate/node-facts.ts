// SPDX-License-Identifier: Apache-2.0

/** Facts of the node that pods depend on. Lives as long as the process. */
export interface NodeFacts {
  readonly name: string;
  readonly hostIp: string;
  /** Absolute; contains a directory per pod, by uid. */
  readonly podsDir: string;
  /** Absolute. */
  readonly logDir: string;
  /** Parent of all containers' control groups, for example `/patchbay`. */
  readonly cgroupParent: string;
  readonly memoryBytes: number;
  /** DNS server and domain of Services. Unset when the cluster has none. */
  readonly dns?: { readonly server: string; readonly domain: string };
  /** Address for pods. Unset when pods get none. */
  readonly apiServer?: { readonly host: string; readonly port: string };
}
