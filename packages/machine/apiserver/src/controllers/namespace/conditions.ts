// SPDX-License-Identifier: Apache-2.0
// What does a namespace that is being deleted say of what is left in it? Source: Kubernetes namespace controller, status conditions.
import { type Fields, fieldsOf, listOf, textAt } from "../../objects/json.ts";
import type { KubeObject } from "../../objects/object.ts";
import type { StoredObject } from "../../storage/store.ts";

interface Finding {
  readonly type: string;
  readonly status: "True" | "False";
  readonly reason: string;
  readonly message: string;
}

/** What always goes well here: kinds and contents are in this process. */
const FINE: readonly Finding[] = [
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

function count(names: readonly string[]): Map<string, number> {
  const counts = new Map<string, number>();
  for (const name of names) {
    counts.set(name, (counts.get(name) ?? 0) + 1);
  }
  return counts;
}

function listed(counts: ReadonlyMap<string, number>, word: string): string {
  return [...counts]
    .map(([name, number]) => `${name} ${word} ${String(number)} resource instances`)
    .toSorted()
    .join(", ");
}

/** `resource.group`; the dot stays where there is no group. */
function resourceOf({ address }: StoredObject): string {
  const [group = "", resource = ""] = address.bucket.split("/");
  return `${resource}.${group}`;
}

function remainingFindings(contents: readonly StoredObject[]): Finding[] {
  const resources = count(contents.map(resourceOf));
  const finalizers = count(contents.flatMap((stored) => stored.view().metadata.finalizers ?? []));
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
          message: `Some resources are remaining: ${listed(resources, "has")}`,
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
          message: `Some content in the namespace has finalizers remaining: ${listed(finalizers, "in")}`,
        },
  ];
}

function toCondition(finding: Finding, before: unknown, now: string): Fields {
  const since = textAt(before, "status") === finding.status && textAt(before, "lastTransitionTime");
  const { type, status, reason, message } = finding;
  return {
    type,
    status,
    lastTransitionTime: since === false ? now : since || now,
    reason,
    message,
  };
}

/** Says in the conditions of a namespace what is left. Changes it. */
export function withRemaining(
  namespace: KubeObject,
  contents: readonly StoredObject[],
  now: string,
): KubeObject {
  const status = fieldsOf(namespace["status"]);
  const before = listOf(status["conditions"]);
  const conditions = [...FINE, ...remainingFindings(contents)].map((finding) =>
    toCondition(
      finding,
      before.find((condition) => textAt(condition, "type") === finding.type),
      now,
    ),
  );
  namespace["status"] = { ...status, conditions };
  return namespace;
}
