// SPDX-License-Identifier: Apache-2.0
// The launcher pod of a VMI, as virt-controller makes it.
import {
  controllerOf,
  names,
  printNetworks,
  type Container,
  type Pod,
  type PodVolume,
  type SecurityContext,
  type VirtualMachineInstance,
  type VolumeMount,
} from "@patchbay/api";
import type { Sha256Hex } from "../../iface/names.ts";
import { memoryMiBOf } from "../../spec/memory.ts";
import { kernelPartsOf, type KernelParts } from "./kernel-boot.ts";
import { planPodNetworks } from "./pod-networks.ts";

/** What the cluster decides about launchers. */
export interface LauncherSettings {
  /** Image of the launcher. */
  readonly image: string;
  /** Whether guests run under software emulation. Source: KubeVirt developerConfiguration.useEmulation. */
  readonly useEmulation: boolean;
  /** Whether the API server keeps volumes that are images; else kernels are copied out of theirs. */
  readonly keepsImageVolumes: boolean;
}

/** What a launcher is made of beside its VMI. */
export interface LauncherRequest extends LauncherSettings {
  /** PCIe ports of the domain. */
  readonly ports: number;
}

/** Memory of libvirt and QEMU beside the guest's: measured 100-110 MiB of RSS beyond the guest's under TCG. */
const OVERHEAD_MIB = 256;
/**
 * What QEMU may take more for each port for a moment, while firmware and kernel set the ports up: it makes its memory
 * maps anew for each change and frees them late. Measured on QEMU 7.2, peak of anonymous memory in 6 starts each: no
 * ports 87 MiB, 32 ports 139, 64 ports 217, 128 ports 329. Afterwards a port takes 0.2 MiB.
 */
const PEAK_MIB_PER_PORT = 2;
/** What is written beside the guest's kernel: one directory for sockets and the console's log, one for libvirt's files. */
const VOLUMES: readonly (VolumeMount & { readonly mib: number })[] = [
  { name: names.LAUNCHER_VOLUME, mountPath: names.LAUNCHER_DIR, mib: 64 },
  { name: "tmp", mountPath: "/tmp", mib: 64 },
];
/** What the node keeps of the launcher's output. Source: kubelet containerLogMaxSize (10Mi) times containerLogMaxFiles (5). */
const LOGS_MIB = 50;
/** What a launcher commonly has on disk beside the kernel. */
const COMMON_DISK_MIB = 16;
/** All that the level `restricted` asks for of a container, and a root that nobody writes to. Source: Pod Security Standards. */
const SECURITY: SecurityContext = {
  runAsUser: names.LAUNCHER_UID,
  runAsGroup: names.LAUNCHER_UID,
  runAsNonRoot: true,
  readOnlyRootFilesystem: true,
  allowPrivilegeEscalation: false,
  capabilities: { drop: ["ALL"] },
};
/** Seconds for the guest to shut down. Source: KubeVirt default terminationGracePeriodSeconds of a VMI. */
const DEFAULT_GRACE_SECONDS = 30;
/** Seconds for libvirt to end after the guest. */
const EXTRA_GRACE_SECONDS = 5;
/** DNS-1123 subdomain limit of a pod's name, minus prefix and suffix. Source: Kubernetes names. */
const NAME_MAX = 253 - "virt-launcher-".length - 6;

/** The pod's name is a function of the VMI's uid, so that making it twice is an "already exists". */
export function launcherPodName(vmi: VirtualMachineInstance, sha256Hex: Sha256Hex): string {
  const suffix = sha256Hex(vmi.metadata.uid ?? "").slice(0, 5);
  return `virt-launcher-${vmi.metadata.name.slice(0, NAME_MAX)}-${suffix}`;
}

/**
 * Whether the pod was made for this VMI: in its namespace, controlled by it, and of the name that its uid gives. Labels
 * are words that anybody who may make a pod can write.
 */
export function isLauncherOf(pod: Pod, vmi: VirtualMachineInstance, sha256Hex: Sha256Hex): boolean {
  const uid = vmi.metadata.uid ?? "";
  return (
    uid !== "" &&
    pod.metadata.namespace === vmi.metadata.namespace &&
    pod.metadata.name === launcherPodName(vmi, sha256Hex) &&
    controllerOf(pod)?.uid === uid
  );
}

function devicesOf(settings: LauncherSettings): Readonly<Record<string, string>> {
  return settings.useEmulation
    ? { [names.TUN_RESOURCE]: "1" }
    : { [names.TUN_RESOURCE]: "1", [names.KVM_RESOURCE]: "1" };
}

