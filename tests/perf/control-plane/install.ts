// SPDX-License-Identifier: Apache-2.0
// The API server's initial objects: kinds, rights, networks, a node, and the registration of virt-api.
import {
  API_SERVICES,
  customResourceDefinitions,
  KUBEVIRTS,
  MUTATING_WEBHOOKS,
  NAMESPACES,
  NETWORK_ATTACHMENT_DEFINITIONS,
  VALIDATING_WEBHOOKS,
  type ResourceType,
} from "@patchbay/api";
import type { KubeObject } from "@patchbay/api/kubernetes";
import type { KubeClient } from "@patchbay/kube";
import {
  buildConditions,
  applyManifests,
  applyObject,
  parseManifests,
  readManifests,
} from "@patchbay/manifests";
import { createFiles } from "@patchbay/os";
import { bridgeNetworkManifest } from "@patchbay/support";

/** Namespace of all measured objects. */
export const NAMESPACE = "patchbay-perf";
/** The simulated node. */
export const NODE = "patchbay-perf";

const SERVICE = { name: "virt-api", namespace: "patchbay" };
const CORE = { group: "", version: "v1" } as const;
const NODES = { ...CORE, resource: "nodes", kind: "Node", namespaced: false };
const SERVICES = { ...CORE, resource: "services", kind: "Service", namespaced: true };
const ENDPOINTS = { ...CORE, resource: "endpoints", kind: "Endpoints", namespaced: true };
/** RBAC objects of a cluster's manifests. */
const RIGHTS = /^(Namespace|ServiceAccount|(Cluster)?Role(Binding)?)$/;
const WEBHOOKS: readonly string[] = [MUTATING_WEBHOOKS.kind, VALIDATING_WEBHOOKS.kind];

/** Ports of virt-api's replicas, and the authority of their certificate. */
export interface VirtApiAddress {
  readonly address: string;
  readonly ports: readonly number[];
  readonly caPem: string;
}

interface WebhookConfiguration extends KubeObject {
  readonly webhooks: readonly { readonly name: string; readonly clientConfig: object }[];
}

function object(
  type: ResourceType<KubeObject>,
  metadata: KubeObject["metadata"],
  fields: Readonly<Record<string, unknown>>,
): KubeObject {
  const apiVersion = type.group === "" ? type.version : `${type.group}/${type.version}`;
  return { apiVersion, kind: type.kind, metadata, ...fields };
}

/** The manifests' own webhooks, as `patchbay install` writes them. */
function webhookOf(manifest: KubeObject, caPem: string): KubeObject {
  // From the manifest.
  const configuration = manifest as WebhookConfiguration;
  const caBundle = Buffer.from(caPem).toString("base64");
  const webhooks = configuration.webhooks.map(({ clientConfig, ...webhook }) => {
    // An API server before 1.28 drops them.
    const matchConditions = buildConditions(webhook.name);
    return { ...webhook, clientConfig: { ...clientConfig, caBundle }, matchConditions };
  });
  return object(
    configuration.kind === MUTATING_WEBHOOKS.kind ? MUTATING_WEBHOOKS : VALIDATING_WEBHOOKS,
    configuration.metadata,
    { webhooks },
  );
}

async function clusterManifests(): Promise<readonly KubeObject[]> {
  return parseManifests(await readManifests(createFiles(), "base"));
}

/** Publishes virt-api's listening ports, like a cluster's endpoints of ready pods. */
export async function keepEndpoints(
  { store }: KubeClient,
  { address, ports }: Pick<VirtApiAddress, "address" | "ports">,
): Promise<void> {
  const subsets = ports.map((port) => ({
    addresses: [{ ip: address }],
    ports: [{ name: "https", port, protocol: "TCP" }],
  }));
  await applyObject(store, ENDPOINTS, object(ENDPOINTS, SERVICE, { subsets }));
}

async function keepWayToVirtApi(client: KubeClient, { caPem }: VirtApiAddress): Promise<void> {
  const { store } = client;
  const ports = [{ name: "https", port: 443, targetPort: "https", protocol: "TCP" }];
  await applyObject(store, SERVICES, object(SERVICES, SERVICE, { spec: { ports } }));
  for (const manifest of await clusterManifests()) {
    if (WEBHOOKS.includes(manifest.kind)) await applyManifests(store, [webhookOf(manifest, caPem)]);
    if (manifest.kind !== API_SERVICES.kind) continue;
    const { spec } = manifest as KubeObject & { readonly spec: object };
    const caBundle = Buffer.from(caPem).toString("base64");
    await applyManifests(store, [
      object(API_SERVICES, manifest.metadata, { spec: { ...spec, caBundle } }),
    ]);
  }
}

export async function install(client: KubeClient, at: VirtApiAddress): Promise<void> {
  const { store } = client;
  await applyManifests(store, customResourceDefinitions());
  const manifests = await clusterManifests();
  await applyManifests(
    store,
    manifests.filter(({ kind }) => RIGHTS.test(kind)),
  );
  await applyObject(store, NAMESPACES, object(NAMESPACES, { name: NAMESPACE }, {}));
  await applyObject(store, NODES, object(NODES, { name: NODE }, {}));
  const kubevirt = { name: "kubevirt", namespace: SERVICE.namespace };
  await applyObject(store, KUBEVIRTS, object(KUBEVIRTS, kubevirt, { spec: {} }));
  for (const name of ["first", "hot"]) {
    const nad = bridgeNetworkManifest(name, "pbperf") as KubeObject;
    const metadata = { name, namespace: NAMESPACE };
    await applyObject(store, NETWORK_ATTACHMENT_DEFINITIONS, { ...nad, metadata });
  }
  await keepEndpoints(client, { ...at, ports: [] });
  await keepWayToVirtApi(client, at);
}

/** Removes objects that would affect other users. */
export async function uninstall({ store }: KubeClient): Promise<void> {
  await store.delete(MUTATING_WEBHOOKS, { name: "patchbay" });
  await store.delete(VALIDATING_WEBHOOKS, { name: "patchbay" });
  for (const version of ["v1", "v1alpha3"]) {
    await store.delete(API_SERVICES, { name: `${version}.subresources.kubevirt.io` });
  }
  await store.delete(NAMESPACES, { name: NAMESPACE });
  await store.delete(NODES, { name: NODE });
}
