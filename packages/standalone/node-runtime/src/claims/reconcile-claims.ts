// SPDX-License-Identifier: Apache-2.0
import { PERSISTENT_VOLUME_CLAIMS, PERSISTENT_VOLUMES } from "@patchbay/api";
import type { PersistentVolume, PersistentVolumeClaim, KubeObject } from "@patchbay/api/kubernetes";
import { AppError, isAppError, messageOf } from "@patchbay/base";
import {
  keyOf,
  after,
  createQueue,
  done,
  parseKey,
  printKey,
  runReconciler,
  type Next,
  type Queue,
} from "@patchbay/kube";
import type { ClaimDeps } from "./deps.ts";
import {
  isHandle,
  buildClaimPaths,
  type ClaimPaths,
  BIND_COMPLETED_ANNOTATION,
  BOUND_BY_CONTROLLER_ANNOTATION,
  PROVISIONER,
  STORAGE_PROVISIONER_ANNOTATION,
  VOLUME_FINALIZER,
} from "./names.ts";
import {
  type ClaimAction,
  planClaim,
  findVolumeName,
  type ClaimFacts,
  buildClaimReference,
  sumPromisedBytes,
} from "./plan/claim.ts";
import { type VolumeAction, planVolume } from "./plan/volume.ts";
import { join } from "node:path";
import type { Change } from "@patchbay/core/interfaces";

const PRIVATE_MODE = 0o700;

function findClaimPaths({ claimsDir }: ClaimDeps, handle: string): ClaimPaths {
  if (isHandle(handle)) return buildClaimPaths(claimsDir, handle);
  const reason = `${handle} is not the name of a volume of this machine`;
  throw new AppError("RUNTIME_VOLUME_FAILED", { volume: handle, reason });
}

async function createVolume({ store, log }: ClaimDeps, volume: PersistentVolume): Promise<void> {
  try {
    await store.create(PERSISTENT_VOLUMES, volume);
    log.info("volume created for a claim", { object: volume.metadata.name });
  } catch (error) {
    // The volume may already exist, although the watch has not reported the volume yet.
    if (!isAppError(error, "KUBE_ALREADY_EXISTS")) throw error;
  }
}

async function createStorage(
  deps: ClaimDeps,
  { handle, size }: Extract<ClaimAction, { readonly kind: "createStorage" }>,
): Promise<void> {
  const { directory, file } = findClaimPaths(deps, handle);
  await deps.files.ensureDirectory(directory, PRIVATE_MODE);
  await deps.disk.make(file, size);
}

function reportVolume({ store }: ClaimDeps, name: string, phase: string): Promise<unknown> {
  const patch = { type: "merge", fields: { status: { phase } } } as const;
  return store.patch(PERSISTENT_VOLUMES, { name }, patch, { subresource: "status" });
}

function bindClaim(
  { store }: ClaimDeps,
  claim: PersistentVolumeClaim,
  volumeName: string,
): Promise<unknown> {
  const annotations = {
    [BIND_COMPLETED_ANNOTATION]: "yes",
    [BOUND_BY_CONTROLLER_ANNOTATION]: "yes",
    [STORAGE_PROVISIONER_ANNOTATION]: PROVISIONER,
  };
  const { resourceVersion } = claim.metadata;
  const fields = { metadata: { annotations, resourceVersion }, spec: { volumeName } };
  return store.patch(PERSISTENT_VOLUME_CLAIMS, keyOf(claim), { type: "merge", fields });
}

function setClaimRef(
  { store }: ClaimDeps,
  claim: PersistentVolumeClaim,
  volume: PersistentVolume,
): Promise<unknown> {
  const { resourceVersion } = volume.metadata;
  const fields = { metadata: { resourceVersion }, spec: { claimRef: buildClaimReference(claim) } };
  return store.patch(PERSISTENT_VOLUMES, keyOf(volume), { type: "merge", fields });
}

export async function actOnClaim(
  deps: ClaimDeps,
  claim: PersistentVolumeClaim,
  action: ClaimAction,
): Promise<void> {
  switch (action.kind) {
    case "note": {
      const { type, reason, message } = action;
      deps.recorder.record(claim, { type, reason, message });
      return;
    }
    case "createVolume":
      return createVolume(deps, action.volume);
    case "createStorage":
      return createStorage(deps, action);
    case "setClaimRef":
      await setClaimRef(deps, claim, action.volume);
      return;
    case "bindClaim":
      await bindClaim(deps, claim, action.volumeName);
      return;
    case "reportClaim": {
      const patch = { type: "merge", fields: { status: action.status } } as const;
      const options = { subresource: "status" } as const;
      await deps.store.patch(PERSISTENT_VOLUME_CLAIMS, keyOf(claim), patch, options);
      return;
    }
    case "reportVolume":
      await reportVolume(deps, action.name, action.phase);
  }
}

