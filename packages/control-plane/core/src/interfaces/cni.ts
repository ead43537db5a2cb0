// SPDX-License-Identifier: Apache-2.0
// CNI operations of a container runtime. Source: CNI SPEC 1.1.

/** Source: CNI SPEC 1.1 section 1. */
export interface NetworkConfigList {
  readonly cniVersion: string;
  readonly name: string;
  readonly disableCheck?: boolean;
  readonly disableGC?: boolean;
  readonly plugins: readonly (Readonly<Record<string, unknown>> & { readonly type: string })[];
}

export interface AttachmentRequest {
  readonly containerId: string;
  /** Path of the network namespace. Unset if the namespace no longer exists (DEL only). */
  readonly netnsPath?: string;
  readonly interfaceName: string;
  readonly config: NetworkConfigList;
  readonly args: readonly (readonly [string, string])[];
  readonly capabilityArgs: Readonly<Record<string, unknown>>;
}

/** Fields that identify an attachment. Source: CNI SPEC 1.1 section 2, "GC". */
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

export interface Cni {
  /** Runs ADD of all plugins in order, up to an error. @throws AppError with CNI_PLUGIN_FAILED, CNI_PLUGIN_MISSING, CNI_TIMED_OUT */
  add(request: AttachmentRequest): Promise<CniResult>;
  /** Runs DEL of all plugins, even after a failure. `prevResult` is the result of ADD, if known. */
  del(request: AttachmentRequest, prevResult?: CniResult): Promise<void>;
  /**
   * Runs CHECK of the plugins in order and stops at the first error. Returns false if the configuration disables CHECK
   * or its version does not support CHECK. A failed CHECK is no reason to detach an interface, because some plugins
   * reject interfaces that they created themselves.
   * @throws AppError with CNI_PLUGIN_FAILED, CNI_CONFIG_INVALID, CNI_PLUGIN_MISSING, CNI_TIMED_OUT
   */
  check(request: AttachmentRequest, prevResult: CniResult): Promise<boolean>;
  /**
   * Runs STATUS of the plugins in order and stops at the first error. Returns false if the configuration or all plugins are
   * older than CNI 1.1.0.
   * @throws AppError with the same codes as `check`. `cniCode` 50: ADD would fail. `cniCode` 51: existing attachments may also
   * lack connectivity.
   */
  status(config: NetworkConfigList): Promise<boolean>;
  /**
   * Runs GC of all plugins, even after a failure. Plugins free the resources of attachments that `listValid` does not
   * return. While `listValid` and GC run, other operations on the network wait. Returns false if the configuration disables
   * GC, or if the configuration or all plugins are older than CNI 1.1.0.
   * @throws AppError with the same codes as `check`, and errors of `listValid`
   */
  gc(
    config: NetworkConfigList,
    listValid: () => Promise<readonly AttachmentName[]>,
  ): Promise<boolean>;
  /** Runs DEL of the IPAM plugins only. Callers must delete the NIC first, because its addresses may be reassigned immediately. */
  releaseAddresses(request: AttachmentRequest): Promise<void>;
}
