// SPDX-License-Identifier: Apache-2.0
// A tenant's pod on a real containerd, with volumes, limits and rights as node-runtime sets them.
import { existsSync, lstatSync, readdirSync } from "node:fs";
import { join } from "node:path";
import { names } from "@patchbay/api";
import type { Pod, PodVolume } from "@patchbay/api/kubernetes";
import {
  createClock,
  createFiles,
  createProcessRunner,
  createVhostDirectories,
  createVolumeDisk,
} from "@patchbay/os";
import type { ContainerStatus } from "@patchbay/core/interfaces";
import { KeyedMutex, SharePool } from "@patchbay/base";
import { createFakeCache } from "@patchbay/kube/testing";
import { createFakeLogger } from "@patchbay/telemetry/testing";
import { eventually } from "@patchbay/support";
import {
  startContainerdRuntime,
  type ContainerdRuntimeBench,
} from "../contract/cri/containerd-runtime.ts";
import { toContainerConfig } from "../../packages/standalone/node-runtime/src/translate/container.ts";
import {
  buildHostsFilePath,
  toSandboxConfig,
} from "../../packages/standalone/node-runtime/src/translate/sandbox.ts";
import type { NodeFacts } from "../../packages/standalone/node-runtime/src/translate/node-facts.ts";
import {
  PREPARATION_LIMITS,
  createPodObjects,
  createPodTokens,
  enforceStorageLimits,
  prepareVolumes,
  removeVolumes,
  type VolumeDeps,
} from "../../packages/standalone/node-runtime/src/volumes/index.ts";

const USER = 1000;

export interface TenantPod {
  readonly pod: Pod;
  readonly containerId: string;
  /** The host's paths of its volumes, by name. */
  readonly paths: ReadonlyMap<string, string>;
}

/** The pod fields that a tenant may set. */
export interface TenantPodSpec {
  readonly script: string;
  readonly volumes?: readonly PodVolume[];
  readonly limits?: Readonly<Record<string, string>>;
}

function podOf(name: string, { script, volumes = [], limits = {} }: TenantPodSpec): Pod {
  return {
    apiVersion: "v1",
    kind: "Pod",
    metadata: { name, namespace: "tenant", uid: `uid-${name}` },
    spec: {
      nodeName: "node",
      restartPolicy: "Never",
      securityContext: { runAsUser: USER, runAsGroup: USER, fsGroup: USER },
      containers: [
        {
          name: "main",
          image: "suite",
          command: ["/bin/sh", "-c", script],
          resources: { limits },
          volumeMounts: volumes.map((volume) => ({
            name: volume.name,
            mountPath: `/${volume.name}`,
          })),
        },
      ],
      volumes,
    },
  };
}

/** Bytes on the disk of a file or of all files in a flat directory. */
export function bytesOnDisk(path: string): number {
  if (!existsSync(path)) return 0;
  const status = lstatSync(path);
  const inside = status.isDirectory() ? readdirSync(path).map((name) => join(path, name)) : [];
  return status.blocks * 512 + inside.reduce((sum, one) => sum + bytesOnDisk(one), 0);
}

export class TenantNode {
  readonly bench: ContainerdRuntimeBench;
  readonly facts: NodeFacts;
  readonly deps: VolumeDeps;
  readonly #stop: AbortController;

  private constructor(bench: ContainerdRuntimeBench) {
    const stop = new AbortController();
    const { directory } = bench.containerd;
    const clock = createClock();
    const files = createFiles();
    const log = createFakeLogger();
    this.bench = bench;
    this.#stop = stop;
    this.facts = {
      name: "node",
      hostIp: "192.0.2.1",
      memoryBytes: 2 ** 34,
      podsDir: join(directory, "pods"),
      logDir: join(directory, "logs"),
      cgroupParent: bench.cgroupParent,
    };
    const noObject = (): never => {
      throw new Error("these pods name no objects");
    };
    const noToken = (): never => {
      throw new Error("these pods have no tokens");
    };
    this.deps = {
      files,
      clock,
      log,
      node: this.facts,
      disk: createVolumeDisk({ runner: createProcessRunner() }),
      sockets: createVhostDirectories({
        runDir: join(directory, "run"),
        selinuxDir: directory,
        uid: names.LAUNCHER_UID,
      }),
      objects: createPodObjects(
        { openCache: noObject, readObject: noObject, clock, log },
        stop.signal,
      ),
      tokens: createPodTokens(noToken, { clock, log }),
      mutex: new KeyedMutex(),
      preparations: new SharePool(PREPARATION_LIMITS),
      images: { mount: noToken, unmount: () => Promise.resolve() },
      claims: { begin: noToken, end: () => Promise.resolve() },
      mayUseHostPaths: () => false,
      readHostDiskDirectories: () => Promise.resolve(undefined),
    };
  }

