// SPDX-License-Identifier: Apache-2.0
import {
  ENDPOINT_SLICES,
  ENDPOINTS,
  NAMESPACES,
  NETWORK_POLICIES,
  PODS,
  SERVICES,
} from "@patchbay/api";
import type {
  Endpoints,
  EndpointSlice,
  KubeObject,
  Namespace,
  NetworkPolicy,
  Pod,
  Service,
} from "@patchbay/api/kubernetes";
import { omitUndefined, type Logger } from "@patchbay/base";
import { affectsPolicies } from "@patchbay/core/policies";
import { findServiceKey } from "@patchbay/core/services";
import {
  createCache,
  keyOf,
  printKey,
  listStates,
  type KubeClient,
  type StartableCache,
} from "@patchbay/kube";
import type { Cache } from "@patchbay/core/interfaces";
import { isSelecting, selects } from "./slices/plan.ts";

export interface ServiceObjects {
  readonly services: Cache<Service>;
  /** Pods. The index `namespace` finds the pods of a namespace. */
  readonly pods: Cache<Pod>;
  /** EndpointSlices. The index `service` finds the slices of a Service by its key. */
  readonly slices: Cache<EndpointSlice>;
  readonly endpoints: Cache<Endpoints>;
}

export interface Objects extends ServiceObjects {
  readonly policies: Cache<NetworkPolicy>;
  readonly namespaces: Cache<Namespace>;
}

export interface StartableObjects extends Objects {
  readonly services: StartableCache<Service>;
  readonly pods: StartableCache<Pod>;
  readonly slices: StartableCache<EndpointSlice>;
  readonly endpoints: StartableCache<Endpoints>;
  readonly policies: StartableCache<NetworkPolicy>;
  readonly namespaces: StartableCache<Namespace>;
}

export function listSlices(slices: Cache<EndpointSlice>, key: string): readonly EndpointSlice[] {
  return slices.listBy("service", key);
}

// The functions below drop the fields that this program does not read, because tenants can fill them: annotations have up to 256 KiB.

function trimMetadata(metadata: KubeObject["metadata"]): KubeObject["metadata"] {
  const { name, namespace, uid, resourceVersion, labels, deletionTimestamp, ownerReferences } =
    metadata;
  const identity = { name, namespace, uid, resourceVersion };
  return omitUndefined({ ...identity, labels, deletionTimestamp, ownerReferences });
}

function trimService({ apiVersion, kind, metadata, spec }: Service): Service {
  const { type, clusterIP, externalName, ports, selector } = spec;
  const { sessionAffinity, publishNotReadyAddresses } = spec;
  const addressing = { type, clusterIP, externalName, ports, selector };
  return {
    apiVersion,
    kind,
    metadata: trimMetadata(metadata),
    spec: omitUndefined({ ...addressing, sessionAffinity, publishNotReadyAddresses }),
  };
}

function withTrimmedMetadata<T extends KubeObject>(object: T): T {
  return { ...object, metadata: trimMetadata(object.metadata) };
}

function trimNamespace({ apiVersion, kind, metadata }: Namespace): Namespace {
  return { apiVersion, kind, metadata: trimMetadata(metadata) };
}

function trimPod({ apiVersion, kind, metadata, spec, status }: Pod): Pod {
  const { hostname, subdomain, nodeName, hostNetwork } = spec;
  const containers = spec.containers.map(({ ports = [], ...container }) => ({
    name: container.name,
    image: "",
    ports,
  }));
  return {
    apiVersion,
    kind,
    metadata: trimMetadata(metadata),
    spec: { ...omitUndefined({ hostname, subdomain, nodeName, hostNetwork }), containers },
    status: omitUndefined({
      phase: status?.phase,
      podIP: status?.podIP,
      conditions: status?.conditions?.filter(({ type }) => type === "Ready"),
    }),
  };
}

export function watchObjects(client: KubeClient, logger: Logger): StartableObjects {
  return {
    services: createCache(client.reflect(SERVICES, { trim: trimService }), { logger }),
    pods: createCache(client.reflect(PODS, { trim: trimPod }), {
      indexes: { namespace: ({ metadata }) => [metadata.namespace ?? ""] },
      logger,
    }),
    slices: createCache(client.reflect(ENDPOINT_SLICES, { trim: withTrimmedMetadata }), {
      indexes: {
        service: (slice) => {
          const key = findServiceKey(slice);
          return key === undefined ? [] : [key];
        },
      },
      logger,
    }),
    endpoints: createCache(client.reflect(ENDPOINTS, { trim: withTrimmedMetadata }), { logger }),
    policies: createCache(client.reflect(NETWORK_POLICIES, { trim: withTrimmedMetadata }), {
      logger,
    }),
    namespaces: createCache(client.reflect(NAMESPACES, { trim: trimNamespace }), { logger }),
  };
}

export function enqueuePoliciesOnChange(
  { policies, namespaces, pods }: Pick<Objects, "policies" | "namespaces" | "pods">,
  add: () => void,
): void {
  policies.onChange(add);
  namespaces.onChange(add);
  pods.onChange((change) => {
    if (policies.list().length > 0 && affectsPolicies(change)) add();
  });
}

export function enqueueServicesOnChange(
  { services, pods, slices, endpoints }: ServiceObjects,
  add: (key: string) => void,
): void {
  for (const cache of [services, endpoints] as readonly Cache<KubeObject>[]) {
    cache.onChange((change) => {
      for (const object of listStates(change)) add(printKey(keyOf(object)));
    });
  }
  slices.onChange((change) => {
    for (const slice of listStates(change)) {
      const key = findServiceKey(slice);
      if (key !== undefined) add(key);
    }
  });
  pods.onChange((change) => {
    const states = listStates(change);
    for (const service of services.list()) {
      const isAffected = isSelecting(service) && states.some((pod) => selects(service, pod));
      if (isAffected) add(printKey(keyOf(service)));
    }
  });
}
