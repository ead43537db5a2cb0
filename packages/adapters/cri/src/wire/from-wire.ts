// SPDX-License-Identifier: Apache-2.0
// Converts CRI v1 messages to the types of ContainerRuntime.
import type {
  ContainerImage,
  ContainerState,
  ContainerStatus,
  ContainerSummary,
  ContainerWrites,
  SandboxStatus,
  SandboxSummary,
} from "@patchbay/core/interfaces";
import type {
  WireCondition,
  WireContainer,
  WireContainerState,
  WireContainerStats,
  WireContainerStatus,
  WireImage,
  WireSandbox,
  WireSandboxStatus,
  WireSandboxStatusResponse,
} from "./messages.ts";

interface SandboxInfo {
  /** PID of the pause container. Unset if the container exited or does not exist (CRI-O's `drop_infra_ctr`). */
  readonly pid?: number;
  /** Path of the network namespace. Unset for the host network. */
  readonly netnsPath?: string;
}

type Json = Readonly<Record<string, unknown>>;

function isJson(value: unknown): value is Json {
  return typeof value === "object" && value !== null && !Array.isArray(value);
}

function readField(value: unknown, key: string): unknown {
  return isJson(value) ? value[key] : undefined;
}

function parseJsonIfValid(text: string): unknown {
  try {
    return JSON.parse(text);
  } catch {
    return undefined; // CRI does not specify the format of `info`, so text that is not JSON is ignored.
  }
}

function findNetnsPath(info: unknown): string | undefined {
  const namespaces = readField(readField(readField(info, "runtimeSpec"), "linux"), "namespaces");
  const network: unknown = Array.isArray(namespaces)
    ? namespaces.find((namespace: unknown) => readField(namespace, "type") === "network")
    : undefined;
  const path = readField(network, "path");
  return typeof path === "string" && path.startsWith("/") ? path : undefined;
}

/** Parses the JSON in `info` of containerd and CRI-O. Source: sandbox_status.go of containerd 1.6 and CRI-O 1.29. */
export function parseSandboxInfo(info: Readonly<Record<string, string>>): SandboxInfo {
  const parsed = parseJsonIfValid(info["info"] ?? "");
  const pid = readField(parsed, "pid");
  const netnsPath = findNetnsPath(parsed);
  return {
    ...(typeof pid === "number" && pid > 0 ? { pid } : {}),
    ...(netnsPath === undefined ? {} : { netnsPath }),
  };
}

const EMPTY_METADATA = { name: "", namespace: "", uid: "", attempt: 0 };

const CONTAINER_STATES: Readonly<Record<WireContainerState, ContainerState>> = {
  CONTAINER_CREATED: "CREATED",
  CONTAINER_RUNNING: "RUNNING",
  CONTAINER_EXITED: "EXITED",
  CONTAINER_UNKNOWN: "UNKNOWN",
};

export function toSandboxSummary(sandbox: WireSandbox): SandboxSummary {
  const { id, metadata, state, createdAt, labels, annotations } = sandbox;
  const { name, namespace, uid, attempt } = metadata ?? EMPTY_METADATA;
  return {
    id,
    metadata: { name, namespace, uid, attempt },
    state: state === "SANDBOX_READY" ? "READY" : "NOTREADY",
    createdAt: BigInt(createdAt),
    labels,
    annotations,
  };
}

function listIps({ network }: WireSandboxStatus): readonly string[] {
  if (network === null) return [];
  return [network.ip, ...network.additionalIps.map(({ ip }) => ip)].filter((ip) => ip !== "");
}

export function toSandboxStatus(answer: WireSandboxStatusResponse): SandboxStatus | undefined {
  const { status } = answer;
  if (status === null) return undefined;
  const { pid, netnsPath } = parseSandboxInfo(answer.info);
  const summary = { ...toSandboxSummary(status), ...(pid === undefined ? {} : { pid }) };
  if (status.linux?.namespaces?.options?.network === "NODE") return { ...summary, ips: [] };
  const path = netnsPath ?? (pid === undefined ? undefined : `/proc/${String(pid)}/ns/net`);
  return { ...summary, ips: listIps(status), ...(path === undefined ? {} : { netnsPath: path }) };
}

function toContainerParts(
  container: Omit<WireContainer, "podSandboxId">,
): Omit<ContainerSummary, "sandboxId"> {
  const { id, metadata, image, state, createdAt, labels, annotations } = container;
  return {
    id,
    name: metadata?.name ?? "",
    attempt: metadata?.attempt ?? 0,
    state: CONTAINER_STATES[state],
    createdAt: BigInt(createdAt),
    image: image?.image ?? "",
    labels,
    annotations,
  };
}

export function toContainerSummary(container: WireContainer): ContainerSummary {
  return { ...toContainerParts(container), sandboxId: container.podSandboxId };
}

export function toContainerWrites({
  attributes,
  writableLayer,
}: WireContainerStats): ContainerWrites {
  const { id = "", metadata, labels = {} } = attributes ?? {};
  const writtenBytes = Number(writableLayer?.usedBytes?.value ?? 0);
  return { id, name: metadata?.name ?? "", labels, writtenBytes };
}

export function toContainerStatus(status: WireContainerStatus): ContainerStatus {
  const { startedAt, finishedAt, exitCode, reason, message, imageRef, logPath } = status;
  return {
    ...toContainerParts(status),
    startedAt: BigInt(startedAt),
    finishedAt: BigInt(finishedAt),
    exitCode,
    reason,
    message,
    imageRef,
    logPath,
  };
}

export function toImage(image: WireImage): ContainerImage {
  const { id, repoTags: tags, repoDigests: digests, size, uid, username } = image;
  return {
    id,
    tags,
    digests,
    bytes: Number(size),
    username,
    ...(uid === null ? {} : { uid: Number(uid.value) }),
  };
}

/** Conditions that a working runtime reports as true. Source: CRI RuntimeCondition */
const REQUIRED_CONDITIONS: readonly string[] = ["RuntimeReady", "NetworkReady"];

export function toProblem(conditions: readonly WireCondition[]): string | undefined {
  for (const type of REQUIRED_CONDITIONS) {
    const condition = conditions.find((candidate) => candidate.type === type);
    if (condition === undefined) return `${type} is missing`;
    if (!condition.status) return `${condition.reason}: ${condition.message}`;
  }
  return undefined;
}
