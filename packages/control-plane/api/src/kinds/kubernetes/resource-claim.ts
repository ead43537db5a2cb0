// SPDX-License-Identifier: Apache-2.0
// The parts of resource claims that Patchbay reads. Source: Kubernetes resource.k8s.io/v1.
import type { KubeObject } from "./meta.ts";

/** Network device of a claim, as its driver reports it. */
export interface NetworkDeviceData {
  /** Name of the device's link in the pod's network namespace. */
  readonly interfaceName?: string;
  /** Addresses as ADDRESS/LENGTH. */
  readonly ips?: readonly string[];
  readonly hardwareAddress?: string;
}

interface DeviceId {
  readonly driver: string;
  readonly pool: string;
  readonly device: string;
  /** Set if several claims share the device. */
  readonly shareID?: string;
}

export interface AllocatedDevice extends DeviceId {
  readonly networkData?: NetworkDeviceData;
}

interface ClaimConsumer {
  readonly apiGroup?: string;
  readonly resource: string;
  readonly name: string;
  readonly uid: string;
}

export interface ResourceClaim extends KubeObject {
  readonly spec: object;
  readonly status?: {
    /** Set when devices are allocated. */
    readonly allocation?: {
      readonly devices?: {
        /** `request` is REQUEST, or REQUEST/SUBREQUEST if the request has alternatives. */
        readonly results?: readonly (DeviceId & { readonly request: string })[];
      };
    };
    readonly devices?: readonly AllocatedDevice[];
    readonly reservedFor?: readonly ClaimConsumer[];
  };
}

export interface ResourceClaimTemplate extends KubeObject {
  readonly spec: {
    readonly metadata?: {
      readonly labels?: Readonly<Record<string, string>>;
      readonly annotations?: Readonly<Record<string, string>>;
    };
    readonly spec: object;
  };
}
