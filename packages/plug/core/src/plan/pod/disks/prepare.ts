// SPDX-License-Identifier: Apache-2.0
// The container that looks at the guest's disks and makes those that are made; docs/reference/prepare-disks.md.
import { names, type Container } from "@patchbay/api";
import type { PartsRequest } from "../parts.ts";
import { literally, type DiskPart } from "./disk-part.ts";

/** Its name in a launcher pod. */
export const PREPARE_CONTAINER = "prepare-disks";
const PROGRAM = "/usr/bin/prepare-disks";
/**
 * `qemu-img` and `xorriso` take some tens of MiB; more than that only an image that is made to take it, which is ended by
 * its limit. One processor, so that a node's others go on.
 */
const REQUESTS = { cpu: "10m", memory: "64Mi", "ephemeral-storage": "16Mi" };
const LIMITS = { cpu: "1", memory: "512Mi", "ephemeral-storage": "16Mi" };

function argumentsOf(parts: readonly DiskPart[]): readonly string[] {
  return parts
    .flatMap(({ group }, index) => (index === 0 ? group : ["--", ...group]))
    .map(literally);
}

/** Of all disks of a VMI; `parts` are not empty. `shared` is what the launcher has too. */
export function prepareContainer(
  parts: readonly DiskPart[],
  shared: Pick<Container, "volumeMounts" | "volumeDevices">,
  request: PartsRequest,
): Container {
  const env = parts.flatMap((part) => part.env ?? []);
  const madeFrom = parts.flatMap((part) => part.madeFrom ?? []);
  const devices = shared.volumeDevices ?? [];
  return {
    name: PREPARE_CONTAINER,
    image: request.image,
    imagePullPolicy: "IfNotPresent",
    command: [PROGRAM],
    args: argumentsOf(parts),
    ...(env.length === 0
      ? {}
      : { env: env.map(({ name, value = "" }) => ({ name, value: literally(value) })) }),
    terminationMessagePolicy: "FallbackToLogsOnError",
    resources: { requests: REQUESTS, limits: LIMITS },
    securityContext: request.securityContext,
    volumeMounts: [
      { name: "tmp", mountPath: "/tmp" },
      { name: names.DISKS_VOLUME, mountPath: names.DISKS_DIR },
      ...(shared.volumeMounts ?? []),
      ...madeFrom,
    ],
    ...(devices.length === 0 ? {} : { volumeDevices: devices }),
  };
}
