// SPDX-License-Identifier: Apache-2.0
// Prevents the deletion of claims and volumes that are in use. Source: Kubernetes pvc-protection-controller, pv-protection-controller.
import { type Kind, bucketOf } from "../kinds/kind.ts";
import { PERSISTENT_VOLUME_CLAIM } from "../kinds/storage/persistent-volume-claim.ts";
import {
  CLAIM_PROTECTION_FINALIZER,
  VOLUME_PROTECTION_FINALIZER,
} from "../kinds/storage/volume-fields.ts";
import { PERSISTENT_VOLUME } from "../kinds/storage/persistent-volume.ts";
import { POD } from "../kinds/workload/pod.ts";
import { asList, textAt, valueAt } from "../objects/json.ts";
import type { Address, KubeObject } from "../objects/object.ts";
import type { Change, StoredObject } from "../storage/store.ts";
import type { VerbDeps } from "../verbs/deps.ts";
import { changeInternally } from "./internal-writes.ts";
import { WorkQueue } from "./work-queue.ts";

const CLAIMS = bucketOf(PERSISTENT_VOLUME_CLAIM);
const VOLUMES = bucketOf(PERSISTENT_VOLUME);
const PODS = bucketOf(POD);

function claimNames(pod: KubeObject): readonly string[] {
  return asList(valueAt(pod, "spec", "volumes"))
    .map((volume) => textAt(volume, "persistentVolumeClaim", "claimName"))
    .filter((name) => name !== "");
}

/** Returns whether a scheduled pod uses the claim. Ignores unscheduled pods, which get no node while the claim is being deleted. */
function usesClaim(pod: KubeObject, claim: string): boolean {
  return textAt(pod, "spec", "nodeName") !== "" && claimNames(pod).includes(claim);
}

function isClaimUsed({ store }: VerbDeps, { namespace, name }: Address): boolean {
  return store.list({ bucket: PODS, namespace }).some((pod) => usesClaim(pod.view(), name));
}

interface Protection {
  readonly kind: Kind;
  readonly finalizer: string;
  readonly isUsed: (deps: VerbDeps, stored: StoredObject) => boolean;
}

const PROTECTIONS: Readonly<Record<string, Protection>> = {
  [CLAIMS]: {
    kind: PERSISTENT_VOLUME_CLAIM,
    finalizer: CLAIM_PROTECTION_FINALIZER,
    isUsed: (deps, { address }) => isClaimUsed(deps, address),
  },
  [VOLUMES]: {
    kind: PERSISTENT_VOLUME,
    finalizer: VOLUME_PROTECTION_FINALIZER,
    isUsed: (_deps, stored) => textAt(stored.view(), "status", "phase") === "Bound",
  },
};

function withoutFinalizer(finalizer: string): (object: KubeObject) => KubeObject {
  return (object) => {
    const { metadata } = object;
    metadata.finalizers = (metadata.finalizers ?? []).filter((name) => name !== finalizer);
    return object;
  };
}

async function releaseUnused(deps: VerbDeps, address: Address): Promise<void> {
  const protection = PROTECTIONS[address.bucket];
  const stored = deps.store.find(address);
  if (protection === undefined || stored?.isDeleting !== true || protection.isUsed(deps, stored)) {
    return;
  }
  await changeInternally(
    deps,
    { kind: protection.kind, address },
    withoutFinalizer(protection.finalizer),
  );
}

function findReleasable({ current, type }: Change): readonly Address[] {
  const { bucket, namespace } = current.address;
  if (bucket === PODS && type === "DELETED") {
    return claimNames(current.view()).map((name) => ({ bucket: CLAIMS, namespace, name }));
  }
  return bucket in PROTECTIONS && type !== "DELETED" && current.isDeleting ? [current.address] : [];
}

export function startStorageProtection(deps: VerbDeps, stop: AbortSignal): void {
  const { clock, logger, store } = deps;
  const work = (key: string): Promise<void> => {
    const [bucket = "", namespace = "", name = ""] = key.split(" ");
    return releaseUnused(deps, { bucket, namespace, name });
  };
  const queue = new WorkQueue({ name: "storage-protection", clock, logger, stop, work });
  const add = ({ bucket, namespace, name }: Address): void => {
    queue.add(`${bucket} ${namespace} ${name}`);
  };
  const unsubscribe = store.subscribe((changes) => {
    changes.flatMap(findReleasable).forEach(add);
  });
  stop.addEventListener("abort", unsubscribe);
  for (const bucket of Object.keys(PROTECTIONS)) {
    for (const { address, isDeleting } of store.list({ bucket })) {
      if (isDeleting) {
        add(address);
      }
    }
  }
}