/** Returns whether the volume's data may be removed. Reads the objects from the API server, because the caches may be stale. */
async function mayBeRemoved({ store }: ClaimDeps, volume: PersistentVolume): Promise<boolean> {
  const currentVolume = await store.find(PERSISTENT_VOLUMES, keyOf(volume));
  if (currentVolume === undefined || currentVolume.metadata.uid !== volume.metadata.uid)
    return false;
  const { claimRef, persistentVolumeReclaimPolicy: policy } = currentVolume.spec;
  if (claimRef?.uid === undefined || policy !== "Delete") return false;
  const { namespace = "", name = "", uid } = claimRef;
  const claim = await store.find(PERSISTENT_VOLUME_CLAIMS, { namespace, name });
  return claim?.metadata.uid !== uid;
}

async function removeStorage(deps: ClaimDeps, volume: PersistentVolume): Promise<void> {
  const { disk, files, log } = deps;
  const { name } = volume.metadata;
  if (!(await mayBeRemoved(deps, volume))) {
    const reason = "its claim exists again, or its reclaim policy was changed";
    throw new AppError("RUNTIME_VOLUME_FAILED", { volume: name, reason });
  }
  const { directory, file, mount, users } = findClaimPaths(
    deps,
    volume.spec.csi?.volumeHandle ?? "",
  );
  const userUids = await files.list(users);
  if (userUids.length > 0) {
    const reason = `its claim was deleted, but pods still use it: ${userUids.join(", ")}`;
    throw new AppError("RUNTIME_VOLUME_FAILED", { volume: name, reason });
  }
  await disk.release(file, mount);
  await files.remove(directory);
  log.info("storage removed with its claim", { object: name });
}

async function removeVolumeFinalizer(
  { store }: ClaimDeps,
  { metadata }: PersistentVolume,
): Promise<void> {
  const currentVolume = await store.find(PERSISTENT_VOLUMES, { name: metadata.name });
  if (currentVolume?.metadata.uid !== metadata.uid) return;
  const { finalizers = [], resourceVersion } = currentVolume?.metadata ?? {};
  const otherFinalizers = finalizers.filter((finalizer) => finalizer !== VOLUME_FINALIZER);
  const fields = { metadata: { resourceVersion, finalizers: otherFinalizers } };
  await store.patch(PERSISTENT_VOLUMES, { name: metadata.name }, { type: "merge", fields });
}

export async function actOnVolume(deps: ClaimDeps, action: VolumeAction): Promise<void> {
  switch (action.kind) {
    case "reportVolume":
      await reportVolume(deps, action.name, action.phase);
      return;
    case "removeStorage":
      return removeStorage(deps, action.volume);
    case "deleteVolume":
      return deps.store.delete(PERSISTENT_VOLUMES, { name: action.name });
    case "removeVolumeFinalizer":
      return removeVolumeFinalizer(deps, action.volume);
  }
}

const CONCURRENCY = 2;

const CAPACITY_RECHECK_INTERVAL_MS = 60_000;

async function collectFacts(
  deps: ClaimDeps,
  claim: PersistentVolumeClaim,
  volumes: readonly PersistentVolume[],
): Promise<ClaimFacts> {
  const { classes, claimsDir, files, nodeName } = deps;
  const { storageClassName = "" } = claim.spec;
  const volumeName = findVolumeName(claim);
  const otherVolumes = volumes.filter(({ metadata }) => metadata.name !== volumeName);
  const { sizeBytes: diskBytes } = await files.readSpace(claimsDir);
  return {
    claim,
    nodeName,
    storageClass: storageClassName === "" ? undefined : classes.find({ name: storageClassName }),
    volume: volumes.find(({ metadata }) => metadata.name === volumeName),
    claimCapacity: { diskBytes, promisedBytes: sumPromisedBytes(otherVolumes) },
  };
}

async function executePlan(
  deps: ClaimDeps,
  claim: PersistentVolumeClaim,
  plan: readonly ClaimAction[],
): Promise<void> {
  try {
    for (const action of plan) await actOnClaim(deps, claim, action);
  } catch (error) {
    const createsStorage = plan.some(({ kind }) => kind === "createStorage");
    const isApiError = isAppError(error) && error.code.startsWith("KUBE_");
    if (createsStorage && !isApiError) {
      const message = `its storage cannot be created: ${messageOf(error)}`;
      deps.recorder.record(claim, { type: "Warning", reason: "ProvisioningFailed", message });
    }
    throw error;
  }
}

function nextPass(plan: readonly ClaimAction[]): Next {
  const hasFailed = plan.some((one) => one.kind === "note" && one.reason === "ProvisioningFailed");
  return hasFailed ? after(CAPACITY_RECHECK_INTERVAL_MS) : done();
}

