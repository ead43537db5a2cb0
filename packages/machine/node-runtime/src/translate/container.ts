// SPDX-License-Identifier: Apache-2.0
// A container of a pod, as the container runtime is told. Pure.
import { join } from "node:path";
import type { Container, Pod, PodVolume, VolumeMount } from "@patchbay/api";
import { AppError } from "@patchbay/core";
import type {
  ContainerConfig,
  ContainerDevice,
  ContainerImage,
  ContainerMount,
  MountPropagation,
} from "@patchbay/core/ports";
import { devicesOf, socketMountsOf } from "./devices.ts";
import { argumentsOf, environmentOf, type EnvContext } from "./environment.ts";
import { ProgramRoom } from "./expansion.ts";
import { hostsFileOf } from "./hosts.ts";
import { containerLabels, logPathOf, RESTART_DELAY_ANNOTATION } from "./labels.ts";
import { resourcesOf } from "./resources.ts";
import { containerSecurityOf } from "./security.ts";

/** One container to make. */
export interface ContainerToMake extends EnvContext {
  readonly container: Container;
  readonly image: ContainerImage;
  /** From 0; one more for each time that it is made. */
  readonly attempt: number;
  /** How long this start had been put off, seconds; undefined: it is the first. */
  readonly delaySeconds?: number;
  /** The host's path of each volume, by name. */
  readonly volumes: ReadonlyMap<string, string>;
  /** Directory of the pod on the host. */
  readonly podDirectory: string;
}

const PROPAGATION: Readonly<Record<string, MountPropagation>> = {
  HostToContainer: "HOST_TO_CONTAINER",
  Bidirectional: "BIDIRECTIONAL",
};

/** Whether what is in the volume is not the pod's to write. */
function isFixed(volume: PodVolume): boolean {
  const { image, configMap, secret, downwardAPI, projected, persistentVolumeClaim } = volume;
  const shown = [image, configMap, secret, downwardAPI, projected];
  return persistentVolumeClaim?.readOnly === true || shown.some((one) => one !== undefined);
}

function isReadOnly(pod: Pod, { name, readOnly }: VolumeMount): boolean {
  const volume = pod.spec.volumes?.find((one) => one.name === name);
  return readOnly === true || (volume !== undefined && isFixed(volume));
}

function mountOf(make: ContainerToMake, mount: VolumeMount): ContainerMount {
  const volume = make.volumes.get(mount.name);
  if (volume === undefined) {
    const reason = `volumeMounts: volume ${mount.name} does not exist`;
    throw new AppError("RUNTIME_CONTAINER_REFUSED", { container: make.container.name, reason });
  }
  return {
    containerPath: mount.mountPath,
    // One file of a ConfigMap, which stays as it was when the container was made. Source: Kubernetes kubelet, subPath.
    hostPath: join(volume, mount.subPath ?? ""),
    readonly: isReadOnly(make.pod, mount),
    propagation: PROPAGATION[mount.mountPropagation ?? ""] ?? "PRIVATE",
  };
}

function mountsOf(make: ContainerToMake): readonly ContainerMount[] {
  const mounts = (make.container.volumeMounts ?? []).map((mount) => mountOf(make, mount));
  const isHosts = ({ containerPath }: ContainerMount): boolean => containerPath === "/etc/hosts";
  if (make.pod.spec.hostNetwork === true || mounts.some(isHosts)) return mounts;
  const hosts: ContainerMount = {
    containerPath: "/etc/hosts",
    hostPath: hostsFileOf(make.podDirectory),
    readonly: true,
    propagation: "PRIVATE",
  };
  return [...mounts, hosts];
}

/** A volume that is a device, which only a claim can be. */
function volumeDevicesOf({ pod, container, volumes }: ContainerToMake): readonly ContainerDevice[] {
  return (container.volumeDevices ?? []).map(({ name, devicePath }) => {
    const claim = pod.spec.volumes?.find((one) => one.name === name)?.persistentVolumeClaim;
    const hostPath = volumes.get(name);
    if (claim === undefined || hostPath === undefined) {
      const reason = `volumeDevices: volume ${name} is not a claim`;
      throw new AppError("RUNTIME_CONTAINER_REFUSED", { container: container.name, reason });
    }
    const permissions = claim.readOnly === true ? "r" : "rw";
    return { containerPath: devicePath, hostPath, permissions };
  });
}

/**
 * The container's configuration.
 * @throws AppError with RUNTIME_CONTAINER_REFUSED
 */
export function containerConfigOf(make: ContainerToMake): ContainerConfig {
  const { pod, container, image, attempt, delaySeconds } = make;
  const room = new ProgramRoom();
  const variables = environmentOf(container, make, room);
  const expanded = (texts: readonly string[] = []): readonly string[] =>
    argumentsOf(container, texts, { variables, room });
  return {
    metadata: { name: container.name, attempt },
    image: image.id,
    command: expanded(container.command),
    args: expanded(container.args),
    workingDir: container.workingDir ?? "",
    env: [...variables],
    mounts: [...mountsOf(make), ...socketMountsOf(container, pod.metadata.uid ?? "")],
    devices: [...devicesOf(container), ...volumeDevicesOf(make)],
    labels: containerLabels(pod, container.name),
    annotations:
      delaySeconds === undefined ? {} : { [RESTART_DELAY_ANNOTATION]: String(delaySeconds) },
    logPath: logPathOf(container.name, attempt),
    stdin: container.stdin === true,
    stdinOnce: container.stdinOnce === true,
    tty: container.tty === true,
    resources: resourcesOf(pod, container, make.node.memoryBytes),
    security: containerSecurityOf(pod, container, image),
  };
}
