// SPDX-License-Identifier: Apache-2.0
// How does a cluster come to have what the manifests say? As `kubectl apply` would do it, but that nothing of another
// installation is touched.
import {
  isJsonObject,
  MUTATING_WEBHOOKS,
  type JsonObject,
  type KubeObject,
  type WebhookConfiguration,
} from "@patchbay/api";
import { AppError, isAppError, isEqual } from "@patchbay/core";
import type { Store, WriteOptions } from "@patchbay/core/ports";
import { conditionsOf } from "../conditions.ts";
import { TYPES, typeOf } from "../types.ts";
import { carryOver, essenceOf } from "./carry-over.ts";
import { leaveUnlessKept } from "./leave-runtimes.ts";
import { withNote } from "./merge-workload.ts";
import { isWorkload } from "./settings.ts";
import { specDifferences } from "./spec-differences.ts";
import { findStrangers, isOurs, isShared, nameOf } from "./strangers.ts";

/** What became of an object, or would become. */
export interface ObjectResult {
  /** For example `Deployment patchbay/virt-api`. */
  readonly name: string;
  readonly change: "created" | "changed" | "unchanged" | "left alone";
  /** Whether the API server has judged it: it cannot where the namespace or the kind is not there yet. */
  readonly isChecked: boolean;
  /** Values in the specification of a service that were removed (`-`) and added (`+`). Unset if there are none. */
  readonly differences?: readonly string[];
}

type Applied = Pick<ObjectResult, "change" | "differences">;

function workloadDifferences(found: KubeObject, written: KubeObject): readonly string[] {
  const specOf = (object: KubeObject & { readonly spec?: unknown }): JsonObject =>
    isJsonObject(object.spec) ? object.spec : {};
  return specDifferences(specOf(found), specOf(written));
}

/** How often a write is tried that others are faster than. */
const TRIES = 5;

async function applyOnce(
  store: Store,
  object: KubeObject,
  options: WriteOptions,
): Promise<Applied> {
  const type = typeOf(object);
  const found = await store.find(type, object.metadata);
  if (found === undefined) {
    await store.create(type, object, options);
    return { change: "created" };
  }
  // Other components write this definition, too, so it is never overwritten. Its mark says only who wrote it last.
  if (isShared(object)) return { change: isOurs(found) ? "unchanged" : "left alone" };
  const written = await store.update(type, carryOver(found, object), options);
  if (isEqual(essenceOf(written), essenceOf(found))) return { change: "unchanged" };
  const differences = isWorkload(object) ? workloadDifferences(found, written) : [];
  return { change: "changed", ...(differences.length > 0 && { differences }) };
}

async function apply(store: Store, object: KubeObject, options: WriteOptions): Promise<Applied> {
  for (let left = TRIES - 1; ; left -= 1) {
    try {
      return await applyOnce(store, object, options);
    } catch (error) {
      // Another one has made or changed it meanwhile: virt-api writes its authority into what has just been made.
      const isLost = isAppError(error, "KUBE_CONFLICT") || isAppError(error, "KUBE_ALREADY_EXISTS");
      if (!isLost || left === 0) throw error;
    }
  }
}

function withConditions(object: KubeObject): KubeObject {
  // As its kind says.
  const { webhooks } = object as WebhookConfiguration;
  if (webhooks === undefined) return object;
  const conditioned = webhooks.map((webhook) => {
    const matchConditions = conditionsOf(webhook.name);
    return matchConditions.length === 0 ? webhook : { ...webhook, matchConditions };
  });
  const changed: WebhookConfiguration = { ...object, webhooks: conditioned };
  return changed;
}

/** Whether the API server keeps match conditions: from 1.28 on by default, before it refuses or drops them. */
async function knowsConditions(store: Store, objects: readonly KubeObject[]): Promise<boolean> {
  const sample = objects.find(({ kind }) => kind === MUTATING_WEBHOOKS.kind);
  if (sample === undefined) return false;
  const probe: WebhookConfiguration = {
    ...withConditions(sample),
    metadata: { name: `${sample.metadata.name}-probe` },
  };
  try {
    const options = { dryRun: true, isStrict: true };
    const made = await store.create(MUTATING_WEBHOOKS, probe, options);
    return made.webhooks?.some((webhook) => "matchConditions" in webhook) === true;
  } catch (error) {
    if (isAppError(error, "KUBE_REFUSED")) return false;
    throw error;
  }
}

function inOrder(objects: readonly KubeObject[]): readonly KubeObject[] {
  return TYPES.flatMap((type) => objects.filter((object) => typeOf(object) === type));
}

/** Says whether an object can be shown to the API server before those are there that it needs. */
async function isJudgeable(store: Store, object: KubeObject): Promise<boolean> {
  const [namespaces] = TYPES;
  const { namespace: name } = object.metadata;
  if (name === undefined || namespaces === undefined) return true;
  return (await store.find(namespaces, { name })) !== undefined;
}

/** What is to be installed, and whether only is looked what that would change. */
export interface Installation {
  readonly objects: readonly KubeObject[];
  readonly dryRun: boolean;
  /** Is told of each object. */
  readonly tell: (outcome: ObjectResult) => void;
}

/**
 * Makes the cluster have the objects, in an order in which each finds what it needs. Safe to repeat.
 * @throws AppError with INSTALL_NOT_OURS, before anything is touched; with what the store throws
 */
export async function install(store: Store, installation: Installation): Promise<void> {
  const { dryRun, tell } = installation;
  const strangers = await findStrangers(store, installation.objects);
  if (strangers.length > 0) {
    throw new AppError("INSTALL_NOT_OURS", { objects: strangers.join(", ") });
  }
  if (!dryRun) await leaveUnlessKept(store, installation.objects);
  const isConditioned = await knowsConditions(store, installation.objects);
  const objects = isConditioned ? installation.objects.map(withConditions) : installation.objects;
  for (const listed of inOrder(objects)) {
    const object = isWorkload(listed) ? withNote(listed) : listed;
    const isChecked = !dryRun || (await isJudgeable(store, object));
    const applied: Applied = isChecked
      ? await apply(store, object, { dryRun, isStrict: true })
      : { change: "created" };
    tell({ name: nameOf(object), ...applied, isChecked });
  }
}
