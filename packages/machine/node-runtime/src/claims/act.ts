// SPDX-License-Identifier: Apache-2.0
// Carries out what is planned for claims and volumes. Each step may be repeated.
import {
  PERSISTENT_VOLUME_CLAIMS,
  PERSISTENT_VOLUMES,
  type PersistentVolume,
  type PersistentVolumeClaim,
} from "@patchbay/api";
import { AppError, isAppError } from "@patchbay/core";
import { keyOf } from "@patchbay/kube";
import type { ClaimDeps } from "./deps.ts";
import { isHandle, placesOf, type ClaimPlaces } from "./layout.ts";
import type { ClaimAction } from "./plan/claim.ts";
import type { VolumeAction } from "./plan/volume.ts";
import { referenceTo } from "./plan/volume-of.ts";
import {
  BIND_COMPLETED,
  BOUND_BY_CONTROLLER,
  PROVISIONER,
  STORAGE_PROVISIONER,
  VOLUME_FINALIZER,
} from "./words.ts";

/** Only root reads what tenants keep. */
const PRIVATE = 0o700;

function placesFor({ claimsDir }: ClaimDeps, handle: string): ClaimPlaces {
  if (isHandle(handle)) return placesOf(claimsDir, handle);
  const reason = `${handle} is not the name of a volume of this machine`;
  throw new AppError("RUNTIME_VOLUME_FAILED", { volume: handle, reason });
}

async function createVolume({ store, log }: ClaimDeps, volume: PersistentVolume): Promise<void> {
  try {
    await store.create(PERSISTENT_VOLUMES, volume);
    log.info("volume made for a claim", { object: volume.metadata.name });
  } catch (error) {
    if (!isAppError(error, "KUBE_ALREADY_EXISTS")) throw error; // the watch is about to tell of it
  }
}

async function makeStorage(
  deps: ClaimDeps,
  { handle, size }: Extract<ClaimAction, { readonly kind: "makeStorage" }>,
): Promise<void> {
  const { directory, file } = placesFor(deps, handle);
  await deps.files.ensureDirectory(directory, PRIVATE);
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
    [BIND_COMPLETED]: "yes",
    [BOUND_BY_CONTROLLER]: "yes",
    [STORAGE_PROVISIONER]: PROVISIONER,
  };
  const { resourceVersion } = claim.metadata;
  const fields = { metadata: { annotations, resourceVersion }, spec: { volumeName } };
  return store.patch(PERSISTENT_VOLUME_CLAIMS, keyOf(claim), { type: "merge", fields });
}

function takeVolume(
  { store }: ClaimDeps,
  claim: PersistentVolumeClaim,
  volume: PersistentVolume,
): Promise<unknown> {
  const { resourceVersion } = volume.metadata;
  const fields = { metadata: { resourceVersion }, spec: { claimRef: referenceTo(claim) } };
  return store.patch(PERSISTENT_VOLUMES, keyOf(volume), { type: "merge", fields });
}

/** Does one step for a claim. */
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
    case "makeStorage":
      return makeStorage(deps, action);
    case "takeVolume":
      await takeVolume(deps, claim, action.volume);
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

/** Asks the API server itself: what is removed never comes back, and a watch may be late. */
async function mayBeRemoved({ store }: ClaimDeps, volume: PersistentVolume): Promise<boolean> {
  const now = await store.find(PERSISTENT_VOLUMES, keyOf(volume));
  if (now === undefined || now.metadata.uid !== volume.metadata.uid) return false;
  const { claimRef, persistentVolumeReclaimPolicy: policy } = now.spec;
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
  const { directory, file, mount, users } = placesFor(deps, volume.spec.csi?.volumeHandle ?? "");
  const used = await files.list(users);
  if (used.length > 0) {
    const reason = `its claim is gone, but pods still use it: ${used.join(", ")}`;
    throw new AppError("RUNTIME_VOLUME_FAILED", { volume: name, reason });
  }
  await disk.release(file, mount);
  await files.remove(directory);
  log.info("storage removed with its claim", { object: name });
}

/** Takes away our own finalizer, and no other's. */
async function letVolumeGo({ store }: ClaimDeps, { metadata }: PersistentVolume): Promise<void> {
  const now = await store.find(PERSISTENT_VOLUMES, { name: metadata.name });
  if (now?.metadata.uid !== metadata.uid) return;
  const { finalizers = [], resourceVersion } = now?.metadata ?? {};
  const rest = finalizers.filter((one) => one !== VOLUME_FINALIZER);
  const fields = { metadata: { resourceVersion, finalizers: rest } };
  await store.patch(PERSISTENT_VOLUMES, { name: metadata.name }, { type: "merge", fields });
}

/** Does one step for a volume. */
export async function actOnVolume(deps: ClaimDeps, action: VolumeAction): Promise<void> {
  switch (action.kind) {
    case "reportVolume":
      await reportVolume(deps, action.name, action.phase);
      return;
    case "removeStorage":
      return removeStorage(deps, action.volume);
    case "deleteVolume":
      return deps.store.delete(PERSISTENT_VOLUMES, { name: action.name });
    case "letVolumeGo":
      return letVolumeGo(deps, action.volume);
  }
}
