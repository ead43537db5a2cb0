// SPDX-License-Identifier: Apache-2.0
// Requirements of the contract suites, and the pods that they create.
import { expect, vi } from "vitest";
import type { ContainerConfig, ContainerRuntime, SandboxConfig } from "@patchbay/core/interfaces";

/** A runtime with one image, and commands in that image. */
export interface ContainerRuntimeBench {
  readonly runtime: ContainerRuntime;
  readonly image: string;
  /** Runs until it is asked to end, and exits with 143. */
  readonly runner: readonly string[];
  /** Runs and ignores requests to end. */
  readonly stubborn: readonly string[];
  /** Exits with 3 at once. */
  readonly failing: readonly string[];
  /** Exits with 0 at once. */
  readonly done: readonly string[];
  /** For `execSync`: writes `out` to stdout and `err` to stderr, and exits with 3. */
  readonly speaker: readonly string[];
  /** For `execSync`: exits with 0 once a runner handles signals and a stubborn one ignores them. */
  readonly listening: readonly string[];
  /** For `execSync`: writes 15 MiB, and exits with 0. */
  readonly chatterer: readonly string[];
  /** For `execSync`: does not end. */
  readonly sleeper: readonly string[];
  /** Absolute path of an existing directory. */
  readonly logDirectory: string;
  readonly cgroupParent: string;
  /** Resolves when at least this much time has passed. */
  pass(ms: number): Promise<void>;
  /** Stops the runtime; containers keep running. */
  stop(): Promise<void> | void;
  start(): Promise<void> | void;
  /** Crashes the shim of a sandbox. */
  killSandbox(id: string): Promise<void> | void;
  close(): Promise<void> | void;
}

export function sandboxConfigFor(
  bench: Pick<ContainerRuntimeBench, "logDirectory" | "cgroupParent">,
  name: string,
): SandboxConfig {
  const metadata = { name, namespace: "ns1", uid: `uid-of-${name}`, attempt: 0 };
  return {
    metadata,
    hostname: name,
    logDirectory: `${bench.logDirectory}/ns1_${name}_${metadata.uid}`,
    labels: { "io.kubernetes.pod.name": name, suite: "container-runtime" },
    annotations: { "patchbay.dev/note": "kept as it is" },
    cgroupParent: bench.cgroupParent,
    sysctls: {},
    security: {
      namespaces: { network: "POD", pid: "CONTAINER", ipc: "POD" },
      supplementalGroups: [],
      readonlyRootfs: false,
      privileged: false,
      seccomp: "RuntimeDefault",
    },
  };
}

/** Returns the configuration of an unprivileged container. */
export function containerConfigFor(
  bench: Pick<ContainerRuntimeBench, "image">,
  command: readonly string[],
  attempt = 0,
): ContainerConfig {
  return {
    metadata: { name: "main", attempt },
    image: bench.image,
    command,
    args: [],
    workingDir: "/",
    env: [["WHO", "suite"]],
    mounts: [],
    devices: [],
    labels: { "io.kubernetes.container.name": "main" },
    annotations: {},
    logPath: `main/${String(attempt)}.log`,
    stdin: false,
    stdinOnce: false,
    tty: false,
    resources: { memoryLimitBytes: 64 * 1024 * 1024 },
    security: {
      namespaces: { network: "POD", pid: "CONTAINER", ipc: "POD" },
      capabilities: { add: [], drop: ["ALL"] },
      privileged: false,
      readonlyRootfs: true,
      supplementalGroups: [],
      noNewPrivileges: true,
      runAsUser: 1000,
      runAsGroup: 1000,
      maskedPaths: ["/proc/kcore"],
      readonlyPaths: ["/proc/sys"],
      seccomp: "RuntimeDefault",
    },
  };
}

/** Timeout for `vi.waitFor`, milliseconds. */
export const SOON = { timeout: 60_000, interval: 20 };

/** Waits until a runner handles requests to end, or a stubborn program ignores them. */
export async function untilListening(
  { runtime, listening }: Pick<ContainerRuntimeBench, "runtime" | "listening">,
  id: string,
): Promise<void> {
  await vi.waitFor(async () => {
    expect(await runtime.execSync(id, listening, 10)).toMatchObject({ exitCode: 0 });
  }, SOON);
}

/** Retries the stop, because containerd 1.6 fails once when it coincides with a container's end. */
export async function removeAllSandboxes(runtime: ContainerRuntime): Promise<void> {
  for (const { id } of await runtime.listSandboxes()) {
    await vi.waitFor(() => runtime.stopSandbox(id), SOON);
    await runtime.removeSandbox(id);
  }
}
