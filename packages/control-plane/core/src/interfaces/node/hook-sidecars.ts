// SPDX-License-Identifier: Apache-2.0
// Hook sidecars in launcher pods, which are not trusted. Source: KubeVirt pkg/hooks.
import type { LauncherPod } from "../launchers.ts";

export type HookVersion = "v1alpha2" | "v1alpha3";

export type HookPoint = "OnDefineDomain" | "PreCloudInitIso" | "Shutdown";

/** A hook's untrusted report about itself. */
export interface HookInfo {
  readonly name: string;
  readonly versions: readonly string[];
  readonly hookPoints: readonly { readonly name: string; readonly priority: number }[];
}

export interface DefineDomainRequest {
  readonly version: HookVersion;
  readonly domainXml: string;
  readonly vmi: string;
}

export interface CloudInitRequest {
  readonly version: HookVersion;
  /** The complete cloud-init data as JSON. For older hooks, `noCloudSource` is the volume's member alone. */
  readonly data: string;
  readonly noCloudSource: string;
  readonly vmi: string;
}

/**
 * A connected sidecar. Calls throw AppError with HOOK_UNREACHABLE when it no longer listens, HOOK_TIMED_OUT when it does
 * not reply in time, and HOOK_FAILED when it reports an error or an unreadable reply.
 */
export interface HookSidecar {
  info(): Promise<HookInfo>;
  /** Returns the domain XML as changed by the hook: any text up to 1 MiB. */
  onDefineDomain(request: DefineDomainRequest): Promise<string>;
  /** Returns the cloud-init data as changed by the hook: any texts, at most 1 MiB in total. */
  preCloudInitIso(
    request: CloudInitRequest,
  ): Promise<{ readonly data: string; readonly noCloudSource: string }>;
  shutdown(): Promise<void>;
  close(): Promise<void>;
}

export interface HookSidecars {
  /**
   * Connects to the sidecar of a container. The caller must have verified the pod by opening its launcher.
   * @throws AppError with HOOK_UNREACHABLE while the sidecar has no socket or does not listen, OS_PATH_REFUSED for a file
   *   that is not the sidecar's own socket.
   */
  connect(pod: LauncherPod, container: string): Promise<HookSidecar>;
}
