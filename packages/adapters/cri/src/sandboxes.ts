// SPDX-License-Identifier: Apache-2.0
// Sandboxes of pods and their network namespaces, read over CRI only.
import type {
  ContainerRuntime,
  Namespaces,
  Sandbox,
  Sandboxes,
  SandboxStatus,
  SandboxSummary,
} from "@patchbay/core/interfaces";
import { type Clock, type Logger, AppError, messageOf } from "@patchbay/base";

import { createContainerRuntime } from "./container-runtime.ts";
import { defaultEndpoints } from "./endpoints.ts";

/** Source: kubelet types, KubernetesPodUIDLabel. */
const UID_LABEL = "io.kubernetes.pod.uid";

export interface SandboxDeps {
  readonly runtime: Pick<ContainerRuntime, "listSandboxes" | "findSandbox">;
  readonly namespaces: Namespaces;
}

/** Far above the number of pods on a node, by default 110. Source: `--max-pods` of the kubelet. */
const CACHED_PODS_MAX = 1000;

/** Finds sandboxes over CRI. Ignores those with host network or with a namespace that cannot be opened. */
export function createCriSandboxes({ runtime, namespaces }: SandboxDeps): Sandboxes {
  const cachedIds = new Map<string, string>();
  const readSandbox = async (id: string, podUid: string): Promise<SandboxStatus | undefined> => {
    const status = await runtime.findSandbox(id);
    return status !== undefined && isReadyFor(status, podUid) ? status : undefined;
  };
  const findLatest = async (podUid: string): Promise<SandboxStatus | undefined> => {
    const listed = await runtime.listSandboxes({ labels: { [UID_LABEL]: podUid } });
    const last = lastReady(listed, podUid);
    return last === undefined ? undefined : readSandbox(last.id, podUid);
  };
  return {
    find: async (podUid) => {
      const id = cachedIds.get(podUid);
      const known = id === undefined ? undefined : await readSandbox(id, podUid);
      const status = known ?? (await findLatest(podUid));
      cachedIds.delete(podUid);
      if (status === undefined) return undefined;
      cachedIds.set(podUid, status.id);
      const [oldest] = cachedIds.keys();
      if (cachedIds.size > CACHED_PODS_MAX && oldest !== undefined) cachedIds.delete(oldest);
      return toSandbox(status, namespaces);
    },
  };
}

/** Returns whether the sandbox is ready and the pod's. Ignores labels, because any client of the runtime sets them. */
function isReadyFor({ state, metadata }: SandboxSummary, podUid: string): boolean {
  return state === "READY" && metadata.uid === podUid;
}

function lastReady(listed: readonly SandboxSummary[], podUid: string): SandboxSummary | undefined {
  return listed
    .filter((sandbox) => isReadyFor(sandbox, podUid))
    .toSorted((one, other) => other.metadata.attempt - one.metadata.attempt)[0];
}

/** Returns paths to try, because the namespace's path may be in a mount that this process cannot see. */
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
    return { id, podUid: metadata.uid, pod, netnsPath, netnsInode };
  }
  return undefined;
}

const RETRY_PAUSE = { firstMs: 100, maxMs: 2000 };

interface RuntimeWait {
  readonly runtime: Pick<ContainerRuntime, "version">;
  readonly clock: Clock;
  readonly log: Logger;
}

/** Waits until the runtime answers or the signal is aborted. Logs each new reason for a failure. */
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

/** Timeout of a check, below the 5 s of a kubelet's probe. */
const PROBLEM_TIMEOUT_MS = 3000;

/** Returns the problem, or undefined when the runtime answers in time. */
export async function findProblem({
  runtime,
  clock,
}: Omit<RuntimeWait, "log">): Promise<string | undefined> {
  const done = new AbortController();
  const timeout = clock
    .sleep(PROBLEM_TIMEOUT_MS, done.signal)
    .then(() =>
      messageOf(new AppError("CRI_TIMED_OUT", { call: "Version", timeoutMs: PROBLEM_TIMEOUT_MS })),
    )
    .catch(() => undefined);
  const answer = runtime.version().then(() => undefined, messageOf);
  try {
    return await Promise.race([answer, timeout]);
  } finally {
    done.abort();
  }
}

/** Sandboxes of a node's pods, with the connection to the runtime. */
export interface SandboxConnection {
  readonly sandboxes: Sandboxes;
  /** Checks the runtime now, within 3 s. Returns undefined when it answers. */
  findProblem(): Promise<string | undefined>;
  /** Resolves when the runtime answers or the signal is aborted. */
  readonly answered: Promise<void>;
  close(): void;
}

interface SandboxConnectionOptions {
  /** Addresses of the runtime; undefined for the default ones. */
  readonly endpoints: readonly string[] | undefined;
  /** Pid of a process that sees the default addresses; undefined for this process. */
  readonly hostProcess: number | undefined;
  readonly namespaces: Namespaces;
  readonly clock: Clock;
  readonly log: Logger;
}

/** Connects to the runtime, which may start later. */
export function openSandboxes(
  options: SandboxConnectionOptions,
  signal: AbortSignal,
): SandboxConnection {
  const { hostProcess, namespaces, clock, log } = options;
  const endpoints = options.endpoints ?? defaultEndpoints(hostProcess);
  const runtime = createContainerRuntime({ endpoints, clock });
  return {
    sandboxes: createCriSandboxes({ runtime, namespaces }),
    findProblem: () => findProblem({ runtime, clock }),
    answered: waitForRuntime({ runtime, clock, log }, signal),
    close: () => {
      runtime.close();
    },
  };
}
