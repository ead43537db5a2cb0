// SPDX-License-Identifier: Apache-2.0
// Parts of a launcher pod, each from the module that knows one reason for it.
import type { Container, PodVolume, SecurityContext, VolumeMount } from "@patchbay/api";

/** A device of a claim in a container. */
export type VolumeDevice = NonNullable<Container["volumeDevices"]>[number];

/** What something that the guest has needs of the pod. */
export interface PodParts {
  readonly volumes: readonly PodVolume[];
  /** In the order in which they run. */
  readonly initContainers: readonly Container[];
  /** Of the launcher's container. */
  readonly mounts: readonly VolumeMount[];
  /** Of the launcher's container. */
  readonly devices: readonly VolumeDevice[];
  /** With which images are pulled. */
  readonly secrets: readonly string[];
  /** Most that all of it takes on the node's disk, MiB. */
  readonly diskMiB: number;
}

/** What asks for nothing. */
export const NO_PARTS: PodParts = {
  volumes: [],
  initContainers: [],
  mounts: [],
  devices: [],
  secrets: [],
  diskMiB: 0,
};

/** All of them, in their order. */
export function joinParts(parts: readonly PodParts[]): PodParts {
  return {
    volumes: parts.flatMap(({ volumes }) => volumes),
    initContainers: parts.flatMap(({ initContainers }) => initContainers),
    mounts: parts.flatMap(({ mounts }) => mounts),
    devices: parts.flatMap(({ devices }) => devices),
    secrets: [...new Set(parts.flatMap(({ secrets }) => secrets))],
    diskMiB: parts.reduce((sum, { diskMiB }) => sum + diskMiB, 0),
  };
}

/** How the cluster has things, for all parts. */
export interface PartsRequest {
  /** Of the launcher. */
  readonly image: string;
  /** Whether the API server keeps volumes that are images. Source: Kubernetes KEP-4639 "image volume source". */
  readonly keepsImageVolumes: boolean;
  /** Of each container. */
  readonly securityContext: SecurityContext;
}

/** An amount as Kubernetes writes it. */
export function inMi(amount: number): string {
  return `${String(amount)}Mi`;
}
