// SPDX-License-Identifier: Apache-2.0
// How the hooks in a launcher's pod are asked, none of which is trusted. Source: KubeVirt pkg/hooks.
import type { LauncherPod } from "../launchers.ts";

/** Versions of the protocol that are spoken. */
export type HookVersion = "v1alpha2" | "v1alpha3";

/** When a hook is asked. */
export type HookPoint = "OnDefineDomain" | "PreCloudInitIso" | "Shutdown";

/** What a hook says of itself; all of it is its own word. */
export interface HookInfo {
  readonly name: string;
  readonly versions: readonly string[];
  readonly hookPoints: readonly { readonly name: string; readonly priority: number }[];
}

/** What a hook is asked when the domain is to be defined. */
export interface DefineDomainRequest {
  readonly version: HookVersion;
  readonly domainXml: string;
  /** The VirtualMachineInstance as JSON. */
  readonly vmi: string;
}

/** What a hook is asked of one disk with cloud-init's data. */
export interface CloudInitRequest {
  readonly version: HookVersion;
  /** JSON of all of it, and of the volume's member by itself, for hooks that are older. */
  readonly data: string;
  readonly noCloudSource: string;
  /** The VirtualMachineInstance as JSON. */
  readonly vmi: string;
}

/**
 * One sidecar that listens. Each call throws AppError with HOOK_UNREACHABLE when nobody listens any more, HOOK_TIMED_OUT
 * when there is no answer in time, and HOOK_FAILED when the hook says so itself, or says what cannot be read.
 */
export interface HookSidecar {
  info(): Promise<HookInfo>;
  /** The domain as the hook wants it; any text of at most 1 MiB. */
  onDefineDomain(request: DefineDomainRequest): Promise<string>;
  /** cloud-init's data as the hook wants it; any texts, together of at most 1 MiB. */
  preCloudInitIso(
    request: CloudInitRequest,
  ): Promise<{ readonly data: string; readonly noCloudSource: string }>;
  /** The guest has ended. */
  shutdown(): Promise<void>;
  close(): Promise<void>;
}

/** The way to the sidecars of this node's launchers. */
export interface HookSidecars {
  /**
   * Reaches the sidecar of that name, of a pod that was found by its launcher.
   * @throws AppError with HOOK_UNREACHABLE while it has no socket or does not listen, OS_PATH_REFUSED for what is no
   *   socket of its own.
   */
  connect(pod: LauncherPod, container: string): Promise<HookSidecar>;
}
