// SPDX-License-Identifier: Apache-2.0
import { names, PODS } from "@patchbay/api";
import type { Pod } from "@patchbay/api/kubernetes";
import {
  createImageMounts,
  type ContainerdLayout,
  listAdded,
  listUnpacking,
  readSnapshotter,
} from "@patchbay/containerd";
import { AppError, messageOf, type Logger, KeyedMutex, SharePool } from "@patchbay/base";
import type { DaemonContext } from "@patchbay/daemon";
import { createCache, keyOf } from "@patchbay/kube";
import { createVhostDirectories, createVolumeDisk } from "@patchbay/os";
import type { Cache, ContainerRuntime, Files, ProcessRunner } from "@patchbay/core/interfaces";

import {
  createClaimGrowth,
  createClaimUses,
  type ClaimMachine,
  type ClaimUses,
} from "../claims/index.ts";
import { isProductPod } from "../policy/pod-policy.ts";
import { UID_INDEX, type Volumes } from "../pods/deps.ts";
import type { NodeFacts } from "../translate/node-facts.ts";
import {
  PREPARATION_LIMITS,
  createPodObjects,
  createPodTokens,
  createHostDiskDirectoriesReader,
  enforceStorageLimits,
  refreshVolumes,
  prepareVolumes,
  removeVolumes,
  createTokenRequester,
  type ImageMounts,
  type VolumeDeps,
} from "../volumes/index.ts";
import { type AccessDeps, createGrants, type Grants } from "../images/access.ts";
import type { ImageGarbageDeps } from "../images/garbage.ts";
import { createPullGuard, NO_PULL_GUARD, type PullGuard } from "../images/pull-guard.ts";

/** Time limit of one reconcile pass over a pod, long enough to check the file systems of several claims. */
export const POD_PASS_TIMEOUT_MS = 1_800_000;

export interface VolumeMachine {
  readonly files: Files;
  readonly runner: ProcessRunner;
  readonly facts: NodeFacts;
  readonly dataplaneGroup: number;
  readonly claims?: ClaimMachine;
  readonly containerd?: ContainerdLayout;
}

function createMounts({ files, runner, containerd: layout }: VolumeMachine): ImageMounts {
  if (layout === undefined) {
    return {
      mount: (reference) => {
        const reason = `image ${reference} cannot be mounted: the node was started without --containerd-dir`;
        throw new AppError("RUNTIME_VOLUME_FAILED", { volume: reference, reason });
      },
      unmount: () => Promise.resolve(),
    };
  }
  const mounts = createImageMounts({ files, runner, layout });
  return {
    mount: async (reference, path) => {
      await files.ensureDirectory(path);
      await mounts.mount(reference, path);
    },
    unmount: (path) => mounts.unmount(path),
  };
}

function createClaims({ client }: DaemonContext, { claims }: VolumeMachine): ClaimUses {
  if (claims !== undefined) return createClaimUses({ ...claims, store: client.store });
  return {
    begin: (_pod, { name, claimName }) => {
      const reason = `claim ${claimName} cannot be used: the node was started without --claims-dir`;
      throw new AppError("RUNTIME_VOLUME_FAILED", { volume: name, reason });
    },
    end: () => Promise.resolve(),
  };
}

export function createVolumeDeps(context: DaemonContext, machine: VolumeMachine): VolumeDeps {
  const { client, clock, log, signal } = context;
  const { files, runner, facts } = machine;
  return {
    files,
    clock,
    log,
    node: facts,
    images: createMounts(machine),
    claims: createClaims(context, machine),
    disk: createVolumeDisk({ runner }),
    sockets: createVhostDirectories({
      runDir: "/run",
      selinuxDir: "/sys/fs/selinux",
      uid: names.LAUNCHER_UID,
      dataplaneGroup: machine.dataplaneGroup,
    }),
    objects: createPodObjects(
      {
        clock,
        log,
        openCache: (type, namespace) =>
          createCache(client.reflect(type, { namespace, isIdentityOnly: true }), { logger: log }),
        readObject: (type, key) => client.store.find(type, key),
      },
      signal,
    ),
    tokens: createPodTokens(createTokenRequester(client), { clock, log }),
    mutex: new KeyedMutex(),
    preparations: new SharePool(PREPARATION_LIMITS),
    mayUseHostPaths: isProductPod,
    readHostDiskDirectories: createHostDiskDirectoriesReader(client.store),
  };
}

export function bindVolumes(deps: VolumeDeps): Volumes {
  return {
    prepare: (pod) => prepareVolumes(deps, pod),
    remove: (uid) => removeVolumes(deps, uid),
  };
}

/** Sets the pod's phase to Failed, after which the pod's reconciler stops the containers. */
async function evict(context: DaemonContext, pod: Pod, message: string): Promise<void> {
  const fields = { status: { phase: "Failed", reason: "Evicted", message } };
  const patch = { type: "merge", fields } as const;
  await context.client.store.patch(PODS, keyOf(pod), patch, { subresource: "status" });
}

export async function runVolumes(
  context: DaemonContext,
  deps: VolumeDeps,
  sources: {
    readonly pods: Cache<Pod>;
    readonly runtime: ContainerRuntime;
    readonly claims?: ClaimMachine;
  },
): Promise<void> {
  const { pods, runtime, claims } = sources;
  const { clock, log, signal } = context;
  const { disk, files, node } = deps;
  const watch = context.health.watchLoop("volumes", POD_PASS_TIMEOUT_MS);
  const storage = {
    disk,
    files,
    node,
    pods,
    clock,
    log,
    runtime,
    ...(claims && {
      growths: createClaimGrowth({
        ...claims,
        clock,
        usedBytes: (paths) => disk.usedBytes(paths),
      }),
    }),
    evict: (uid: string, message: string): void => {
      const [pod] = pods.listBy(UID_INDEX, uid);
      if (pod === undefined) return;
      evict(context, pod, message).catch((error: unknown) => {
        log.warn("pod cannot be evicted", { uid, reason: messageOf(error) });
      });
    },
  };
  await Promise.all([
    refreshVolumes(deps, { pods, uidIndex: UID_INDEX, watch }, signal),
    enforceStorageLimits(storage, signal),
  ]);
}

export interface ImageDeps extends AccessDeps, Pick<ImageGarbageDeps, "listAdded"> {
  readonly grants: Grants;
}

/** Creates dependencies that store grants in `directory`. If another program manages containerd, no image counts as added by a user. */
export function createImageDeps(
  machine: Pick<VolumeMachine, "containerd" | "files" | "runner">,
  directory: string,
  log: Logger,
): ImageDeps {
  const { containerd: layout, files, runner } = machine;
  const grants = createGrants({ files, log, directory });
  if (layout === undefined) return { grants, listAdded: () => Promise.resolve([]) };
  return {
    grants,
    isMarkedAsAdded: async (name) => (await listAdded({ runner, layout }, name)).length > 0,
    listAdded: () => listAdded({ runner, layout }),
  };
}

/** Returns NO_PULL_GUARD when another program manages containerd, because the guard requires access to containerd's layers. */
export function choosePullGuard(
  { clock, log, signal }: DaemonContext,
  { containerd: layout, files, runner }: Pick<VolumeMachine, "containerd" | "files" | "runner">,
): PullGuard {
  if (layout === undefined) return NO_PULL_GUARD;
  return createPullGuard({
    clock,
    files,
    log,
    signal,
    imagesDir: layout.root,
    listUnpacking: async () =>
      listUnpacking({ runner, layout }, await readSnapshotter(files, layout)),
  });
}
