// SPDX-License-Identifier: Apache-2.0
// Creates the KubeVirt object, in which users can patch the cluster's settings.
import { apiVersionOf, KUBEVIRTS, names } from "@patchbay/api";
import { isJsonObject } from "@patchbay/api/json";
import type { KubeObject } from "@patchbay/api/kubernetes";
import type { ObjectKey, Store } from "@patchbay/core/interfaces";
import { DEFINITIONS } from "../types.ts";
import type { ObjectResult } from "./install.ts";
import { describeObject } from "./foreign-objects.ts";

const DEFINITION = `${KUBEVIRTS.resource}.${KUBEVIRTS.group}`;

/** Returns whether the API server serves the kind that the CRD defines. Source: condition Established of apiextensions/v1. */
export function isEstablished(definition: KubeObject | undefined): boolean {
  // The cast is safe, because the code below checks the type of `conditions`.
  const { status } = (definition ?? {}) as { readonly status?: { readonly conditions?: unknown } };
  const conditions: unknown = status?.conditions;
  return (
    Array.isArray(conditions) &&
    conditions.some(
      (each) => isJsonObject(each) && each["type"] === "Established" && each["status"] === "True",
    )
  );
}

export interface KubeVirtOptions {
  readonly dryRun: boolean;
  /** Resolves when the API server serves the kind that the CRD defines. */
  readonly untilServed: (definition: ObjectKey) => Promise<void>;
}

/**
 * Creates an empty KubeVirt object in Patchbay's namespace unless the namespace already has one. With `dryRun`, only reports
 * the change. Returns undefined if `objects` lack the CRD of KubeVirt objects, as when only net-agent is installed.
 * @throws AppError with the code of a failed request
 */
export async function createKubeVirt(
  store: Pick<Store, "find" | "create" | "list">,
  objects: readonly KubeObject[],
  { dryRun, untilServed }: KubeVirtOptions,
): Promise<ObjectResult | undefined> {
  const definition = objects.find(
    ({ kind, metadata }) => kind === DEFINITIONS.kind && metadata.name === DEFINITION,
  );
  if (definition === undefined) return undefined;
  const object = {
    apiVersion: apiVersionOf(KUBEVIRTS),
    kind: KUBEVIRTS.kind,
    metadata: {
      name: "kubevirt",
      namespace: names.SERVICES_NAMESPACE,
      labels: { [names.PART_OF_LABEL]: names.PRODUCT },
    },
    spec: {},
  };
  const name = describeObject(object);
  const isDefined = isEstablished(await store.find(DEFINITIONS, definition.metadata));
  if (dryRun && !isDefined) return { name, change: "created", isChecked: false };
  if (!isDefined) await untilServed(definition.metadata);
  const { items } = await store.list(KUBEVIRTS, { namespace: names.SERVICES_NAMESPACE });
  if (items.length > 0) return { name, change: "unchanged", isChecked: true };
  await store.create(KUBEVIRTS, object, { dryRun, isStrict: true });
  return { name, change: "created", isChecked: true };
}
