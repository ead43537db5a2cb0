// SPDX-License-Identifier: Apache-2.0
// Runs of one container in a fake runtime, with logs on disk.
import type { ContainerConfig, SandboxConfig } from "@patchbay/core/interfaces";
import type { FakeContainerRuntime } from "@patchbay/cri/testing";

export const RUN_UID = "uid-1";

const NAMESPACES = { network: "POD", pid: "CONTAINER", ipc: "POD" } as const;
const IMAGE = { id: "image-1", tags: ["i"], digests: [], bytes: 1, username: "" };

function buildSandboxConfig(directory: string): SandboxConfig {
  return {
    metadata: { name: "p", namespace: "ns", uid: RUN_UID, attempt: 0 },
    hostname: "p",
    logDirectory: directory,
    cgroupParent: "",
    sysctls: {},
    annotations: {},
    labels: { "io.kubernetes.pod.uid": RUN_UID },
    security: {
      namespaces: NAMESPACES,
      supplementalGroups: [],
      readonlyRootfs: false,
      privileged: false,
      seccomp: "RuntimeDefault",
    },
  };
}

function buildContainerConfig(attempt: number): ContainerConfig {
  return {
    metadata: { name: "c", attempt },
    image: "i",
    command: [],
    args: [],
    workingDir: "",
    env: [],
    mounts: [],
    devices: [],
    annotations: {},
    resources: {},
    labels: { "io.kubernetes.pod.uid": RUN_UID },
    logPath: `c/${String(attempt)}.log`,
    stdin: false,
    stdinOnce: false,
    tty: false,
    security: {
      namespaces: NAMESPACES,
      capabilities: { add: [], drop: [] },
      privileged: false,
      readonlyRootfs: false,
      supplementalGroups: [],
      noNewPrivileges: true,
      maskedPaths: [],
      readonlyPaths: [],
      seccomp: "RuntimeDefault",
    },
  };
}

/** Runs of the container `c` of pod `ns/p`. */
export interface Runs {
  /** Starts the next run and returns its id. Its log is `c/ATTEMPT.log` below the directory. */
  run(): Promise<string>;
}

export function createRuns(runtime: FakeContainerRuntime, directory: string): Runs {
  runtime.putImage(IMAGE);
  const sandbox = buildSandboxConfig(directory);
  let attempt = -1;
  return {
    run: async () => {
      attempt += 1;
      const [known] = await runtime.listSandboxes();
      const box = known?.id ?? (await runtime.runSandbox(sandbox));
      const id = await runtime.createContainer(box, buildContainerConfig(attempt), sandbox);
      await runtime.startContainer(id);
      return id;
    },
  };
}
