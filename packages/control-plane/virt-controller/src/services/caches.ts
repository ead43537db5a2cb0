// SPDX-License-Identifier: Apache-2.0
// Caches of Services and of Patchbay's EndpointSlices. Changes enqueue Services.
import {
  ENDPOINT_SLICES,
  SERVICES,
  type KubeVirt,
  type NetworkAttachmentDefinition,
  type VirtualMachineInstance,
} from "@patchbay/api";
import { SLICE_WRITER_LABEL, type EndpointSlice, type Service } from "@patchbay/api/kubernetes";
import {
  requestedNetworks,
  NETWORK_SLICE_WRITER,
  listServiceInputs,
  trimService,
  selectsVmi,
  parseServiceRequest,
  findServiceKey,
  hasReachCondition,
  readTrustedNamespaces,
} from "@patchbay/core/services";
import { isEqual, type Logger } from "@patchbay/base";
import { listNetworkNames } from "@patchbay/core/vm";
import type { Cache } from "@patchbay/core/interfaces";
import {
  createCache,
  keyOf,
  printKey,
  listStates,
  type KubeClient,
  type StartableCache,
} from "@patchbay/kube";

export const BY_NETWORK = "network";
export const BY_SERVICE = "service";

export interface ServiceCaches {
  readonly services: Cache<Service>;
  /** Patchbay's EndpointSlices, with index {@link BY_SERVICE}. */
  readonly slices: Cache<EndpointSlice>;
  readonly vmis: Cache<VirtualMachineInstance>;
  readonly nads: Cache<NetworkAttachmentDefinition>;
  readonly kubevirts: Cache<KubeVirt>;
}

export interface StartableServiceCaches {
  readonly services: StartableCache<Service>;
  readonly slices: StartableCache<EndpointSlice>;
}

export const SERVICE_INDEXES = {
  services: { [BY_NETWORK]: requestedNetworks },
  slices: {
    [BY_SERVICE]: (slice: EndpointSlice): readonly string[] => {
      const key = findServiceKey(slice);
      return key === undefined ? [] : [key];
    },
  },
} as const;

export function createServiceCaches(client: KubeClient, logger: Logger): StartableServiceCaches {
  const labelSelector = `${SLICE_WRITER_LABEL}=${NETWORK_SLICE_WRITER}`;
  return {
    services: createCache(client.reflect(SERVICES, { trim: trimService }), {
      indexes: SERVICE_INDEXES.services,
      logger,
    }),
    slices: createCache(client.reflect(ENDPOINT_SLICES, { labelSelector }), {
      indexes: SERVICE_INDEXES.slices,
      logger,
    }),
  };
}

type AddKey = (key: string) => void;

function toServiceKey(service: Service): string {
  return printKey(keyOf(service));
}

/** Enqueues Services that select a changed VMI on one of its networks. Skips changes that cannot affect the Services' EndpointSlices. */
function enqueueByVmis({ services, vmis }: ServiceCaches, add: AddKey): void {
  const selects = (service: Service, vmi: VirtualMachineInstance): boolean => {
    const request = parseServiceRequest(service);
    return request.kind === "requested" && selectsVmi(service, request.request, vmi);
  };
  vmis.onChange((change) => {
    const states = listStates(change);
    const selectingServices = states.flatMap((vmi) =>
      listNetworkNames(vmi, {})
        .flatMap((network) => services.listBy(BY_NETWORK, network))
        .filter((service) => selects(service, vmi)),
    );
    if (selectingServices.length === 0) return;
    const [previousInputs, currentInputs] = states.map(listServiceInputs);
    if (change.kind === "updated" && isEqual(previousInputs, currentInputs)) return;
    for (const service of selectingServices) add(toServiceKey(service));
  });
}

/** When the trusted namespaces change, enqueues all Services that request a network. */
function enqueueByTrust({ services, kubevirts }: ServiceCaches, add: AddKey): void {
  kubevirts.onChange((change) => {
    const [previousNamespaces, currentNamespaces] = listStates(change).map(readTrustedNamespaces);
    if (change.kind === "updated" && isEqual(previousNamespaces, currentNamespaces)) return;
    for (const service of services.list()) {
      if (parseServiceRequest(service).kind !== "none") add(toServiceKey(service));
    }
  });
}

/** Subscribes to the caches. After each change, calls `add` with the key of each Service whose EndpointSlices the change may affect. */
export function enqueueNetworkServices(caches: ServiceCaches, add: AddKey): void {
  const { services, slices, nads } = caches;
  services.onChange((change) => {
    const states = listStates(change);
    const isConcerned = states.some(
      (service) => parseServiceRequest(service).kind !== "none" || hasReachCondition(service),
    );
    if (isConcerned) for (const service of states) add(toServiceKey(service));
  });
  slices.onChange((change) => {
    for (const key of listStates(change).flatMap(SERVICE_INDEXES.slices[BY_SERVICE])) add(key);
  });
  nads.onChange((change) => {
    for (const { metadata } of listStates(change)) {
      const network = `${metadata.namespace ?? ""}/${metadata.name}`;
      for (const service of services.listBy(BY_NETWORK, network)) add(toServiceKey(service));
    }
  });
  enqueueByVmis(caches, add);
  enqueueByTrust(caches, add);
}
