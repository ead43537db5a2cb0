// SPDX-License-Identifier: Apache-2.0
// Types of CRI v1 messages, with the field names of cri.proto. 64-bit numbers are strings.

export interface WireSandboxMetadata {
  readonly name: string;
  readonly namespace: string;
  readonly uid: string;
  readonly attempt: number;
}

type Texts = Readonly<Record<string, string>>;

export interface WireSandbox {
  readonly id: string;
  readonly metadata: WireSandboxMetadata | null;
  readonly state: "SANDBOX_READY" | "SANDBOX_NOTREADY";
  readonly createdAt: string;
  readonly labels: Texts;
  readonly annotations: Texts;
}

export interface WireSandboxStatus extends WireSandbox {
  readonly network: {
    readonly ip: string;
    readonly additionalIps: readonly { readonly ip: string }[];
  } | null;
  readonly linux: {
    readonly namespaces: { readonly options: { readonly network: string } | null } | null;
  } | null;
}

export interface WireSandboxStatusResponse {
  readonly status: WireSandboxStatus | null;
  readonly info: Texts;
}

export type WireContainerState =
  | "CONTAINER_CREATED"
  | "CONTAINER_RUNNING"
  | "CONTAINER_EXITED"
  | "CONTAINER_UNKNOWN";

export interface WireContainer {
  readonly id: string;
  readonly podSandboxId: string;
  readonly metadata: { readonly name: string; readonly attempt: number } | null;
  readonly image: { readonly image: string } | null;
  readonly state: WireContainerState;
  readonly createdAt: string;
  readonly labels: Texts;
  readonly annotations: Texts;
}

export interface WireContainerStats {
  readonly attributes: {
    readonly id: string;
    readonly metadata: { readonly name: string } | null;
    readonly labels: Texts;
  } | null;
  /** Null until the runtime has measured the container's writable layer. */
  readonly writableLayer: { readonly usedBytes: { readonly value: string } | null } | null;
}

export interface WireContainerStatus extends Omit<WireContainer, "podSandboxId"> {
  readonly startedAt: string;
  readonly finishedAt: string;
  readonly exitCode: number;
  readonly imageRef: string;
  readonly reason: string;
  readonly message: string;
  readonly logPath: string;
}

export interface WireImage {
  readonly id: string;
  readonly repoTags: readonly string[];
  readonly repoDigests: readonly string[];
  readonly size: string;
  readonly uid: { readonly value: string } | null;
  readonly username: string;
}

export interface WireCondition {
  readonly type: string;
  readonly status: boolean;
  readonly reason: string;
  readonly message: string;
}
