// SPDX-License-Identifier: Apache-2.0
// Distinguishes objects of Patchbay from objects of other installations, for example KubeVirt's.
import {
  API_SERVICES,
  MUTATING_WEBHOOKS,
  NAMESPACES,
  names,
  VALIDATING_WEBHOOKS,
} from "@patchbay/api";
import type { ApiService, KubeObject, WebhookConfiguration } from "@patchbay/api/kubernetes";
import type { Store } from "@patchbay/core/interfaces";
import { DEFINITIONS, findType } from "../types.ts";

const GROUPS: readonly string[] = [names.KUBEVIRT_GROUP, names.SUBRESOURCES_GROUP];

export function isPatchbayObject({ metadata }: KubeObject): boolean {
  return metadata.labels?.[names.PART_OF_LABEL] === names.PRODUCT;
}

export function describeObject({ kind, metadata }: KubeObject): string {
  const { namespace, name } = metadata;
  return `${kind} ${namespace === undefined ? "" : `${namespace}/`}${name}`;
}

/** Returns whether the object is the NetworkAttachmentDefinition CRD, which other components such as Multus share. */
export function isShared(object: KubeObject): boolean {
  return object.kind === DEFINITIONS.kind && object.metadata.name.endsWith(`.${names.NAD_GROUP}`);
}

/** Returns whether the CRD defines a kind that only one installation per cluster can serve. */
export function definesExclusiveKind(object: KubeObject): boolean {
  const group = object.metadata.name.split(".").slice(1).join(".");
  return GROUPS.includes(group);
}

function hasPatchbayRules({ webhooks = [] }: WebhookConfiguration): boolean {
  return webhooks.some(({ rules = [] }) =>
    rules.some(({ apiGroups = [] }) => apiGroups.some((group) => GROUPS.includes(group))),
  );
}

export interface ExclusiveObjects {
  readonly definitions: readonly KubeObject[];
  readonly services: readonly ApiService[];
  readonly webhooks: readonly WebhookConfiguration[];
}

/** Returns whether the objects define KubeVirt's kinds. An installation that serves only networks can coexist with one that serves VMs. */
export function servesVms(objects: readonly KubeObject[]): boolean {
  return objects.some((object) => object.kind === DEFINITIONS.kind && definesExclusiveKind(object));
}

/** Returns other installations' objects for API groups that only one installation can serve. */
export function findCompeting({
  definitions,
  services,
  webhooks,
}: ExclusiveObjects): readonly KubeObject[] {
  return [
    ...definitions.filter(definesExclusiveKind),
    // Ignores APIServices without a service: the API server itself creates them, one for each group and version of a CRD.
    ...services.filter(({ spec }) => spec.service !== undefined && GROUPS.includes(spec.group)),
    ...webhooks.filter(hasPatchbayRules),
  ].filter((object) => !isPatchbayObject(object));
}

async function listExclusive(store: Store): Promise<ExclusiveObjects> {
  const webhooks = [
    ...(await store.list(MUTATING_WEBHOOKS)).items,
    ...(await store.list(VALIDATING_WEBHOOKS)).items,
  ];
  const definitions = (await store.list(DEFINITIONS)).items;
  return { definitions, services: (await store.list(API_SERVICES)).items, webhooks };
}

export async function listNamesakes(
  store: Pick<Store, "find" | "list">,
  objects: readonly KubeObject[],
): Promise<readonly KubeObject[]> {
  const namespaces = new Set(
    (await store.list(NAMESPACES)).items.map(({ metadata }) => metadata.name),
  );
  const namesakes: KubeObject[] = [];
  for (const object of objects) {
    const { namespace } = object.metadata;
    if (isShared(object) || (namespace !== undefined && !namespaces.has(namespace))) continue;
    const found = await store.find(findType(object), object.metadata);
    if (found !== undefined && !isPatchbayObject(found))
      namesakes.push({ ...found, kind: object.kind });
  }
  return namesakes;
}

/** Returns descriptions of the objects that conflict with `objects`, sorted and without duplicates. */
export async function findConflicts(
  store: Store,
  objects: readonly KubeObject[],
): Promise<readonly string[]> {
  const competing = servesVms(objects) ? findCompeting(await listExclusive(store)) : [];
  const all = [...competing, ...(await listNamesakes(store, objects))];
  return [...new Set(all.map(describeObject))].sort();
}