function inMi(amount: number): string {
  return `${String(amount)}Mi`;
}

function volumesOf(kernel: KernelParts): readonly PodVolume[] {
  const own = VOLUMES.map(({ name, mib }) => ({
    name,
    emptyDir: { sizeLimit: inMi(mib) },
  }));
  return [...own, ...kernel.volumes];
}

function resourcesOf(
  vmi: VirtualMachineInstance,
  request: LauncherRequest,
  kernel: KernelParts,
): NonNullable<Container["resources"]> {
  const memoryMiB = memoryMiBOf(vmi.spec.domain) + OVERHEAD_MIB;
  const peakMiB = memoryMiB + request.ports * PEAK_MIB_PER_PORT;
  const volumesMiB = VOLUMES.reduce((sum, volume) => sum + volume.mib, LOGS_MIB);
  const devices = devicesOf(request);
  return {
    requests: { memory: inMi(memoryMiB), "ephemeral-storage": inMi(COMMON_DISK_MIB), ...devices },
    limits: {
      memory: inMi(peakMiB),
      "ephemeral-storage": inMi(volumesMiB + kernel.diskMiB),
      ...devices,
    },
  };
}

function containerOf(
  vmi: VirtualMachineInstance,
  request: LauncherRequest,
  kernel: KernelParts,
): Container {
  const grace = vmi.spec.terminationGracePeriodSeconds ?? DEFAULT_GRACE_SECONDS;
  return {
    name: names.LAUNCHER_CONTAINER,
    image: request.image,
    imagePullPolicy: "IfNotPresent",
    env: [{ name: "SHUTDOWN_SECONDS", value: String(grace) }],
    resources: resourcesOf(vmi, request, kernel),
    securityContext: SECURITY,
    volumeMounts: [
      ...VOLUMES.map(({ name, mountPath }) => ({ name, mountPath })),
      ...kernel.mounts,
    ],
  };
}

function metadataOf(vmi: VirtualMachineInstance, sha256Hex: Sha256Hex): Pod["metadata"] {
  const elements = planPodNetworks(vmi, [], sha256Hex);
  const uid = vmi.metadata.uid ?? "";
  return {
    name: launcherPodName(vmi, sha256Hex),
    namespace: vmi.metadata.namespace ?? "",
    labels: {
      [names.KUBEVIRT_LABEL]: names.LAUNCHER_LABEL_VALUE,
      [names.CREATED_BY_LABEL]: uid,
      [names.VM_NAME_LABEL]: vmi.metadata.name,
    },
    annotations: {
      [names.DOMAIN_ANNOTATION]: vmi.metadata.name,
      ...(elements.length === 0 ? {} : { [names.NETWORKS_ANNOTATION]: printNetworks(elements) }),
    },
    ownerReferences: [
      {
        apiVersion: vmi.apiVersion,
        kind: vmi.kind,
        name: vmi.metadata.name,
        uid,
        controller: true,
        blockOwnerDeletion: true,
      },
    ],
  };
}

/** The pod for a VMI. Its annotation names the secondary networks from the start. */
export function launcherPodOf(
  vmi: VirtualMachineInstance,
  request: LauncherRequest,
  sha256Hex: Sha256Hex,
): Pod {
  const grace = vmi.spec.terminationGracePeriodSeconds ?? DEFAULT_GRACE_SECONDS;
  const user = names.LAUNCHER_UID;
  const kernel = kernelPartsOf(vmi, { ...request, securityContext: SECURITY });
  const { initContainers, secrets } = kernel;
  return {
    apiVersion: "v1",
    kind: "Pod",
    metadata: metadataOf(vmi, sha256Hex),
    spec: {
      restartPolicy: "Never",
      terminationGracePeriodSeconds: grace + EXTRA_GRACE_SECONDS,
      automountServiceAccountToken: false,
      enableServiceLinks: false,
      ...(vmi.spec.nodeSelector === undefined ? {} : { nodeSelector: vmi.spec.nodeSelector }),
      ...(secrets.length === 0 ? {} : { imagePullSecrets: secrets }),
      securityContext: {
        runAsUser: user,
        runAsGroup: user,
        fsGroup: user,
        runAsNonRoot: true,
        seccompProfile: { type: "RuntimeDefault" },
      },
      ...(initContainers.length === 0 ? {} : { initContainers }),
      containers: [containerOf(vmi, request, kernel)],
      volumes: volumesOf(kernel),
    },
  };
}
