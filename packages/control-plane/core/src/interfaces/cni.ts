// SPDX-License-Identifier: Apache-2.0
// CNI as a container runtime uses it. Source: CNI SPEC 1.1.

/** A network configuration list. Source: CNI SPEC 1.1 section 1. */
export interface NetworkConfigList {
  readonly cniVersion: string;
  readonly name: string;
  readonly disableCheck?: boolean;
  readonly disableGC?: boolean;
  readonly plugins: readonly (Readonly<Record<string, unknown>> & { readonly type: string })[];
}

/** One attachment: a sandbox, an interface in it, and a configuration. */
export interface AttachmentRequest {
  readonly containerId: string;
  /** Unset if the namespace is gone (DEL only). */
  readonly netnsPath?: string;
  readonly interfaceName: string;
  readonly config: NetworkConfigList;
  readonly args: readonly (readonly [string, string])[];
  /** Values for the plugins' capabilities, for example `mac`. */
  readonly capabilityArgs: Readonly<Record<string, unknown>>;
}

/** Identifies an attachment. Source: CNI SPEC 1.1 section 2, "GC". */
export interface AttachmentName {
  readonly containerId: string;
  readonly interfaceName: string;
}

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

/** Runs the plugins of a list: ADD in order, DEL in reverse order. */
export interface Cni {
  /** Stops at the first error. @throws AppError with CNI_PLUGIN_FAILED, CNI_PLUGIN_MISSING, CNI_TIMED_OUT */
  add(request: AttachmentRequest): Promise<CniResult>;
  /** Runs all plugins even if one fails. `prevResult` is the result of ADD if known. */
  del(request: AttachmentRequest, prevResult?: CniResult): Promise<void>;
  /**
   * Runs CHECK in order and stops at the first error. Returns false if no plugin ran, because of the configuration or its
   * version. A failure is no reason to detach: some plugins reject what they created themselves.
   * @throws AppError with CNI_PLUGIN_FAILED, CNI_CONFIG_INVALID, CNI_PLUGIN_MISSING, CNI_TIMED_OUT
   */
  check(request: AttachmentRequest, prevResult: CniResult): Promise<boolean>;
  /**
   * Runs STATUS in order and stops at the first error. Returns false if no plugin ran, because the configuration or the
   * plugins are older than 1.1.0.
   * @throws AppError as `check`; `cniCode` 50: no ADD now, 51: existing attachments may lack connectivity too
   */
  status(config: NetworkConfigList): Promise<boolean>;
  /**
   * Runs GC of all plugins even if one fails: each frees what it holds for attachments that are not listed. Other
   * operations on the network wait. `listValid` is called while none runs, because resources of an omitted attachment are
   * freed. Returns false if no plugin ran, as for `status` or because of the configuration.
   * @throws AppError as `check`, and what `listValid` throws
   */
  gc(
    config: NetworkConfigList,
    listValid: () => Promise<readonly AttachmentName[]>,
  ): Promise<boolean>;
  /**
   * Runs DEL of the IPAM plugins only, for a NIC that is gone and whose main plugin cannot clean up. Must not be called
   * while the NIC exists: its addresses would be assigned again.
   */
  releaseAddresses(request: AttachmentRequest): Promise<void>;
}
