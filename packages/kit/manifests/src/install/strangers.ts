// SPDX-License-Identifier: Apache-2.0
// What of a cluster is Patchbay's, and what is another's in the same place: KubeVirt's, for one?
import {
  API_SERVICES,
  MUTATING_WEBHOOKS,
  NAMESPACES,
  names,
  VALIDATING_WEBHOOKS,
  type KubeObject,
  type WebhookConfiguration,
} from "@patchbay/api";
import type { Store } from "@patchbay/core/ports";
import { DEFINITIONS, typeOf } from "../types.ts";

const GROUPS: readonly string[] = [names.KUBEVIRT_GROUP, names.SUBRESOURCES_GROUP];

/** Whether an installation of Patchbay has made it. */
export function isOurs({ metadata }: KubeObject): boolean {
  return metadata.labels?.[names.PART_OF_LABEL] === names.PRODUCT;
}

/** An object as people name it, for example `Deployment patchbay/virt-api`. */
export function nameOf({ kind, metadata }: KubeObject): string {
  const { namespace, name } = metadata;
  return `${kind} ${namespace === undefined ? "" : `${namespace}/`}${name}`;
}

/** Networks are everybody's kind: Multus brings it, and what is there serves as well as ours. */
export function isShared(object: KubeObject): boolean {
  return object.kind === DEFINITIONS.kind && object.metadata.name.endsWith(`.${names.NAD_GROUP}`);
}

/** Whether the definition is of a kind that only one installation of a cluster can serve. */
export function definesOurs(object: KubeObject): boolean {
  const group = object.metadata.name.split(".").slice(1).join(".");
  return GROUPS.includes(group);
}

function asksAboutOurs({ webhooks = [] }: WebhookConfiguration): boolean {
  return webhooks.some(({ rules = [] }) =>
    rules.some(({ apiGroups = [] }) => apiGroups.some((group) => GROUPS.includes(group))),
  );
}

/** Everything in the cluster that another one has made for the same kinds. */
async function listRivals(store: Store): Promise<readonly KubeObject[]> {
  const definitions = await store.list(DEFINITIONS);
  const services = await store.list(API_SERVICES);
  const webhooks = [
    ...(await store.list(MUTATING_WEBHOOKS)).items,
    ...(await store.list(VALIDATING_WEBHOOKS)).items,
  ];
  return [
    ...definitions.items.filter(definesOurs),
    // Those without a service are made by the API server for each definition.
    ...services.items.filter(
      ({ spec }) => spec.service !== undefined && GROUPS.includes(spec.group),
    ),
    ...webhooks.filter(asksAboutOurs),
  ].filter((object) => !isOurs(object));
}

/** Objects of the names that ours are to have. */
async function listNamesakes(
  store: Store,
  objects: readonly KubeObject[],
): Promise<readonly KubeObject[]> {
  const namespaces = new Set(
    (await store.list(NAMESPACES)).items.map(({ metadata }) => metadata.name),
  );
  const namesakes: KubeObject[] = [];
  for (const object of objects) {
    const { namespace } = object.metadata;
    if (isShared(object) || (namespace !== undefined && !namespaces.has(namespace))) continue;
    const found = await store.find(typeOf(object), object.metadata);
    if (found !== undefined && !isOurs(found)) namesakes.push({ ...found, kind: object.kind });
  }
  return namesakes;
}

/** The names of what is in the way of `objects`, each once. */
export async function findStrangers(
  store: Store,
  objects: readonly KubeObject[],
): Promise<readonly string[]> {
  // Where only networks are served, the VMs may well be another's.
  const isServingVms = objects.some(
    (object) => object.kind === DEFINITIONS.kind && definesOurs(object),
  );
  const rivals = isServingVms ? await listRivals(store) : [];
  const all = [...rivals, ...(await listNamesakes(store, objects))];
  return [...new Set(all.map(nameOf))].sort();
}
