// SPDX-License-Identifier: Apache-2.0
// What the suites of a container runtime need of it, and the pods that they make.
import { expect, vi } from "vitest";
import type { ContainerConfig, ContainerRuntime, SandboxConfig } from "@patchbay/core/ports";

/** A runtime with one image, and commands that the image knows. */
export interface ContainerRuntimeBench {
  readonly runtime: ContainerRuntime;
  /** Its tag. */
  readonly image: string;
  /** Runs until it is asked to end, which it does with 143. */
  readonly runner: readonly string[];
  /** Runs, and does not listen. */
  readonly stubborn: readonly string[];
  /** Ends with 3 at once. */
  readonly failing: readonly string[];
  /** Ends with 0 at once. */
  readonly done: readonly string[];
  /** For `execSync`: writes `out` and `err`, each to its own stream, and ends with 3. */
  readonly speaker: readonly string[];
  /** For `execSync`: ends with 0 when a runner listens, and one that is stubborn no longer does; else with something else. */
  readonly listening: readonly string[];
  /** For `execSync`: says 15 MiB, and ends with 0. */
  readonly chatterer: readonly string[];
  /** For `execSync`: does not end. */
  readonly sleeper: readonly string[];
  /** Absolute; it is there. */
  readonly logDirectory: string;
  readonly cgroupParent: string;
  /** Resolves when at least so much time has passed. */
  pass(ms: number): Promise<void>;
  /** The runtime dies; what runs goes on. */
  stop(): Promise<void> | void;
  /** It is back. */
  start(): Promise<void> | void;
  /** The shim of a sandbox dies. */
  killSandbox(id: string): Promise<void> | void;
  close(): Promise<void> | void;
}

/** What a pod of that name would be given. */
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

/** What a container without any privilege would be given. */
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

/** How long a runtime or a program may take, for `vi.waitFor`; milliseconds. */
export const SOON = { timeout: 15_000, interval: 20 };

/** Resolves when a runner would end if it was asked to, and one that is stubborn would not. */
export async function untilListening(
  { runtime, listening }: Pick<ContainerRuntimeBench, "runtime" | "listening">,
  id: string,
): Promise<void> {
  await vi.waitFor(async () => {
    expect(await runtime.execSync(id, listening, 10)).toMatchObject({ exitCode: 0 });
  }, SOON);
}

/** Removes what a test has left; again where that meets the end of a container: containerd 1.6 fails it once. */
export async function removeAllSandboxes(runtime: ContainerRuntime): Promise<void> {
  for (const { id } of await runtime.listSandboxes()) {
    await vi.waitFor(() => runtime.stopSandbox(id), SOON);
    await runtime.removeSandbox(id);
  }
}
