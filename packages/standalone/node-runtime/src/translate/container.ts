// SPDX-License-Identifier: Apache-2.0
// Translates a container of a pod to its CRI configuration.
import { join } from "node:path";
import type { Container, Pod, PodVolume, VolumeMount } from "@patchbay/api/kubernetes";
import { findByName } from "@patchbay/api/values";
import { AppError } from "@patchbay/base";
import type {
  ContainerConfig,
  ContainerDevice,
  ContainerImage,
  ContainerMount,
  MountPropagation,
} from "@patchbay/core/interfaces";
import { toDevices, toSocketMounts, toContainerResources } from "./resources.ts";
import { expandArguments, buildEnvironment, type EnvContext, SizeBudget } from "./environment.ts";
import { buildHostsFilePath } from "./sandbox.ts";
import { buildContainerLabels, buildLogPath, RESTART_DELAY_ANNOTATION } from "./labels.ts";
import { toContainerSecurity } from "./security.ts";

export interface ContainerOptions extends EnvContext {
  readonly container: Container;
  readonly image: ContainerImage;
  readonly attempt: number;
  readonly delaySeconds?: number;
  readonly volumes: ReadonlyMap<string, string>;
  readonly podDirectory: string;
}

const PROPAGATION: Readonly<Record<string, MountPropagation>> = {
  HostToContainer: "HOST_TO_CONTAINER",
  Bidirectional: "BIDIRECTIONAL",
};

function isContentReadOnly(volume: PodVolume): boolean {
  const { image, configMap, secret, downwardAPI, projected, persistentVolumeClaim } = volume;
  const readOnlySources = [image, configMap, secret, downwardAPI, projected];
  return (
    persistentVolumeClaim?.readOnly === true ||
    readOnlySources.some((source) => source !== undefined)
  );
}

function isReadOnly(pod: Pod, { name, readOnly }: VolumeMount): boolean {
  const volume = findByName(pod.spec.volumes, name);
  return readOnly === true || (volume !== undefined && isContentReadOnly(volume));
}

function toMount(options: ContainerOptions, mount: VolumeMount): ContainerMount {
  const volume = options.volumes.get(mount.name);
  if (volume === undefined) {
    const reason = `volumeMounts: volume ${mount.name} does not exist`;
    throw new AppError("RUNTIME_CONTAINER_REFUSED", { container: options.container.name, reason });
  }
  return {
    containerPath: mount.mountPath,
    // As with the kubelet, a file that is mounted by subPath does not receive later changes of the ConfigMap.
    hostPath: join(volume, mount.subPath ?? ""),
    readonly: isReadOnly(options.pod, mount),
    propagation: PROPAGATION[mount.mountPropagation ?? ""] ?? "PRIVATE",
  };
}

function toMounts(options: ContainerOptions): readonly ContainerMount[] {
  const mounts = (options.container.volumeMounts ?? []).map((mount) => toMount(options, mount));
  const isHosts = ({ containerPath }: ContainerMount): boolean => containerPath === "/etc/hosts";
  if (options.pod.spec.hostNetwork === true || mounts.some(isHosts)) return mounts;
  const hostsMount: ContainerMount = {
    containerPath: "/etc/hosts",
    hostPath: buildHostsFilePath(options.podDirectory),
    readonly: true,
    propagation: "PRIVATE",
  };
  return [...mounts, hostsMount];
}

function toVolumeDevices({
  pod,
  container,
  volumes,
}: ContainerOptions): readonly ContainerDevice[] {
  return (container.volumeDevices ?? []).map(({ name, devicePath }) => {
    const claim = findByName(pod.spec.volumes, name)?.persistentVolumeClaim;
    const hostPath = volumes.get(name);
    if (claim === undefined || hostPath === undefined) {
      const reason = `volumeDevices: volume ${name} is not a claim`;
      throw new AppError("RUNTIME_CONTAINER_REFUSED", { container: container.name, reason });
    }
    const permissions = claim.readOnly === true ? "r" : "rw";
    return { containerPath: devicePath, hostPath, permissions };
  });
}

/** @throws AppError with RUNTIME_CONTAINER_REFUSED */
export function toContainerConfig(options: ContainerOptions): ContainerConfig {
  const { pod, container, image, attempt, delaySeconds } = options;
  const budget = new SizeBudget();
  const variables = buildEnvironment(container, options, budget);
  const expand = (texts: readonly string[] = []): readonly string[] =>
    expandArguments(container, texts, { variables, budget });
  return {
    metadata: { name: container.name, attempt },
    image: image.id,
    command: expand(container.command),
    args: expand(container.args),
    workingDir: container.workingDir ?? "",
    env: [...variables],
    mounts: [...toMounts(options), ...toSocketMounts(container, pod.metadata.uid ?? "")],
    devices: [...toDevices(container), ...toVolumeDevices(options)],
    labels: buildContainerLabels(pod, container.name),
    annotations:
      delaySeconds === undefined ? {} : { [RESTART_DELAY_ANNOTATION]: String(delaySeconds) },
    logPath: buildLogPath(container.name, attempt),
    stdin: container.stdin === true,
    stdinOnce: container.stdinOnce === true,
    tty: container.tty === true,
    resources: toContainerResources(pod, container, options.node.memoryBytes),
    security: toContainerSecurity(pod, container, image),
  };
}
