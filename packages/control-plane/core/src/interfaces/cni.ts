// SPDX-License-Identifier: Apache-2.0
// CNI operations of a container runtime. Source: CNI SPEC 1.1.

/** A network configuration list. Source: CNI SPEC 1.1 section 1. */
export interface NetworkConfigList {
  readonly cniVersion: string;
  readonly name: string;
  readonly disableCheck?: boolean;
  readonly disableGC?: boolean;
  readonly plugins: readonly (Readonly<Record<string, unknown>> & { readonly type: string })[];
}

/** Parameters of a CNI operation: a sandbox, an interface in it, and a network configuration. */
export interface AttachmentRequest {
  readonly containerId: string;
  /** Path of the network namespace. Unset if the namespace no longer exists (DEL only). */
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
  /** Runs ADD and stops at the first error. @throws AppError with CNI_PLUGIN_FAILED, CNI_PLUGIN_MISSING, CNI_TIMED_OUT */
  add(request: AttachmentRequest): Promise<CniResult>;
  /** Runs DEL of all plugins even if one fails. `prevResult` is the result of ADD if known. */
  del(request: AttachmentRequest, prevResult?: CniResult): Promise<void>;
  /**
   * Runs CHECK in order and stops at the first error. Returns false if no plugin ran, because the configuration disables CHECK or
   * is too old. Do not detach after a failure: some plugins reject what they created themselves.
   * @throws AppError with CNI_PLUGIN_FAILED, CNI_CONFIG_INVALID, CNI_PLUGIN_MISSING, CNI_TIMED_OUT
   */
  check(request: AttachmentRequest, prevResult: CniResult): Promise<boolean>;
  /**
   * Runs STATUS in order and stops at the first error. Returns false if no plugin ran, because the configuration or the
   * plugins are older than 1.1.0.
   * @throws AppError as `check`; `cniCode` 50 means that ADD would fail, and 51 that existing attachments may lack connectivity too
   */
  status(config: NetworkConfigList): Promise<boolean>;
  /**
   * Runs GC of all plugins even if one fails. Each plugin frees the resources of attachments that `listValid` omits, so
   * `listValid` is called while no other operation on the network runs, and other operations wait until GC has ended.
   * Returns false if no plugin ran, because the configuration disables GC, or because it or the plugins are older than 1.1.0.
   * @throws AppError as `check`, and what `listValid` throws
   */
  gc(
    config: NetworkConfigList,
    listValid: () => Promise<readonly AttachmentName[]>,
  ): Promise<boolean>;
  /**
   * Runs DEL of the IPAM plugins only, for a NIC that no longer exists and whose main plugin cannot clean up. Must not be
   * called while the NIC exists, because its addresses would be assigned to other NICs.
   */
  releaseAddresses(request: AttachmentRequest): Promise<void>;
}
