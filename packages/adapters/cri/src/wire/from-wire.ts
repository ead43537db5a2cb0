// SPDX-License-Identifier: Apache-2.0
// Answers of CRI v1 → what the port says of sandboxes, containers and images. Pure.
import type {
  ContainerImage,
  ContainerState,
  ContainerStatus,
  ContainerSummary,
  ContainerWrites,
  SandboxStatus,
  SandboxSummary,
} from "@patchbay/core/ports";
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
import { parseSandboxInfo } from "./sandbox-info.ts";

const NOBODY = { name: "", namespace: "", uid: "", attempt: 0 };

const CONTAINER_STATES: Readonly<Record<WireContainerState, ContainerState>> = {
  CONTAINER_CREATED: "CREATED",
  CONTAINER_RUNNING: "RUNNING",
  CONTAINER_EXITED: "EXITED",
  CONTAINER_UNKNOWN: "UNKNOWN",
};

/** A line of a list. */
export function toSandboxSummary(sandbox: WireSandbox): SandboxSummary {
  const { id, metadata, state, createdAt, labels, annotations } = sandbox;
  const { name, namespace, uid, attempt } = metadata ?? NOBODY;
  return {
    id,
    metadata: { name, namespace, uid, attempt },
    state: state === "SANDBOX_READY" ? "READY" : "NOTREADY",
    createdAt: BigInt(createdAt),
    labels,
    annotations,
  };
}

function ipsOf({ network }: WireSandboxStatus): readonly string[] {
  if (network === null) return [];
  return [network.ip, ...network.additionalIps.map(({ ip }) => ip)].filter((ip) => ip !== "");
}

/** A status with what the verbose part adds; undefined when the answer has none. */
export function toSandboxStatus(answer: WireSandboxStatusResponse): SandboxStatus | undefined {
  const { status } = answer;
  if (status === null) return undefined;
  const { pid, netnsPath } = parseSandboxInfo(answer.info);
  const known = { ...toSandboxSummary(status), ...(pid === undefined ? {} : { pid }) };
  if (status.linux?.namespaces?.options?.network === "NODE") return { ...known, ips: [] };
  // Where a path is not told, that of the living process is.
  const path = netnsPath ?? (pid === undefined ? undefined : `/proc/${String(pid)}/ns/net`);
  return { ...known, ips: ipsOf(status), ...(path === undefined ? {} : { netnsPath: path }) };
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

/** A line of a list. */
export function toContainerSummary(container: WireContainer): ContainerSummary {
  return { ...toContainerParts(container), sandboxId: container.podSandboxId };
}

/** What it has written. */
export function toContainerWrites({
  attributes,
  writableLayer,
}: WireContainerStats): ContainerWrites {
  const { id = "", metadata, labels = {} } = attributes ?? {};
  const writtenBytes = Number(writableLayer?.usedBytes?.value ?? 0);
  return { id, name: metadata?.name ?? "", labels, writtenBytes };
}

/** A status. */
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

/** An image. */
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

/** The conditions that must be true. Source: CRI RuntimeCondition. */
const REQUIRED: readonly string[] = ["RuntimeReady", "NetworkReady"];

/** What the first condition that must be true, and is not, says. */
export function toProblem(conditions: readonly WireCondition[]): string | undefined {
  for (const type of REQUIRED) {
    const condition = conditions.find((it) => it.type === type);
    if (condition === undefined) return `${type} is missing`;
    if (!condition.status) return `${condition.reason}: ${condition.message}`;
  }
  return undefined;
}
