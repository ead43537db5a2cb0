// SPDX-License-Identifier: Apache-2.0
// Untrusted hook sidecars in launcher pods. Source: KubeVirt pkg/hooks.
import type { LauncherPod } from "../launchers.ts";

export type HookVersion = "v1alpha2" | "v1alpha3";

export type HookPoint = "OnDefineDomain" | "PreCloudInitIso" | "Shutdown";

/** Untrusted data that a hook reports about itself. */
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
  /** Complete cloud-init data as JSON. Older hooks read `noCloudSource` instead, which has only user data and network data. */
  readonly data: string;
  readonly noCloudSource: string;
  readonly vmi: string;
}

/** A connected sidecar. @throws AppError from every call: HOOK_UNREACHABLE, HOOK_TIMED_OUT, HOOK_FAILED (an error or an invalid reply) */
export interface HookSidecar {
  info(): Promise<HookInfo>;
  /** Returns the domain XML after the hook's changes: an untrusted string of at most 1 MiB. */
  onDefineDomain(request: DefineDomainRequest): Promise<string>;
  /** Returns the cloud-init data after the hook's changes: untrusted strings of at most 1 MiB in total. */
  preCloudInitIso(
    request: CloudInitRequest,
  ): Promise<{ readonly data: string; readonly noCloudSource: string }>;
  shutdown(): Promise<void>;
  close(): Promise<void>;
}

export interface HookSidecars {
  /**
   * Connects to the hook sidecar in a container. Callers must open the pod's launcher first, because only that call verifies the pod.
   * @throws AppError with HOOK_UNREACHABLE while the sidecar does not listen, OS_PATH_REFUSED if the file at the socket's path is not the
   * sidecar's socket, OS_FILE_FAILED if this file cannot be opened for another reason
   */
  connect(pod: LauncherPod, container: string): Promise<HookSidecar>;
}
