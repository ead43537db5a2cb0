// SPDX-License-Identifier: Apache-2.0
// Services and the addresses behind them. Source: Kubernetes core/v1 Service, discovery.k8s.io/v1 EndpointSlice.
import type { KubeObject } from "./meta.ts";

/** A port of a Service, and where it leads. */
export interface ServicePort {
  readonly name?: string;
  readonly protocol?: string;
  readonly port: number;
  /** A number, or the name of a port of each pod's containers; absent: `port`. */
  readonly targetPort?: number | string;
  readonly nodePort?: number;
}

/** One name and one address for what stands behind it. */
export interface Service extends KubeObject {
  readonly spec: {
    readonly type?: string;
    /** `None`: headless. */
    readonly clusterIP?: string;
    readonly externalName?: string;
    readonly selector?: Readonly<Record<string, string>>;
    readonly ports?: readonly ServicePort[];
    readonly sessionAffinity?: string;
    readonly publishNotReadyAddresses?: boolean;
  };
}

/** One address behind a Service. */
export interface Endpoint {
  readonly addresses: readonly string[];
  /** Absent members: true, and `terminating` false. */
  readonly conditions?: {
    readonly ready?: boolean;
    readonly serving?: boolean;
    readonly terminating?: boolean;
  };
  /** Its name below that of the Service. */
  readonly hostname?: string;
  readonly nodeName?: string;
  readonly targetRef?: {
    readonly kind?: string;
    readonly namespace?: string;
    readonly name?: string;
    readonly uid?: string;
  };
}

/** A port at all addresses of a slice. */
export interface EndpointPort {
  /** The name of the Service's port; empty or absent: it has none. */
  readonly name?: string;
  readonly protocol?: string;
  readonly port?: number;
}

/** Some of the addresses behind a Service, which its label {@link SERVICE_NAME_LABEL} names. */
export interface EndpointSlice extends KubeObject {
  readonly addressType: string;
  readonly endpoints?: readonly Endpoint[];
  readonly ports?: readonly EndpointPort[];
}

/** One address of Endpoints. */
export interface EndpointsAddress extends Pick<Endpoint, "hostname" | "nodeName" | "targetRef"> {
  readonly ip: string;
}

/** Addresses of Endpoints that have the same ports. */
export interface EndpointsSubset {
  readonly addresses?: readonly EndpointsAddress[];
  readonly notReadyAddresses?: readonly EndpointsAddress[];
  readonly ports?: readonly EndpointPort[];
}

/** What stands behind the Service of its name, in the older form. Source: Kubernetes core/v1 Endpoints. */
export interface Endpoints extends KubeObject {
  readonly subsets?: readonly EndpointsSubset[];
}

/** Whose addresses a slice has. Source: Kubernetes discovery/v1. */
export const SERVICE_NAME_LABEL = "kubernetes.io/service-name";
/** Who writes a slice. Source: the same. */
export const SLICE_WRITER_LABEL = "endpointslice.kubernetes.io/managed-by";
/** Addresses of one slice, at most. Source: Kubernetes discovery/v1 EndpointSlice. */
export const SLICE_ENDPOINTS_MAX = 1000;
