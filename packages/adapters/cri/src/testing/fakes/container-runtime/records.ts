// SPDX-License-Identifier: Apache-2.0
// What a runtime in memory knows of its sandboxes and containers, and how they are shown.
import { AppError } from "@patchbay/core";
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
} from "@patchbay/core/ports";

/** More of what a program says is not taken, bytes. */
const SAID_BYTES_MAX = 64 * 1024;

/** A sandbox in memory. */
export interface SandboxRecord {
  readonly config: SandboxConfig;
  status: SandboxStatus;
}

/** A container in memory. */
export interface ContainerRecord {
  readonly sandboxId: string;
  readonly config: ContainerConfig;
  status: ContainerStatus;
  writtenBytes: number;
}

/** How a program ended. */
export interface ProgramEnd {
  readonly exitCode: number;
  /** Else `Completed` or `Error`, by the exit code. */
  readonly reason?: string;
}

/** All by which an image is found. */
export function namesOf({ id, tags, digests }: ContainerImage): readonly string[] {
  return [id, ...tags, ...digests];
}

/** CRI's refusal, as an adapter tells it. */
export function refusal(call: string, status: string, reason: string): AppError {
  return new AppError("CRI_FAILED", { call, status, reason });
}

/** The first sandbox of a pod that a fake makes: addresses and numbers follow `index`, from 1. */
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

/** A container that has not been started. */
export function newContainer(
  box: SandboxRecord,
  config: ContainerConfig,
  made: { readonly index: number; readonly nowMs: number; readonly imageRef: string },
): ContainerRecord {
  const { name, attempt } = config.metadata;
  const { labels, annotations, image } = config;
  const status: ContainerStatus = {
    id: `container-${String(made.index)}`,
    name,
    attempt,
    image,
    labels,
    annotations,
    state: "CREATED",
    createdAt: BigInt(made.nowMs) * 1_000_000n,
    startedAt: 0n,
    finishedAt: 0n,
    exitCode: 0,
    reason: "",
    message: "",
    imageRef: made.imageRef,
    logPath: `${box.config.logDirectory}/${config.logPath}`,
  };
  return { sandboxId: box.status.id, config, status, writtenBytes: 0 };
}

function hasLabels(has: Readonly<Record<string, string>>, filter: RuntimeFilter): boolean {
  return Object.entries(filter.labels ?? {}).every(([key, value]) => has[key] === value);
}

/** As a list shows them. */
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

/** As a list shows them. */
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

/** What each has written. */
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

/** What a program has said, as far as a runtime's client takes it. Throws an AppError with CRI_FAILED where it is too much. */
export function heard(result: ExecResult): ExecResult {
  if (Buffer.byteLength(result.stdout) + Buffer.byteLength(result.stderr) > SAID_BYTES_MAX) {
    const reason = `more than ${String(SAID_BYTES_MAX)} bytes`;
    throw refusal("ExecSync", "RESOURCE_EXHAUSTED", reason);
  }
  return result;
}
