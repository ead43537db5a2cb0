// SPDX-License-Identifier: Apache-2.0
// Finds sandboxes of pods and their network namespaces over CRI.
import type {
  ContainerRuntime,
  Namespaces,
  Sandbox,
  Sandboxes,
  SandboxStatus,
  SandboxSummary,
} from "@patchbay/core/interfaces";
import { isMeshed } from "@patchbay/core/nics";
import { type Clock, type Logger, AppError, messageOf } from "@patchbay/base";

import { createContainerRuntime } from "./container-runtime.ts";
import { listDefaultEndpoints } from "./endpoints.ts";

/** Source: kubelet types, KubernetesPodUIDLabel. */
const UID_LABEL = "io.kubernetes.pod.uid";

export interface SandboxDeps {
  readonly runtime: Pick<ContainerRuntime, "listSandboxes" | "findSandbox">;
  readonly namespaces: Namespaces;
}

/** Maximum number of cached pods, far above the kubelet's default limit of 110. Source: kubelet, `--max-pods` */
const CACHED_PODS_MAX = 1000;

/** Finds pods' sandboxes through CRI. Ignores sandboxes on the host network or with an inaccessible network namespace. */
export function createCriSandboxes({ runtime, namespaces }: SandboxDeps): Sandboxes {
  const cachedIds = new Map<string, string>();
  const readSandbox = async (id: string, podUid: string): Promise<SandboxStatus | undefined> => {
    const status = await runtime.findSandbox(id);
    return status !== undefined && isReadyFor(status, podUid) ? status : undefined;
  };
  const findLatest = async (podUid: string): Promise<SandboxStatus | undefined> => {
    const listed = await runtime.listSandboxes({ labels: { [UID_LABEL]: podUid } });
    const latest = findLastReady(listed, podUid);
    return latest === undefined ? undefined : readSandbox(latest.id, podUid);
  };
  return {
    find: async (podUid) => {
      const id = cachedIds.get(podUid);
      const cachedStatus = id === undefined ? undefined : await readSandbox(id, podUid);
      const status = cachedStatus ?? (await findLatest(podUid));
      cachedIds.delete(podUid);
      if (status === undefined) return undefined;
      cachedIds.set(podUid, status.id);
      const [oldest] = cachedIds.keys();
      if (cachedIds.size > CACHED_PODS_MAX && oldest !== undefined) cachedIds.delete(oldest);
      return toSandbox(status, namespaces);
    },
    isReady: async (id) => (await runtime.findSandbox(id))?.state === "READY",
  };
}

/** Checks that the sandbox is ready and that its metadata contains the UID. The UID label proves nothing: any client can set labels. */
function isReadyFor({ state, metadata }: SandboxSummary, podUid: string): boolean {
  return state === "READY" && metadata.uid === podUid;
}

function findLastReady(
  listed: readonly SandboxSummary[],
  podUid: string,
): SandboxSummary | undefined {
  return listed
    .filter((sandbox) => isReadyFor(sandbox, podUid))
    .toSorted((a, b) => b.metadata.attempt - a.metadata.attempt)[0];
}

/** Lists paths of the network namespace, in the order to try. The first path may be on a mount that this process cannot see. */
function listNetnsPaths({ netnsPath, pid }: SandboxStatus): readonly string[] {
  if (netnsPath === undefined) return [];
  return pid === undefined ? [netnsPath] : [netnsPath, `/proc/${String(pid)}/ns/net`];
}

function toSandbox(status: SandboxStatus, namespaces: Namespaces): Sandbox | undefined {
  const { id, metadata } = status;
  for (const netnsPath of listNetnsPaths(status)) {
    const netns = namespaces.open(netnsPath);
    if (netns === undefined) continue;
    const netnsInode = netns.inode;
    netns.close();
    const pod = { namespace: metadata.namespace, name: metadata.name };
    return {
      id,
      podUid: metadata.uid,
      pod,
      netnsPath,
      netnsInode,
      ...(isMeshed(status) && { isMeshed: true }),
    };
  }
  return undefined;
}

const RETRY_PAUSE = { firstMs: 100, maxMs: 2000 };

interface RuntimeWait {
  readonly runtime: Pick<ContainerRuntime, "version">;
  readonly clock: Clock;
  readonly log: Logger;
}

/** Waits until the runtime answers or the signal is aborted. Logs a failure only if its reason changed. */
export async function waitForRuntime(
  { runtime, clock, log }: RuntimeWait,
  signal: AbortSignal,
): Promise<void> {
  let lastReason = "";
  for (
    let pauseMs = RETRY_PAUSE.firstMs;
    !signal.aborted;
    pauseMs = Math.min(pauseMs * 2, RETRY_PAUSE.maxMs)
  ) {
    try {
      log.info("found the container runtime", { ...(await runtime.version()) });
      return;
    } catch (error) {
      const reason = messageOf(error);
      if (reason !== lastReason) log.warn("waiting for the container runtime", { reason });
      lastReason = reason;
    }
    await clock.sleep(pauseMs, signal).catch(() => undefined);
  }
}

/** Time limit of a check, in milliseconds. It is below the 5 s limit of the kubelet's probe, so that the probe gets an answer. */
const PROBLEM_TIMEOUT_MS = 3000;

/** Returns why the runtime does not answer. Returns undefined if the runtime answers within 3 s. */
export async function findProblem({
  runtime,
  clock,
}: Omit<RuntimeWait, "log">): Promise<string | undefined> {
  const finished = new AbortController();
  const timeout = clock
    .sleep(PROBLEM_TIMEOUT_MS, finished.signal)
    .then(() =>
      messageOf(new AppError("CRI_TIMED_OUT", { call: "Version", timeoutMs: PROBLEM_TIMEOUT_MS })),
    )
    .catch(() => undefined);
  const answer = runtime.version().then(() => undefined, messageOf);
  try {
    return await Promise.race([answer, timeout]);
  } finally {
    finished.abort();
  }
}

export interface SandboxConnection {
  readonly sandboxes: Sandboxes;
  findProblem(): Promise<string | undefined>;
  /** Resolves when the runtime answers, or when the signal that was passed to {@link openSandboxConnection} is aborted. */
  readonly runtimeReady: Promise<void>;
  close(): void;
}

interface SandboxConnectionOptions {
  /** Addresses of the runtime. Undefined selects the default addresses. */
  readonly endpoints: readonly string[] | undefined;
  /** PID of a process whose root directory contains the default sockets. If undefined, the root directory of this process is used. */
  readonly hostProcess: number | undefined;
  readonly namespaces: Namespaces;
  readonly clock: Clock;
  readonly log: Logger;
}

export function openSandboxConnection(
  options: SandboxConnectionOptions,
  signal: AbortSignal,
): SandboxConnection {
  const { hostProcess, namespaces, clock, log } = options;
  const endpoints = options.endpoints ?? listDefaultEndpoints(hostProcess);
  const runtime = createContainerRuntime({ endpoints, clock });
  return {
    sandboxes: createCriSandboxes({ runtime, namespaces }),
    findProblem: () => findProblem({ runtime, clock }),
    runtimeReady: waitForRuntime({ runtime, clock, log }, signal),
    close: () => {
      runtime.close();
    },
  };
}
