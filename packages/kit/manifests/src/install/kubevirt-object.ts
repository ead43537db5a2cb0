// SPDX-License-Identifier: Apache-2.0
// The object that holds the cluster's settings: people's own, and there from the start, so that each setting is a patch of it.
import { apiVersionOf, isJsonObject, KUBEVIRTS, names, type KubeObject } from "@patchbay/api";
import type { ObjectKey, Store } from "@patchbay/core/ports";
import { DEFINITIONS } from "../types.ts";
import type { ObjectResult } from "./install.ts";
import { nameOf } from "./strangers.ts";

const DEFINITION = `${KUBEVIRTS.resource}.${KUBEVIRTS.group}`;

/** Whether the API server serves the kind that a definition defines. Source: apiextensions v1, condition Established. */
export function isEstablished(definition: KubeObject | undefined): boolean {
  // As its kind says.
  const { status } = (definition ?? {}) as { readonly status?: { readonly conditions?: unknown } };
  const conditions: unknown = status?.conditions;
  return (
    Array.isArray(conditions) &&
    conditions.some(
      (each) => isJsonObject(each) && each["type"] === "Established" && each["status"] === "True",
    )
  );
}

/** How the settings' object comes to be. */
export interface SettingsOptions {
  readonly dryRun: boolean;
  /** Resolves when the API server serves the kind of that definition. */
  readonly untilServed: (definition: ObjectKey) => Promise<void>;
}

/**
 * Creates an empty KubeVirt object where there is none and the installation serves its kind; one that is there is
 * people's, and stays as it is. Safe to repeat.
 * @returns nothing where net-agent is installed alone
 * @throws AppError with what the store throws
 */
export async function createKubeVirt(
  store: Pick<Store, "find" | "create" | "list">,
  objects: readonly KubeObject[],
  { dryRun, untilServed }: SettingsOptions,
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
  const name = nameOf(object);
  const isDefined = isEstablished(await store.find(DEFINITIONS, definition.metadata));
  if (dryRun && !isDefined) return { name, change: "created", isChecked: false };
  if (!isDefined) await untilServed(definition.metadata);
  const { items } = await store.list(KUBEVIRTS, { namespace: names.SERVICES_NAMESPACE });
  if (items.length > 0) return { name, change: "unchanged", isChecked: true };
  await store.create(KUBEVIRTS, object, { dryRun, isStrict: true });
  return { name, change: "created", isChecked: true };
}