/** Provisions one claim at a time, and reads the volumes from the API server, so that two claims never receive the same disk space. */
function provisionVolume(deps: ClaimDeps, claim: PersistentVolumeClaim): Promise<Next> {
  return deps.mutex.runExclusive("room", async () => {
    const { items } = await deps.store.list(PERSISTENT_VOLUMES);
    const plan = planClaim(await collectFacts(deps, claim, items));
    await executePlan(deps, claim, plan);
    return nextPass(plan);
  });
}

export async function reconcileClaim(deps: ClaimDeps, key: string): Promise<Next> {
  const claim = deps.claims.find(parseKey(key));
  if (claim === undefined) return done();
  const plan = planClaim(await collectFacts(deps, claim, deps.volumes.list()));
  if (plan.some(({ kind }) => kind === "createVolume")) return provisionVolume(deps, claim);
  await executePlan(deps, claim, plan);
  return nextPass(plan);
}

export async function reconcileVolume(deps: ClaimDeps, name: string): Promise<Next> {
  const volume = deps.volumes.find({ name });
  if (volume === undefined) return done();
  const { namespace = "", name: claimName = "" } = volume.spec.claimRef ?? {};
  const claim = deps.claims.find({ namespace, name: claimName });
  try {
    for (const action of planVolume({ volume, claim })) await actOnVolume(deps, action);
  } catch (error) {
    if (isAppError(error, "KUBE_NOT_FOUND")) return done(); // The volume was deleted meanwhile.
    const isApiError = isAppError(error) && error.code.startsWith("KUBE_");
    if (!isApiError) {
      const message = messageOf(error);
      deps.recorder.record(volume, { type: "Warning", reason: "VolumeFailedDelete", message });
    }
    throw error;
  }
  return done();
}

function findChangedObject<T extends KubeObject>(change: Change<T>): T {
  return change.kind === "deleted" ? change.previous : change.current;
}

/** Enqueues the pending claims, because a deleted volume may have freed the space that they need. */
function wakePending(claims: readonly PersistentVolumeClaim[], queue: Queue): void {
  for (const claim of claims)
    if (claim.status?.phase !== "Bound") queue.add(printKey(keyOf(claim)));
}

function enqueueOnChange(deps: ClaimDeps, claimQueue: Queue, volumeQueue: Queue): () => void {
  const { claims, classes, volumes } = deps;
  const subscriptions = [
    claims.onChange((change) => {
      const claim = findChangedObject(change);
      claimQueue.add(printKey(keyOf(claim)));
      volumeQueue.add(findVolumeName(claim));
    }),
    volumes.onChange((change) => {
      const { metadata, spec } = findChangedObject(change);
      volumeQueue.add(metadata.name);
      const { namespace, name } = spec.claimRef ?? {};
      if (namespace !== undefined && name !== undefined) claimQueue.add(`${namespace}/${name}`);
      if (change.kind === "deleted") wakePending(claims.list(), claimQueue);
    }),
    classes.onChange(() => {
      for (const claim of claims.list()) claimQueue.add(printKey(keyOf(claim)));
    }),
  ];
  return () => {
    for (const unsubscribe of subscriptions) unsubscribe();
  };
}

/** Warns about data that has no PersistentVolume, for example after a restore. Preserves the data, because its owner is unknown. */
async function warnAboutOrphans({ claimsDir, files, log, volumes }: ClaimDeps): Promise<void> {
  const directories = (await files.list(claimsDir)).filter(isHandle);
  for (const handle of directories.filter((name) => volumes.find({ name }) === undefined)) {
    log.warn("storage without a volume object is not removed", { path: join(claimsDir, handle) });
  }
}

export async function runClaimController(deps: ClaimDeps, signal: AbortSignal): Promise<void> {
  const { claims, clock, log, volumes, watches } = deps;
  await warnAboutOrphans(deps);
  const claimQueue = createQueue({ clock, concurrency: CONCURRENCY });
  const volumeQueue = createQueue({ clock, concurrency: CONCURRENCY });
  const unsubscribe = enqueueOnChange(deps, claimQueue, volumeQueue);
  for (const claim of claims.list()) claimQueue.add(printKey(keyOf(claim)));
  for (const { metadata } of volumes.list()) volumeQueue.add(metadata.name);
  const loop = { log, clock };
  try {
    await Promise.all([
      runReconciler(
        {
          ...loop,
          name: "claim",
          queue: claimQueue,
          ...(watches && { watch: watches.claim }),
          reconcile: (key) => reconcileClaim(deps, key),
        },
        signal,
      ),
      runReconciler(
        {
          ...loop,
          name: "volume",
          queue: volumeQueue,
          ...(watches && { watch: watches.volume }),
          reconcile: (name) => reconcileVolume(deps, name),
        },
        signal,
      ),
    ]);
  } finally {
    unsubscribe();
  }
}
