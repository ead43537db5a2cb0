// SPDX-License-Identifier: Apache-2.0

/** Facts of the node that pods depend on. */
export interface NodeFacts {
  readonly name: string;
  readonly hostIp: string;
  /** Absolute. */
  readonly podsDir: string;
  /** Absolute. */
  readonly logDir: string;
  /** Parent of all containers' control groups, for example `/patchbay`. */
  readonly cgroupParent: string;
  readonly memoryBytes: number;
  readonly dns?: { readonly server: string; readonly domain: string };
  readonly apiServer?: { readonly host: string; readonly port: string };
}
