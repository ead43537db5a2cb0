// SPDX-License-Identifier: Apache-2.0
// What of the node shows in its pods?

/** The node as its pods see it. Lives as long as the process. */
export interface NodeFacts {
  readonly name: string;
  /** Address of the node. */
  readonly hostIp: string;
  /** Volumes of each pod, by uid. Absolute. */
  readonly podsDir: string;
  /** Logs of containers. Absolute. */
  readonly logDir: string;
  /** Control group above those of all containers, for example `/patchbay`. */
  readonly cgroupParent: string;
  /** Memory of the machine. */
  readonly memoryBytes: number;
  /** Who answers for the names of Services, and what they end with; absent: nobody does. */
  readonly dns?: { readonly server: string; readonly domain: string };
  /** Where pods reach the API server; absent: they are not told. */
  readonly apiServer?: { readonly host: string; readonly port: string };
}
