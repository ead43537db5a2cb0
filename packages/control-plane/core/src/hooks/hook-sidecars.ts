// SPDX-License-Identifier: Apache-2.0
// Hook containers of a launcher. Source: KubeVirt pkg/virt-controller/services/template.go, pkg/network/netbinding.
import { names, type NetworkConfig, type VirtualMachineInstance } from "@patchbay/api";
import { parseHookSidecars, type HookSidecarRequest } from "@patchbay/api/annotations";
import type {
  Container,
  ContainerStatus,
  EnvVar,
  Pod,
  PodVolume,
  SecurityContext,
  VolumeMount,
} from "@patchbay/api/kubernetes";
import { canBind } from "../nics/bindings/resolve-binding.ts";
import { ifacesOf } from "../nics/nics.ts";
import { printMi } from "../vm/pod/parts.ts";

interface HookParts {
  readonly containers: readonly Container[];
  readonly volumes: readonly PodVolume[];
  /** Mounts for the launcher's container. They contain the files that hooks share with QEMU. */
  readonly mounts: readonly VolumeMount[];
}

export interface HookSettings extends Pick<NetworkConfig, "bindings" | "allowsHooks"> {
  readonly sidecarShimImage: string;
}

const CONTAINER_NAME_VARIABLE = "CONTAINER_NAME";
const BINDING_NAME_VARIABLE = "NETWORK_BINDING_PLUGIN_NAME";
const SHARED_VOLUME_MIB = 16;
/** Resources of a hook container. The limit `ephemeral-storage` also covers files in the root file system. */
const CONTAINER_RESOURCES = {
  requests: { cpu: "10m", memory: "32Mi", "ephemeral-storage": "16Mi" },
  limits: { cpu: "1", memory: "256Mi", "ephemeral-storage": "128Mi" },
};
/** Security context that meets the Pod Security Standard `restricted`. The root file system is writable, because scripts use /tmp. */
const RESTRICTED_SECURITY_CONTEXT: SecurityContext = {
  runAsUser: names.LAUNCHER_UID,
  runAsGroup: names.LAUNCHER_UID,
  runAsNonRoot: true,
  allowPrivilegeEscalation: false,
  capabilities: { drop: ["ALL"] },
};
const SCRIPT_MODE = 0o755;

interface Hook extends HookSidecarRequest {
  readonly binding?: string;
}

function listBindingHooks(
  { spec }: VirtualMachineInstance,
  { bindings }: HookSettings,
): readonly Hook[] {
  const boundIfaces = ifacesOf(spec).filter((iface) => canBind(spec, iface, bindings));
  const usedBindings = new Set(boundIfaces.flatMap(({ binding }) => binding?.name ?? []));
  return [...usedBindings].flatMap((binding): readonly Hook[] => {
    const { sidecarImage: image = "", downwardAPI } = bindings[binding] ?? {};
    if (image === "") return [];
    return [{ image, binding, ...(downwardAPI === "device-info" && { readsDeviceInfo: true }) }];
  });
}

function buildEnvironment(name: string, { binding }: Hook): readonly EnvVar[] {
  return [
    { name: CONTAINER_NAME_VARIABLE, value: name },
    ...(binding === undefined ? [] : [{ name: BINDING_NAME_VARIABLE, value: binding }]),
  ];
}

function mountScript(name: string, { configMap }: Hook) {
  if (configMap === undefined) return { volumes: [], mounts: [] };
  const { key, hookPath } = configMap;
  const volume = {
    name: `${name}-script`,
    configMap: { name: configMap.name, defaultMode: SCRIPT_MODE },
  };
  return {
    volumes: [volume],
    mounts: [{ name: volume.name, mountPath: hookPath, subPath: key, readOnly: true }],
  };
}

function mountClaim(container: string, { pvc }: Hook) {
  if (pvc === undefined) return { volumes: [], mounts: [], shared: [] };
  const name = `${container}-claim`;
  const { volumePath, sharedComputePath } = pvc;
  return {
    volumes: [{ name, persistentVolumeClaim: { claimName: pvc.name } }],
    mounts: [{ name, mountPath: volumePath }],
    shared: sharedComputePath === undefined ? [] : [{ name, mountPath: sharedComputePath }],
  };
}

interface HookContext {
  readonly deviceInfoMount: VolumeMount | undefined;
  readonly shimImage: string;
}

function toHookParts(
  hook: Hook,
  index: number,
  { deviceInfoMount, shimImage }: HookContext,
): HookParts {
  const name = `${names.HOOK_SIDECAR_PREFIX}${String(index)}`;
  const { image = shimImage, imagePullPolicy = "IfNotPresent", command, args } = hook;
  const script = mountScript(name, hook);
  const claim = mountClaim(name, hook);
  const container: Container = {
    name,
    image,
    imagePullPolicy,
    ...(command === undefined ? {} : { command }),
    ...(args === undefined ? {} : { args }),
    env: buildEnvironment(name, hook),
    resources: CONTAINER_RESOURCES,
    securityContext: RESTRICTED_SECURITY_CONTEXT,
    volumeMounts: [
      { name, mountPath: names.HOOK_SOCKETS_DIR },
      ...script.mounts,
      ...claim.mounts,
      ...(hook.readsDeviceInfo === true && deviceInfoMount !== undefined ? [deviceInfoMount] : []),
    ],
    terminationMessagePolicy: "FallbackToLogsOnError",
  };
  return {
    containers: [container],
    volumes: [
      { name, emptyDir: { sizeLimit: printMi(SHARED_VOLUME_MIB) } },
      ...script.volumes,
      ...claim.volumes,
    ],
    // As in KubeVirt, the launcher mounts the sockets of each hook container in a separate subdirectory.
    mounts: [
      { name, mountPath: `${names.HOOK_SOCKETS_DIR}/${name}`, readOnly: true },
      ...claim.shared,
    ],
  };
}

export function buildHookParts(
  vmi: VirtualMachineInstance,
  settings: HookSettings,
  deviceInfoMount: VolumeMount | undefined,
): HookParts {
  const hooks: readonly Hook[] = [
    ...parseHookSidecars(vmi.metadata, settings.allowsHooks),
    ...listBindingHooks(vmi, settings),
  ];
  const context = { deviceInfoMount, shimImage: settings.sidecarShimImage };
  const parts = hooks.map((hook, index) => toHookParts(hook, index, context));
  return {
    containers: parts.flatMap(({ containers }) => containers),
    volumes: parts.flatMap(({ volumes }) => volumes),
    mounts: parts.flatMap(({ mounts }) => mounts),
  };
}

function listHookStatuses({ status }: Pod): readonly ContainerStatus[] {
  const { containerStatuses = [] } = status ?? {};
  return containerStatuses.filter(({ name }) => name.startsWith(names.HOOK_SIDECAR_PREFIX));
}

export function findFailedHook(pod: Pod): ContainerStatus | undefined {
  return listHookStatuses(pod).find(({ state }) => (state.terminated?.exitCode ?? 0) !== 0);
}

export function hasRunningHook(pod: Pod): boolean {
  return listHookStatuses(pod).some(({ state }) => state.running !== undefined);
}
