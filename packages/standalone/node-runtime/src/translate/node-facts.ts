// SPDX-License-Identifier: Apache-2.0

/** Properties of the node that pods depend on. Paths are absolute. */
export interface NodeFacts {
  readonly name: string;
  readonly hostIp: string;
  readonly podsDir: string;
  readonly logDir: string;
  /** Parent of all containers' control groups, for example `/patchbay`. */
  readonly cgroupParent: string;
  readonly memoryBytes: number;
  /** Runtime handler of pods that name their own default network; unset if no component attaches such networks. */
  readonly ownNetworkRuntime?: string;
  readonly dns?: { readonly server: string; readonly domain: string };
  readonly apiServer?: { readonly host: string; readonly port: string };
}
