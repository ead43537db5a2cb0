// SPDX-License-Identifier: Apache-2.0
// Gives claims their volumes and takes volumes away whose claims are gone, until aborted.
import { join } from "node:path";
import {
  PERSISTENT_VOLUMES,
  type KubeObject,
  type PersistentVolume,
  type PersistentVolumeClaim,
} from "@patchbay/api";
import { isAppError, messageOf } from "@patchbay/core";
import {
  after,
  createQueue,
  done,
  keyOf,
  parseKey,
  printKey,
  runReconciler,
  type Next,
  type Queue,
} from "@patchbay/kube";
import type { Change } from "@patchbay/core/ports";
import { actOnClaim, actOnVolume } from "./act.ts";
import type { ClaimDeps } from "./deps.ts";
import { isHandle } from "./layout.ts";
import { planClaim, volumeNameOf, type ClaimAction, type ClaimFacts } from "./plan/claim.ts";
import { promisedBytesOf } from "./plan/room.ts";
import { planVolume } from "./plan/volume.ts";

/** How many claims, and how many volumes, are worked on at once. */
const CONCURRENCY = 2;

/** How often a claim without a volume is looked at while nothing happens, milliseconds: the disk may have been made larger. */
const ROOM_LOOK_MS = 60_000;

async function factsOf(
  deps: ClaimDeps,
  claim: PersistentVolumeClaim,
  volumes: readonly PersistentVolume[],
): Promise<ClaimFacts> {
  const { classes, claimsDir, files, nodeName } = deps;
  const { storageClassName = "" } = claim.spec;
  const own = volumeNameOf(claim);
  const others = volumes.filter(({ metadata }) => metadata.name !== own);
  const { sizeBytes: diskBytes } = await files.space(claimsDir);
  return {
    claim,
    nodeName,
    storageClass: storageClassName === "" ? undefined : classes.find({ name: storageClassName }),
    volume: volumes.find(({ metadata }) => metadata.name === own),
    room: { diskBytes, promisedBytes: promisedBytesOf(others) },
  };
}

async function actOn(
  deps: ClaimDeps,
  claim: PersistentVolumeClaim,
  plan: readonly ClaimAction[],
): Promise<void> {
  try {
    for (const action of plan) await actOnClaim(deps, claim, action);
  } catch (error) {
    const isMade = plan.some(({ kind }) => kind === "makeStorage");
    const isOfServer = isAppError(error) && error.code.startsWith("KUBE_");
    if (isMade && !isOfServer) {
      const message = `its storage cannot be made: ${messageOf(error)}`;
      deps.recorder.record(claim, { type: "Warning", reason: "ProvisioningFailed", message });
    }
    throw error;
  }
}

function nextOf(plan: readonly ClaimAction[]): Next {
  const waits = plan.some((one) => one.kind === "note" && one.reason === "ProvisioningFailed");
  return waits ? after(ROOM_LOOK_MS) : done();
}

/** Asks the API server itself what is promised, one claim after the other: a watch may be late. */
function makeVolume(deps: ClaimDeps, claim: PersistentVolumeClaim): Promise<Next> {
  return deps.mutex.runExclusive("room", async () => {
    const { items } = await deps.store.list(PERSISTENT_VOLUMES);
    const plan = planClaim(await factsOf(deps, claim, items)); // pure
    await actOn(deps, claim, plan);
    return nextOf(plan);
  });
}

/** One pass over one claim. Safe to repeat, and to cut anywhere. */
export async function reconcileClaim(deps: ClaimDeps, key: string): Promise<Next> {
  const claim = deps.claims.find(parseKey(key));
  if (claim === undefined) return done();
  const plan = planClaim(await factsOf(deps, claim, deps.volumes.list())); // pure
  if (plan.some(({ kind }) => kind === "createVolume")) return makeVolume(deps, claim);
  await actOn(deps, claim, plan);
  return nextOf(plan);
}

/** One pass over one volume. Safe to repeat, and to cut anywhere. */
export async function reconcileVolume(deps: ClaimDeps, name: string): Promise<Next> {
  const volume = deps.volumes.find({ name });
  if (volume === undefined) return done();
  const { namespace = "", name: claimName = "" } = volume.spec.claimRef ?? {};
  const claim = deps.claims.find({ namespace, name: claimName });
  try {
    for (const action of planVolume({ volume, claim })) await actOnVolume(deps, action);
  } catch (error) {
    if (isAppError(error, "KUBE_NOT_FOUND")) return done(); // gone meanwhile
    const isOfServer = isAppError(error) && error.code.startsWith("KUBE_");
    if (!isOfServer) {
      const message = messageOf(error);
      deps.recorder.record(volume, { type: "Warning", reason: "VolumeFailedDelete", message });
    }
    throw error;
  }
  return done();
}

function objectOf<T extends KubeObject>(change: Change<T>): T {
  return change.kind === "deleted" ? change.previous : change.current;
}

/** Those that wait for room may have it now. */
function wakePending(claims: readonly PersistentVolumeClaim[], queue: Queue): void {
  for (const claim of claims)
    if (claim.status?.phase !== "Bound") queue.add(printKey(keyOf(claim)));
}

/** A change of one wakes the other: they name each other. */
function follow(deps: ClaimDeps, claimQueue: Queue, volumeQueue: Queue): () => void {
  const { claims, classes, volumes } = deps;
  const stops = [
    claims.onChange((change) => {
      const claim = objectOf(change);
      claimQueue.add(printKey(keyOf(claim)));
      volumeQueue.add(volumeNameOf(claim));
    }),
    volumes.onChange((change) => {
      const { metadata, spec } = objectOf(change);
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
    for (const stop of stops) stop();
  };
}

/** What nobody removes, because nobody knows any more whose it is: a backup that was restored was older than it. */
async function tellOrphans({ claimsDir, files, log, volumes }: ClaimDeps): Promise<void> {
  const left = (await files.list(claimsDir)).filter(isHandle);
  for (const handle of left.filter((name) => volumes.find({ name }) === undefined)) {
    log.warn("storage without a volume object is kept", { path: join(claimsDir, handle) });
  }
}

/** Keeps them until the signal is aborted; the caches are in step. */
export async function keepClaims(deps: ClaimDeps, signal: AbortSignal): Promise<void> {
  const { claims, clock, log, volumes, watches } = deps;
  await tellOrphans(deps);
  const claimQueue = createQueue({ clock, concurrency: CONCURRENCY });
  const volumeQueue = createQueue({ clock, concurrency: CONCURRENCY });
  const stop = follow(deps, claimQueue, volumeQueue);
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
    stop();
  }
}
