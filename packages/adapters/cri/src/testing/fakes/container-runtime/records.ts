// SPDX-License-Identifier: Apache-2.0
// Sandboxes and containers of the fake runtime.
import { AppError } from "@patchbay/base";
import type {
  ContainerConfig,
  ContainerImage,
  ContainerStatus,
  ContainerSummary,
  ContainerWrites,
  ExecResult,
  RuntimeFilter,
  SandboxConfig,
  SandboxStatus,
  SandboxSummary,
} from "@patchbay/core/interfaces";

const OUTPUT_BYTES_MAX = 64 * 1024;

export interface SandboxRecord {
  readonly config: SandboxConfig;
  status: SandboxStatus;
}

export interface ContainerRecord {
  readonly sandboxId: string;
  readonly config: ContainerConfig;
  status: ContainerStatus;
  writtenBytes: number;
}

export interface ProgramEnd {
  readonly exitCode: number;
  /** Defaults to `Completed` or `Error`, by the exit code. */
  readonly reason?: string;
}

/** Returns all names by which the image is found. */
export function listNames({ id, tags, digests }: ContainerImage): readonly string[] {
  return [id, ...tags, ...digests];
}

export function refusal(call: string, status: string, reason: string): AppError {
  return new AppError("CRI_FAILED", { call, status, reason });
}

/** Creates a sandbox whose address and pid follow from `index`, starting at 1. */
export function newSandbox(config: SandboxConfig, index: number, nowMs: number): SandboxRecord {
  const id = `sandbox-${String(index)}`;
  const own = config.security.namespaces.network === "POD";
  const status: SandboxStatus = {
    id,
    metadata: config.metadata,
    state: "READY",
    createdAt: BigInt(nowMs) * 1_000_000n,
    labels: config.labels,
    annotations: config.annotations,
    ips: own ? [`10.244.0.${String(index + 1)}`] : [],
    pid: 1000 + index,
    ...(own ? { netnsPath: `/run/netns/cni-${id}` } : {}),
  };
  return { config, status };
}

export function newContainer(
  box: SandboxRecord,
  config: ContainerConfig,
  creation: { readonly index: number; readonly nowMs: number; readonly imageRef: string },
): ContainerRecord {
  const { name, attempt } = config.metadata;
  const { labels, annotations, image } = config;
  const status: ContainerStatus = {
    id: `container-${String(creation.index)}`,
    name,
    attempt,
    image,
    labels,
    annotations,
    state: "CREATED",
    createdAt: BigInt(creation.nowMs) * 1_000_000n,
    startedAt: 0n,
    finishedAt: 0n,
    exitCode: 0,
    reason: "",
    message: "",
    imageRef: creation.imageRef,
    logPath: `${box.config.logDirectory}/${config.logPath}`,
  };
  return { sandboxId: box.status.id, config, status, writtenBytes: 0 };
}

function hasLabels(labels: Readonly<Record<string, string>>, filter: RuntimeFilter): boolean {
  return Object.entries(filter.labels ?? {}).every(([key, value]) => labels[key] === value);
}

export function listSandboxRecords(
  records: Iterable<SandboxRecord>,
  filter: RuntimeFilter,
): readonly SandboxSummary[] {
  return [...records]
    .filter(({ status }) => status.id === (filter.sandboxId ?? status.id))
    .filter(({ status }) => hasLabels(status.labels, filter))
    .map(({ status: { id, metadata, state, createdAt, labels, annotations } }) => ({
      id,
      metadata,
      state,
      createdAt,
      labels,
      annotations,
    }));
}

export function listContainerRecords(
  records: Iterable<ContainerRecord>,
  filter: RuntimeFilter,
): readonly ContainerSummary[] {
  return [...records]
    .filter(({ sandboxId }) => sandboxId === (filter.sandboxId ?? sandboxId))
    .filter(({ status }) => hasLabels(status.labels, filter))
    .map(({ sandboxId, status }) => {
      const { id, name, attempt, state, createdAt, image, labels, annotations } = status;
      return { id, sandboxId, name, attempt, state, createdAt, image, labels, annotations };
    });
}

export function listContainerWrites(
  records: Iterable<ContainerRecord>,
): readonly ContainerWrites[] {
  return [...records].map(({ status: { id, name, labels }, writtenBytes }) => ({
    id,
    name,
    labels,
    writtenBytes,
  }));
}

/** @throws AppError with CRI_FAILED when the output is too long */
export function limitOutput(result: ExecResult): ExecResult {
  if (Buffer.byteLength(result.stdout) + Buffer.byteLength(result.stderr) > OUTPUT_BYTES_MAX) {
    const reason = `more than ${String(OUTPUT_BYTES_MAX)} bytes`;
    throw refusal("ExecSync", "RESOURCE_EXHAUSTED", reason);
  }
  return result;
}
