// SPDX-License-Identifier: Apache-2.0
// The containers of a launcher whose hooks change the guest's domain: those that the VMI asks for, then one for each
// registered binding that has one. Source: KubeVirt pkg/virt-controller/services/template.go, pkg/network/netbinding.
import {
  hookSidecarsOf,
  names,
  type Container,
  type ContainerStatus,
  type EnvVar,
  type HookSidecarRequest,
  type NetworkConfig,
  type Pod,
  type PodVolume,
  type SecurityContext,
  type VirtualMachineInstance,
  type VolumeMount,
} from "@patchbay/api";
import { canBind } from "../../bindings/resolve-binding.ts";
import { ifacesOf } from "../../spec/nics.ts";
import { inMi } from "./parts.ts";

/** What a launcher needs for its hooks. */
interface HookParts {
  readonly containers: readonly Container[];
  readonly volumes: readonly PodVolume[];
  /** Of the launcher's own container: what hooks share with the guest's QEMU. */
  readonly mounts: readonly VolumeMount[];
}

/** What of the cluster decides about hooks. */
export interface HookSettings extends Pick<NetworkConfig, "bindings" | "allowsHooks"> {
  /** Of hooks that name none. */
  readonly sidecarShimImage: string;
}

/** Source: KubeVirt pkg/hooks ContainerNameEnvVar, and VEP 190. */
const CONTAINER_NAME = "CONTAINER_NAME";
const BINDING_NAME = "NETWORK_BINDING_PLUGIN_NAME";
/** Sockets, and what a hook shares beside them. */
const SHARED_MIB = 16;
/** What a hook may take; what it writes into its own root is in it. */
const RESOURCES = {
  requests: { cpu: "10m", memory: "32Mi", "ephemeral-storage": "16Mi" },
  limits: { cpu: "1", memory: "256Mi", "ephemeral-storage": "128Mi" },
};
/** All that the level `restricted` asks for; scripts write to /tmp. Source: Pod Security Standards. */
const SECURITY: SecurityContext = {
  runAsUser: names.LAUNCHER_UID,
  runAsGroup: names.LAUNCHER_UID,
  runAsNonRoot: true,
  allowPrivilegeEscalation: false,
  capabilities: { drop: ["ALL"] },
};
/** Of a script: read and run by everybody. */
const SCRIPT_MODE = 0o755;

/** A hook, and for which binding it is one. */
interface Hook extends HookSidecarRequest {
  readonly binding?: string;
}

/** Each binding once, in the order of the ifaces. */
function bindingHooks(
  { spec }: VirtualMachineInstance,
  { bindings }: HookSettings,
): readonly Hook[] {
  const bound = ifacesOf(spec).filter((iface) => canBind(spec, iface, bindings));
  const used = new Set(bound.flatMap(({ binding }) => binding?.name ?? []));
  return [...used].flatMap((binding): readonly Hook[] => {
    const { sidecarImage: image = "", downwardAPI } = bindings[binding] ?? {};
    if (image === "") return [];
    return [{ image, binding, ...(downwardAPI === "device-info" && { readsDeviceInfo: true }) }];
  });
}

function environmentOf(name: string, { binding }: Hook): readonly EnvVar[] {
  return [
    { name: CONTAINER_NAME, value: name },
    ...(binding === undefined ? [] : [{ name: BINDING_NAME, value: binding }]),
  ];
}

function scriptOf(name: string, { configMap }: Hook) {
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

/** A claim's files, for the hook and, where it says so, for the guest's QEMU. */
function claimOf(container: string, { pvc }: Hook) {
  if (pvc === undefined) return { volumes: [], mounts: [], shared: [] };
  const name = `${container}-claim`;
  const { volumePath, sharedComputePath } = pvc;
  return {
    volumes: [{ name, persistentVolumeClaim: { claimName: pvc.name } }],
    mounts: [{ name, mountPath: volumePath }],
    shared: sharedComputePath === undefined ? [] : [{ name, mountPath: sharedComputePath }],
  };
}

/** What of the launcher decides about them. */
interface Surroundings {
  readonly info: VolumeMount | undefined;
  readonly shimImage: string;
}

function partsOf(hook: Hook, index: number, { info, shimImage }: Surroundings): HookParts {
  const name = `${names.HOOK_SIDECAR_PREFIX}${String(index)}`;
  const { image = shimImage, imagePullPolicy = "IfNotPresent", command, args } = hook;
  const script = scriptOf(name, hook);
  const claim = claimOf(name, hook);
  const container: Container = {
    name,
    image,
    imagePullPolicy,
    ...(command === undefined ? {} : { command }),
    ...(args === undefined ? {} : { args }),
    env: environmentOf(name, hook),
    resources: RESOURCES,
    securityContext: SECURITY,
    volumeMounts: [
      { name, mountPath: names.HOOK_SOCKETS_DIR },
      ...script.mounts,
      ...claim.mounts,
      ...(hook.readsDeviceInfo === true && info !== undefined ? [info] : []),
    ],
    terminationMessagePolicy: "FallbackToLogsOnError",
  };
  return {
    containers: [container],
    volumes: [
      { name, emptyDir: { sizeLimit: inMi(SHARED_MIB) } },
      ...script.volumes,
      ...claim.volumes,
    ],
    // Where KubeVirt has it: the directory of the container, beside those of others.
    mounts: [
      { name, mountPath: `${names.HOOK_SOCKETS_DIR}/${name}`, readOnly: true },
      ...claim.shared,
    ],
  };
}

/** All of them; `info` is where the launcher tells of its NICs. */
export function hookPartsOf(
  vmi: VirtualMachineInstance,
  settings: HookSettings,
  info: VolumeMount | undefined,
): HookParts {
  const hooks: readonly Hook[] = [
    ...hookSidecarsOf(vmi.metadata, settings.allowsHooks),
    ...bindingHooks(vmi, settings),
  ];
  const around = { info, shimImage: settings.sidecarShimImage };
  const parts = hooks.map((hook, index) => partsOf(hook, index, around));
  return {
    containers: parts.flatMap(({ containers }) => containers),
    volumes: parts.flatMap(({ volumes }) => volumes),
    mounts: parts.flatMap(({ mounts }) => mounts),
  };
}

/** The hooks of a launcher, as its node tells of them. */
function hooksOf({ status }: Pod): readonly ContainerStatus[] {
  const { containerStatuses = [] } = status ?? {};
  return containerStatuses.filter(({ name }) => name.startsWith(names.HOOK_SIDECAR_PREFIX));
}

/** A hook that has failed. */
export function failedHookOf(pod: Pod): ContainerStatus | undefined {
  return hooksOf(pod).find(({ state }) => (state.terminated?.exitCode ?? 0) !== 0);
}

/** Whether a hook still runs, which the others of the pod do not end. */
export function hasRunningHook(pod: Pod): boolean {
  return hooksOf(pod).some(({ state }) => state.running !== undefined);
}
