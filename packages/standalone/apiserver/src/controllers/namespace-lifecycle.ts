// SPDX-License-Identifier: Apache-2.0
// Deletion of namespaces and their contents. Source: Kubernetes namespace controller.
import { NAMESPACE } from "../kinds/cluster/namespace.ts";
import { bucketOf } from "../kinds/kind.ts";
import { type Fields, asFields, asList, textAt } from "../objects/json.ts";
import type { KubeObject } from "../objects/object.ts";
import { rfc3339 } from "../objects/time.ts";
import type { StoredObject } from "../storage/store.ts";
import type { VerbDeps } from "../verbs/deps.ts";
import { changeInternally, deleteInternally } from "./internal-writes.ts";
import { WorkQueue } from "./work-queue.ts";

interface Condition {
  readonly type: string;
  readonly status: "True" | "False";
  readonly reason: string;
  readonly message: string;
}

/** Conditions for steps of a namespace's deletion that always succeed here, because all kinds and objects are in this process. */
const ALWAYS_SUCCESSFUL: readonly Condition[] = [
  {
    type: "NamespaceDeletionDiscoveryFailure",
    status: "False",
    reason: "ResourcesDiscovered",
    message: "All resources successfully discovered",
  },
  {
    type: "NamespaceDeletionGroupVersionParsingFailure",
    status: "False",
    reason: "ParsedGroupVersions",
    message: "All legacy kube types successfully parsed",
  },
  {
    type: "NamespaceDeletionContentFailure",
    status: "False",
    reason: "ContentDeleted",
    message: "All content successfully deleted, may be waiting on finalization",
  },
];

function countNames(names: readonly string[]): Map<string, number> {
  const counts = new Map<string, number>();
  for (const name of names) {
    counts.set(name, (counts.get(name) ?? 0) + 1);
  }
  return counts;
}

function printCounts(counts: ReadonlyMap<string, number>, verb: string): string {
  return [...counts]
    .map(([name, number]) => `${name} ${verb} ${String(number)} resource instances`)
    .toSorted()
    .join(", ");
}

/** Prints `resource.group`, with the dot even if the group is empty. */
function printResource({ address }: StoredObject): string {
  const [group = "", resource = ""] = address.bucket.split("/");
  return `${resource}.${group}`;
}

function remainingConditions(contents: readonly StoredObject[]): Condition[] {
  const resources = countNames(contents.map(printResource));
  const finalizers = countNames(
    contents.flatMap((stored) => stored.view().metadata.finalizers ?? []),
  );
  return [
    resources.size === 0
      ? {
          type: "NamespaceContentRemaining",
          status: "False",
          reason: "ContentRemoved",
          message: "All content successfully removed",
        }
      : {
          type: "NamespaceContentRemaining",
          status: "True",
          reason: "SomeResourcesRemain",
          message: `Some resources are remaining: ${printCounts(resources, "has")}`,
        },
    finalizers.size === 0
      ? {
          type: "NamespaceFinalizersRemaining",
          status: "False",
          reason: "ContentHasNoFinalizers",
          message: "All content-preserving finalizers finished",
        }
      : {
          type: "NamespaceFinalizersRemaining",
          status: "True",
          reason: "SomeFinalizersRemain",
          message: `Some content in the namespace has finalizers remaining: ${printCounts(finalizers, "in")}`,
        },
  ];
}

function toCondition(condition: Condition, previous: unknown, now: string): Fields {
  const previousTime =
    textAt(previous, "status") === condition.status && textAt(previous, "lastTransitionTime");
  const { type, status, reason, message } = condition;
  return {
    type,
    status,
    lastTransitionTime: previousTime === false ? now : previousTime || now,
    reason,
    message,
  };
}

export function withContentConditions(
  namespace: KubeObject,
  contents: readonly StoredObject[],
  now: string,
): KubeObject {
  const status = asFields(namespace["status"]);
  const previousConditions = asList(status["conditions"]);
  const conditions = [...ALWAYS_SUCCESSFUL, ...remainingConditions(contents)].map((condition) =>
    toCondition(
      condition,
      previousConditions.find((candidate) => textAt(candidate, "type") === condition.type),
      now,
    ),
  );
  namespace["status"] = { ...status, conditions };
  return namespace;
}

const BUCKET = bucketOf(NAMESPACE);
const FINALIZER = "kubernetes";

function listContents(deps: VerbDeps, namespace: string): readonly StoredObject[] {
  return deps.store.buckets().flatMap((bucket) => deps.store.list({ bucket, namespace }));
}

function isTerminating(deps: VerbDeps, name: string): boolean {
  const stored = deps.store.find({ bucket: BUCKET, namespace: "", name });
  return stored?.isDeleting === true;
}

async function deleteContents(deps: VerbDeps, name: string): Promise<void> {
  if (!isTerminating(deps, name)) {
    return;
  }
  const contents = listContents(deps, name);
  await Promise.all(
    contents
      .filter((stored) => !stored.isDeleting)
      .map(async (stored) => {
        const kind = deps.registry.findByBucket(stored.address.bucket);
        if (kind !== undefined) {
          const target = { kind, address: stored.address };
          await deleteInternally(deps, target, { uid: "", propagationPolicy: "Background" });
        }
      }),
  );
  const remainingContents = listContents(deps, name);
  const namespaceTarget = { kind: NAMESPACE, address: { bucket: BUCKET, namespace: "", name } };
  if (remainingContents.length > 0) {
    const now = rfc3339(deps.clock.now());
    const statusTarget = { ...namespaceTarget, subresource: "status" };
    await changeInternally(deps, statusTarget, (namespace) =>
      withContentConditions(namespace, remainingContents, now),
    );
  } else {
    await changeInternally(deps, { ...namespaceTarget, subresource: "finalize" }, withoutFinalizer);
  }
}

function withoutFinalizer(namespace: KubeObject): KubeObject {
  const spec = asFields(namespace["spec"]);
  const finalizers = asList(spec["finalizers"]).filter((name) => name !== FINALIZER);
  namespace["spec"] = { ...spec, finalizers };
  return namespace;
}

export function startNamespaceLifecycle(deps: VerbDeps, stop: AbortSignal): void {
  const { clock, logger, store } = deps;
  const work = (name: string) => deleteContents(deps, name);
  const queue = new WorkQueue({ name: "namespace-lifecycle", clock, logger, stop, work });
  const unsubscribe = store.subscribe((changes) => {
    for (const { current, type } of changes) {
      const { bucket, namespace, name } = current.address;
      const affectedNamespace = bucket === BUCKET ? name : namespace;
      if (
        affectedNamespace !== "" &&
        (bucket === BUCKET || type === "DELETED") &&
        isTerminating(deps, affectedNamespace)
      ) {
        queue.add(affectedNamespace);
      }
    }
  });
  stop.addEventListener("abort", unsubscribe);
  for (const stored of store.list({ bucket: BUCKET })) {
    queue.add(stored.address.name);
  }
}
