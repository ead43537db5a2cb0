// SPDX-License-Identifier: Apache-2.0
// CNI as a runtime uses it. Source: CNI SPEC 1.1.

/** A network configuration list, already chosen and named. Source: CNI SPEC 1.1 section 1. */
export interface NetworkConfigList {
  readonly cniVersion: string;
  readonly name: string;
  readonly disableCheck?: boolean;
  readonly plugins: readonly (Readonly<Record<string, unknown>> & { readonly type: string })[];
}

/** One attachment: a sandbox, an interface in it, a configuration. */
export interface AttachmentRequest {
  readonly containerId: string;
  /** Absent when the namespace is gone (DEL only). */
  readonly netnsPath?: string;
  readonly interfaceName: string;
  readonly config: NetworkConfigList;
  /** CNI_ARGS in order. */
  readonly args: readonly (readonly [string, string])[];
  /** Values for declared capabilities, for example `mac`. */
  readonly capabilityArgs: Readonly<Record<string, unknown>>;
}

/** Result of ADD. Source: CNI SPEC 1.1 section 5. */
export interface CniResult {
  readonly cniVersion: string;
  readonly interfaces?: readonly {
    readonly name: string;
    readonly mac?: string;
    readonly mtu?: number;
    readonly sandbox?: string;
  }[];
  readonly ips?: readonly {
    readonly interface?: number;
    readonly address: string;
    readonly gateway?: string;
  }[];
  readonly routes?: readonly { readonly dst: string; readonly gw?: string }[];
  readonly dns?: Readonly<Record<string, unknown>>;
}

/** The plugins of a list, as a container runtime calls them: ADD in order, DEL the other way round. */
export interface Cni {
  /** In order; stops at the first error. @throws AppError with CNI_PLUGIN_FAILED, CNI_PLUGIN_MISSING, CNI_TIMED_OUT */
  add(request: AttachmentRequest): Promise<CniResult>;
  /** In reverse order, all plugins even when one fails; `prevResult` is the result of ADD where it is known. */
  del(request: AttachmentRequest, prevResult?: CniResult): Promise<void>;
  /**
   * Runs DEL of the IPAM plugins alone, for a NIC that is gone while the plugin that made it cannot clean up any more.
   * Never while the NIC is there: its addresses would be given to another.
   */
  releaseAddresses(request: AttachmentRequest): Promise<void>;
}
