// SPDX-License-Identifier: Apache-2.0
// What pods mount: brings the volumes' adapters together, and starts what keeps them current and within their limits.
import { names, PODS, type Pod } from "@patchbay/api";
import { createImageViews, type ContainerdLayout } from "@patchbay/containerd";
import { AppError, messageOf } from "@patchbay/core";
import type { DaemonContext } from "@patchbay/daemon";
import { createCache, keyOf } from "@patchbay/kube";
import { createVhostDirectories, createVolumeDisk } from "@patchbay/os";
import type { Cache, ContainerRuntime, Files, ProcessRunner } from "@patchbay/core/ports";
import { KeyedMutex } from "@patchbay/core/keyed-mutex";
import {
  createClaimGrowth,
  createClaimUses,
  type ClaimMachine,
  type ClaimUses,
} from "../claims/index.ts";
import { isProductPod } from "../policy/product.ts";
import { BY_UID, type Volumes } from "../pods/deps.ts";
import type { NodeFacts } from "../translate/node-facts.ts";
import {
  createPodObjects,
  createPodTokens,
  hostDisksOf,
  keepStorageLimits,
  keepVolumesCurrent,
  prepareVolumes,
  removeVolumes,
  tokenRequester,
  type ImageViews,
  type OpenCache,
  type VolumeDeps,
} from "../volumes/index.ts";

/** How long a pass over a pod may go without progress, milliseconds: two of its claims may be checked, 600 s each. */
export const PASS_MS = 1_800_000;

/** What volumes need of the machine. */
export interface VolumeMachine {
  readonly files: Files;
  readonly runner: ProcessRunner;
  readonly facts: NodeFacts;
  /** Who makes sockets of vhost-user beside root; 0: nobody. */
  readonly dataplaneGroup: number;
  /** Where claims are kept; absent: pods have none. */
  readonly claims?: ClaimMachine;
  /** The containerd whose images are mounted; absent: none are. */
  readonly containerd?: ContainerdLayout;
}

function viewsOf({ files, runner, containerd: layout }: VolumeMachine): ImageViews {
  if (layout === undefined) {
    return {
      show: (reference) => {
        const reason = `image ${reference} cannot be mounted: the node was started without --containerd-dir`;
        throw new AppError("RUNTIME_VOLUME_FAILED", { volume: reference, reason });
      },
      release: () => Promise.resolve(),
    };
  }
  const views = createImageViews({ files, runner, layout });
  return {
    show: async (reference, path) => {
      await files.ensureDirectory(path);
      await views.show(reference, path);
    },
    release: (path) => views.release(path),
  };
}

function claimsOf({ client }: DaemonContext, { claims }: VolumeMachine): ClaimUses {
  if (claims !== undefined) return createClaimUses({ ...claims, store: client.store });
  return {
    begin: (_pod, { name, claimName }) => {
      const reason = `claim ${claimName} cannot be used: the node was started without --claims-dir`;
      throw new AppError("RUNTIME_VOLUME_FAILED", { volume: name, reason });
    },
    end: () => Promise.resolve(),
  };
}

/** What the volumes of all pods are made with. */
export function volumeDepsOf(context: DaemonContext, machine: VolumeMachine): VolumeDeps {
  const { client, clock, log, signal } = context;
  const { files, runner, facts } = machine;
  const openCache: OpenCache = (type, selection) =>
    createCache(client.reflect(type, selection), { logger: log });
  return {
    files,
    clock,
    log,
    node: facts,
    images: viewsOf(machine),
    claims: claimsOf(context, machine),
    disk: createVolumeDisk({ runner }),
    sockets: createVhostDirectories({
      runDir: "/run",
      selinuxDir: "/sys/fs/selinux",
      uid: names.LAUNCHER_UID,
      dataplaneGroup: machine.dataplaneGroup,
    }),
    objects: createPodObjects({ clock, openCache }, signal),
    tokens: createPodTokens(tokenRequester(client), { clock, log }),
    mutex: new KeyedMutex(),
    mayUseHostPaths: isProductPod,
    findHostDisks: hostDisksOf(client.store),
  };
}

/** The part that the loop over pods calls. */
export function volumesOf(deps: VolumeDeps): Volumes {
  return {
    prepare: (pod) => prepareVolumes(deps, pod),
    remove: (uid) => removeVolumes(deps, uid),
  };
}

/** Ends a pod for ever by saying so: the loop over pods acts on the phase. */
async function evict(context: DaemonContext, pod: Pod, message: string): Promise<void> {
  const fields = { status: { phase: "Failed", reason: "Evicted", message } };
  const patch = { type: "merge", fields } as const;
  await context.client.store.patch(PODS, keyOf(pod), patch, { subresource: "status" });
}

/** Keeps volumes current and within their limits until the signal is aborted. */
export async function keepVolumes(
  context: DaemonContext,
  deps: VolumeDeps,
  from: {
    readonly pods: Cache<Pod>;
    readonly runtime: ContainerRuntime;
    readonly claims?: ClaimMachine;
  },
): Promise<void> {
  const { pods, runtime, claims } = from;
  const { clock, log, signal } = context;
  const { disk, files, node } = deps;
  const watch = context.health.watchLoop("volumes", PASS_MS);
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
      const [pod] = pods.listBy(BY_UID, uid);
      if (pod === undefined) return;
      evict(context, pod, message).catch((error: unknown) => {
        log.warn("pod cannot be evicted", { uid, reason: messageOf(error) });
      });
    },
  };
  await Promise.all([
    keepVolumesCurrent(deps, { pods, uidIndex: BY_UID, watch }, signal),
    keepStorageLimits(storage, signal),
  ]);
}
