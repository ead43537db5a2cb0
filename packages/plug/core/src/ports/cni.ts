// SPDX-License-Identifier: Apache-2.0
// CNI as a runtime uses it. Source: CNI SPEC 1.1.

/** A network configuration list, already chosen and named. Source: CNI SPEC 1.1 section 1. */
export interface NetworkConfigList {
  readonly cniVersion: string;
  readonly name: string;
  readonly disableCheck?: boolean;
  readonly disableGC?: boolean;
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

/** Which attachment it is, for plugins. Source: CNI SPEC 1.1 section 2, "GC". */
export interface AttachmentName {
  readonly containerId: string;
  readonly interfaceName: string;
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
   * Asks the plugins, in order, whether an attachment is still what its ADD gave; stops at the first error. False: nothing
   * was asked, since the configuration or its version says so. Not a reason to take anything away: some plugins find
   * fault with what they have made themselves.
   * @throws AppError with CNI_PLUGIN_FAILED, CNI_CONFIG_INVALID, CNI_PLUGIN_MISSING, CNI_TIMED_OUT
   */
  check(request: AttachmentRequest, prevResult: CniResult): Promise<boolean>;
  /**
   * Asks the plugins, in order, whether they can make attachments; stops at the first that cannot. False: none was asked,
   * since configuration or plugins are older than 1.1.0.
   * @throws AppError as `check`; `cniCode` 50: no ADD now, 51: what is attached may be without network too
   */
  status(config: NetworkConfigList): Promise<boolean>;
  /**
   * Has all plugins of the list free what they hold for attachments that are not listed, also when one fails. Nothing else
   * of a network of that name runs meanwhile, and `listValid` is called when nothing does: what it leaves out is lost.
   * False: none was asked, as for `status`, or since the configuration says so.
   * @throws AppError as `check`, and what `listValid` throws
   */
  gc(
    config: NetworkConfigList,
    listValid: () => Promise<readonly AttachmentName[]>,
  ): Promise<boolean>;
  /**
   * Runs DEL of the IPAM plugins alone, for a NIC that is gone while the plugin that made it cannot clean up any more.
   * Never while the NIC is there: its addresses would be given to another.
   */
  releaseAddresses(request: AttachmentRequest): Promise<void>;
}