  static async start(): Promise<TenantNode> {
    return new TenantNode(await startContainerdRuntime());
  }

  /** Starts the tenant's pod; `deps`: on another disk than the node's. */
  async run(name: string, spec: TenantPodSpec, deps: VolumeDeps = this.deps): Promise<TenantPod> {
    const { runtime, image: reference } = this.bench;
    const pod = podOf(name, spec);
    const paths = await prepareVolumes(deps, pod);
    const podDirectory = join(this.facts.podsDir, pod.metadata.uid ?? "");
    await deps.files.writeAtomic(buildHostsFilePath(podDirectory), "");
    const sandbox = toSandboxConfig(pod, 0, this.facts);
    const sandboxId = await runtime.runSandbox(sandbox);
    const image = await runtime.findImage(reference);
    const [container] = pod.spec.containers;
    if (image === undefined || container === undefined) throw new Error("no image");
    const config = toContainerConfig({
      pod,
      container,
      image,
      attempt: 0,
      volumes: paths,
      podDirectory,
      node: this.facts,
      podIps: [],
      sources: { configMaps: new Map(), secrets: new Map() },
    });
    const containerId = await runtime.createContainer(sandboxId, config, sandbox);
    await runtime.startContainer(containerId);
    return { pod, containerId, paths };
  }

  /** The container's termination state. */
  async ended({ containerId }: TenantPod, withinMs = 60_000): Promise<ContainerStatus> {
    return eventually(
      async () => {
        const status = await this.bench.runtime.findContainer(containerId);
        return status?.state === "EXITED" ? status : undefined;
      },
      { withinMs },
    );
  }

  /** The message that the pod is evicted with. */
  async evicted({ pod }: TenantPod, deps: VolumeDeps = this.deps): Promise<string> {
    const { promise, resolve } = Promise.withResolvers<string>();
    const pods = createFakeCache<Pod>();
    pods.put(pod);
    const over = new AbortController();
    const { disk, files, node, clock, log } = deps;
    const { runtime } = this.bench;
    const evict = (_uid: string, message: string): void => {
      resolve(message);
    };
    const looking = enforceStorageLimits(
      { disk, files, node, clock, log, pods, runtime, evict },
      over.signal,
    );
    try {
      return await promise;
    } finally {
      over.abort();
      await looking;
    }
  }

  /** Deletes the pod, as after its object's deletion. */
  async remove({ pod }: TenantPod): Promise<void> {
    const { runtime } = this.bench;
    const { uid = "" } = pod.metadata;
    for (const { id, metadata } of await runtime.listSandboxes()) {
      if (metadata.uid !== uid) continue;
      await runtime.stopSandbox(id);
      await runtime.removeSandbox(id);
    }
    await removeVolumes(this.deps, uid);
  }

  podDirectory({ pod }: TenantPod): string {
    return join(this.facts.podsDir, pod.metadata.uid ?? "");
  }

  logDirectory({ pod }: TenantPod): string {
    return join(this.facts.logDir, `tenant_${pod.metadata.name}_${pod.metadata.uid ?? ""}`, "main");
  }

  async close(): Promise<void> {
    this.#stop.abort();
    const uids = await this.deps.files.list(this.facts.podsDir);
    for (const uid of uids) await this.deps.disk.unmountAll(join(this.facts.podsDir, uid));
    await this.bench.close();
  }
}
