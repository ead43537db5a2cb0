// SPDX-License-Identifier: Apache-2.0
// Services and their endpoints. Source: Kubernetes core/v1 Service, discovery.k8s.io/v1 EndpointSlice.
import type { Condition, KubeObject } from "./meta.ts";

export interface ServicePort {
  readonly name?: string;
  readonly protocol?: string;
  readonly port: number;
  /** Number or name of a container port. The default is `port`. */
  readonly targetPort?: number | string;
  readonly nodePort?: number;
}

export interface Service extends KubeObject {
  readonly spec: {
    readonly type?: string;
    /** `None` for a headless Service. */
    readonly clusterIP?: string;
    readonly externalName?: string;
    readonly selector?: Readonly<Record<string, string>>;
    readonly ports?: readonly ServicePort[];
    readonly sessionAffinity?: string;
    readonly publishNotReadyAddresses?: boolean;
  };
  readonly status?: { readonly conditions?: readonly Condition[] };
}

export interface Endpoint {
  readonly addresses: readonly string[];
  /** If unset, `ready` counts as true, `serving` has the value of `ready`, and `terminating` counts as false. */
  readonly conditions?: {
    readonly ready?: boolean;
    readonly serving?: boolean;
    readonly terminating?: boolean;
  };
  readonly hostname?: string;
  readonly nodeName?: string;
  readonly targetRef?: {
    readonly kind?: string;
    readonly namespace?: string;
    readonly name?: string;
    readonly uid?: string;
  };
}

export interface EndpointPort {
  /** Name of the Service's port; unset or empty if the port has no name. */
  readonly name?: string;
  readonly protocol?: string;
  readonly port?: number;
}

/** Endpoints of a Service. The label {@link SERVICE_NAME_LABEL} contains the name of the Service. */
export interface EndpointSlice extends KubeObject {
  readonly addressType: string;
  readonly endpoints?: readonly Endpoint[];
  readonly ports?: readonly EndpointPort[];
}

export interface EndpointsAddress extends Pick<Endpoint, "hostname" | "nodeName" | "targetRef"> {
  readonly ip: string;
}

export interface EndpointsSubset {
  readonly addresses?: readonly EndpointsAddress[];
  readonly notReadyAddresses?: readonly EndpointsAddress[];
  readonly ports?: readonly EndpointPort[];
}

/** Older form of EndpointSlice, with the same name as the Service. Source: Kubernetes core/v1 Endpoints. */
export interface Endpoints extends KubeObject {
  readonly subsets?: readonly EndpointsSubset[];
}

/** Label whose value is the name of the EndpointSlice's Service. Source: Kubernetes discovery/v1. */
export const SERVICE_NAME_LABEL = "kubernetes.io/service-name";
/** Label whose value is the name of the component that manages the EndpointSlice. Source: Kubernetes discovery/v1. */
export const SLICE_WRITER_LABEL = "endpointslice.kubernetes.io/managed-by";
/** Maximum number of endpoints per EndpointSlice. Source: Kubernetes discovery/v1 EndpointSlice. */
export const SLICE_ENDPOINTS_MAX = 1000;
