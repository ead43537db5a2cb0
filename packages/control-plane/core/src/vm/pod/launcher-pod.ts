// SPDX-License-Identifier: Apache-2.0
import {
  names,
  type OvercommitConfig,
  type VirtualMachineInstance,
  type VmiSpec,
  type GuestProbe,
} from "@patchbay/api";
import type {
  Container,
  Pod,
  PodVolume,
  SecurityContext,
  VolumeMount,
  Probe,
} from "@patchbay/api/kubernetes";
import { findLayout } from "@patchbay/domain";
import { computeBindingsMiB, computeLauncherResources } from "./launcher-resources.ts";
import { networkResources, type Definitions } from "../../node/definitions.ts";
import { launcherPodName } from "../../migration/owner.ts";
import { readTopologyVersion } from "../../nics/pcie/devices.ts";
import { isForVhostUser } from "../../nics/bindings/resolve-binding.ts";
import { hasDisplay, hasConsole } from "../spec/guest-devices.ts";
import type { DiskFacts } from "./disk-parts.ts";
import { listDiskImages, buildDiskParts, planDisks } from "./disks.ts";
import { buildImageParts, listKernelImages } from "./image-files.ts";
import { buildHookParts, type HookSettings } from "../../hooks/hook-sidecars.ts";
import type { IpamClaimStates } from "../ipam-claims.ts";
import { printMi, joinParts, buildStateParts, type PodParts } from "./parts.ts";
import { buildNetworkInfoVolume } from "./network-info.ts";
import { planPodNetworks, type NetworksOwner } from "./pod-networks.ts";
import { buildPodAnnotations, buildPodSettings } from "./inherited-fields.ts";
import { buildPodLabels, listContainerPorts } from "./selected-fields.ts";
import { domainNameOf } from "../domain/domain.ts";

export interface LauncherSettings {
  readonly image: string;
  readonly sidecarShimImage: string;
  /** Whether guests are emulated. Source: KubeVirt developerConfiguration.useEmulation. */
  readonly useEmulation: boolean;
  readonly logsConsoles: boolean;
  readonly supportsImageVolumes: boolean;
  readonly overcommit: OvercommitConfig;
  /** Extended resources that at least one node offers. The launcher requests no others. Unset until a node is known. */
  readonly offeredResources?: ReadonlySet<string>;
}

export interface LauncherRequest extends LauncherSettings, DiskFacts, HookSettings {
  readonly ports: number;
  readonly definitions: Definitions;
  readonly ipamClaims?: IpamClaimStates;
}

/** Volumes of the launcher: one for sockets and the console log, and one for files of libvirt. */
const LAUNCHER_VOLUMES: readonly (VolumeMount & { readonly mib: number })[] = [
  { name: names.LAUNCHER_VOLUME, mountPath: names.LAUNCHER_DIR, mib: 64 },
  { name: "tmp", mountPath: "/tmp", mib: 64 },
];
/** Maximum size of the launcher's log on the node in MiB. Source: kubelet containerLogMaxSize (10Mi) times containerLogMaxFiles (5). */
const LOGS_MIB = 50;
/** Security context of the level `restricted`, with a read-only root file system. Source: Pod Security Standards. */
const RESTRICTED_SECURITY_CONTEXT: SecurityContext = {
  runAsUser: names.LAUNCHER_UID,
  runAsGroup: names.LAUNCHER_UID,
  runAsNonRoot: true,
  readOnlyRootFilesystem: true,
  allowPrivilegeEscalation: false,
  capabilities: { drop: ["ALL"] },
};
/** Default grace period of a VMI. Source: KubeVirt terminationGracePeriodSeconds. */
const DEFAULT_GRACE_SECONDS = 30;
/** Time for libvirt to exit after the guest. */
const EXTRA_GRACE_SECONDS = 5;
function computePodGraceSeconds(vmi: VirtualMachineInstance): number {
  return (vmi.spec.terminationGracePeriodSeconds ?? DEFAULT_GRACE_SECONDS) + EXTRA_GRACE_SECONDS;
}

/** Returns the grace period for the pod's deletion, at least 1 s. With 0, the API server would not wait for the containers to stop. */
export function computeEndGraceSeconds(vmi: VirtualMachineInstance): number {
  return vmi.spec.terminationGracePeriodSeconds === 0 ? 1 : computePodGraceSeconds(vmi);
}

function buildLauncherVolumes(): readonly PodVolume[] {
  return LAUNCHER_VOLUMES.map(({ name, mib }) => ({ name, emptyDir: { sizeLimit: printMi(mib) } }));
}

/** Lists the VM's claims without request names, so that the container gets the devices of all requests, even for NICs plugged later. */
function buildContainerClaims({
  resourceClaims = [],
}: VmiSpec): Pick<NonNullable<Container["resources"]>, "claims"> {
  if (resourceClaims.length === 0) return {};
  return { claims: resourceClaims.map(({ name }) => ({ name })) };
}

function buildContainer(
  vmi: VirtualMachineInstance,
  request: LauncherRequest,
  parts: PodParts,
): Container {
  const graceSeconds = vmi.spec.terminationGracePeriodSeconds ?? DEFAULT_GRACE_SECONDS;
  const { hasKubeVirtDefaults } = findLayout(readTopologyVersion(vmi));
  const elements = planPodNetworks({ vmi, bindings: request.bindings }, []);
  const facts = {
    ...request,
    hasDisplay: hasDisplay(vmi.spec, hasKubeVirtDefaults),
    networkResources: networkResources(elements, request.definitions, request.offeredResources),
    bindingsMiB: computeBindingsMiB(vmi.spec, request.bindings),
    isForVhostUser: isForVhostUser(vmi.spec, request.bindings),
  };
  const info = buildNetworkInfoVolume({ vmi, bindings: request.bindings });
  const ports = listContainerPorts(vmi);
  const launcherMiB = LAUNCHER_VOLUMES.reduce((sum, volume) => sum + volume.mib, LOGS_MIB);
  return {
    name: names.LAUNCHER_CONTAINER,
    image: request.image,
    imagePullPolicy: "IfNotPresent",
    env: [{ name: "SHUTDOWN_SECONDS", value: String(graceSeconds) }],
    ...(ports.length > 0 && { ports }),
    resources: {
      ...computeLauncherResources(vmi.spec, facts, { launcherMiB, guestMiB: parts.diskMiB }),
      ...buildContainerClaims(vmi.spec),
    },
    securityContext: RESTRICTED_SECURITY_CONTEXT,
    ...buildContainerProbes(vmi),
    volumeMounts: [
      ...LAUNCHER_VOLUMES.map(({ name, mountPath }) => ({ name, mountPath })),
      ...parts.mounts,
      ...(info === undefined ? [] : [info.mount]),
    ],
    ...(parts.devices.length === 0 ? {} : { volumeDevices: parts.devices }),
  };
}

function buildMetadata(owner: NetworksOwner): Pod["metadata"] {
  const { vmi } = owner;
  return {
    name: launcherPodName(vmi),
    namespace: vmi.metadata.namespace ?? "",
    labels: buildPodLabels(vmi),
    annotations: buildPodAnnotations(owner),
    ownerReferences: [
      {
        apiVersion: vmi.apiVersion,
        kind: vmi.kind,
        name: vmi.metadata.name,
        uid: vmi.metadata.uid ?? "",
        controller: true,
        blockOwnerDeletion: true,
      },
    ],
  };
}

function collectParts(vmi: VirtualMachineInstance, launcherRequest: LauncherRequest): PodParts {
  const request = { ...launcherRequest, securityContext: RESTRICTED_SECURITY_CONTEXT };
  const disks = planDisks(vmi, launcherRequest);
  const diskImages = listDiskImages(disks);
  const images = buildImageParts([...listKernelImages(vmi), ...diskImages], request);
  const diskMounts = images.mounts.filter(({ name }) =>
    diskImages.some((image) => image.name === name),
  );
  return joinParts([images, buildDiskParts(disks, diskMounts, request), buildStateParts(vmi)]);
}

export function buildLauncherPod(vmi: VirtualMachineInstance, request: LauncherRequest): Pod {
  const user = names.LAUNCHER_UID;
  const parts = collectParts(vmi, request);
  const { initContainers, secrets } = parts;
  const { bindings, ipamClaims } = request;
  const info = buildNetworkInfoVolume({ vmi, bindings: request.bindings });
  const hooks = buildHookParts(vmi, request, info?.mount);
  return {
    apiVersion: "v1",
    kind: "Pod",
    metadata: buildMetadata({ vmi, bindings, ...(ipamClaims && { ipamClaims }) }),
    spec: {
      restartPolicy: "Never",
      terminationGracePeriodSeconds: computePodGraceSeconds(vmi),
      automountServiceAccountToken: false,
      enableServiceLinks: false,
      ...buildPodSettings(vmi),
      ...(secrets.length === 0 ? {} : { imagePullSecrets: secrets.map((name) => ({ name })) }),
      securityContext: {
        runAsUser: user,
        runAsGroup: user,
        fsGroup: user,
        runAsNonRoot: true,
        seccompProfile: { type: "RuntimeDefault" },
      },
      ...(initContainers.length === 0 ? {} : { initContainers }),
      containers: [
        buildContainer(vmi, request, { ...parts, mounts: [...parts.mounts, ...hooks.mounts] }),
        ...buildConsoleLog(vmi.spec, { ...request, securityContext: RESTRICTED_SECURITY_CONTEXT }),
        ...hooks.containers,
      ],
      volumes: [
        ...buildLauncherVolumes(),
        ...parts.volumes,
        ...(info === undefined ? [] : [info.volume]),
        ...hooks.volumes,
      ],
      ...(vmi.spec.resourceClaims !== undefined &&
        vmi.spec.resourceClaims.length > 0 && { resourceClaims: vmi.spec.resourceClaims }),
    },
  };
}

interface LogParts {
  readonly image: string;
  readonly securityContext: SecurityContext;
  /** Whether to log the console if the VM does not configure logging. Source: KubeVirt virtualMachineOptions.disableSerialConsoleLog. */
  readonly logsConsoles: boolean;
}

/** Resources for a shell and `tail`. CPU is limited, because a guest may print continuously. The disk limit includes 50 MiB of logs. */
const CONTAINER_RESOURCES = {
  requests: { cpu: "5m", memory: "8Mi", "ephemeral-storage": "1Mi" },
  limits: { cpu: "100m", memory: "32Mi", "ephemeral-storage": "51Mi" },
};

function isLogged(spec: VmiSpec, isLoggedByDefault: boolean): boolean {
  return hasConsole(spec) && (spec.domain.devices?.logSerialConsole ?? isLoggedByDefault);
}

/** Builds the container that logs the serial console. Source: KubeVirt pkg/virt-controller/services/serialconsolelog.go. */
export function buildConsoleLog(spec: VmiSpec, parts: LogParts): readonly Container[] {
  const { image, securityContext, logsConsoles } = parts;
  if (!isLogged(spec, logsConsoles)) return [];
  return [
    {
      name: names.CONSOLE_LOG_CONTAINER,
      image,
      imagePullPolicy: "IfNotPresent",
      command: ["/usr/bin/virt-tail"],
      resources: CONTAINER_RESOURCES,
      securityContext,
      volumeMounts: [
        { name: names.LAUNCHER_VOLUME, mountPath: names.LAUNCHER_DIR, readOnly: true },
      ],
    },
  ];
}

/** Seconds added to the initial delay of probes, because the guest starts only after libvirt. Source: KubeVirt LibvirtStartupDelay. */
const LIBVIRT_STARTUP_SECONDS = 10;
/** Seconds added to a probe's timeout in the kubelet, so that `virt-probe` can report that the guest agent timed out. */
const AGENT_ANSWER_SECONDS = 1;
const DEFAULT_TIMEOUT_SECONDS = 1;

/** Fields that are copied unchanged from a VMI's probe to the launcher's probe. */
const KUBELET_FIELDS = [
  "httpGet",
  "tcpSocket",
  "periodSeconds",
  "timeoutSeconds",
  "successThreshold",
  "failureThreshold",
] as const;

/** Builds the guest agent's command that executes the probe's command. Source: QEMU qga/qapi-schema.json guest-exec. */
function buildExecRequest([path = "", ...args]: readonly string[]): string {
  const fields = { path, arg: args, "capture-output": true };
  return JSON.stringify({ execute: "guest-exec", arguments: fields });
}

/** Returns the command of `virt-probe`. Returns undefined if the kubelet can probe the guest directly. */
function buildCommand(
  vmi: VirtualMachineInstance,
  probe: GuestProbe,
): readonly string[] | undefined {
  const { exec, guestAgentPing, timeoutSeconds = DEFAULT_TIMEOUT_SECONDS } = probe;
  const command = [
    "virt-probe",
    domainNameOf(vmi),
    String(Math.max(timeoutSeconds, DEFAULT_TIMEOUT_SECONDS)),
  ];
  if (guestAgentPing !== undefined) return command;
  return exec === undefined ? undefined : [...command, buildExecRequest(exec.command ?? [])];
}

function buildContainerProbe(vmi: VirtualMachineInstance, probe: GuestProbe): Probe {
  const { initialDelaySeconds = 0, timeoutSeconds = DEFAULT_TIMEOUT_SECONDS } = probe;
  const command = buildCommand(vmi, probe);
  const fields = KUBELET_FIELDS.filter((field) => probe[field] !== undefined);
  return {
    ...Object.fromEntries(fields.map((field) => [field, probe[field]])),
    initialDelaySeconds: initialDelaySeconds + LIBVIRT_STARTUP_SECONDS,
    ...(command !== undefined && {
      exec: { command },
      timeoutSeconds: Math.max(timeoutSeconds, DEFAULT_TIMEOUT_SECONDS) + AGENT_ANSWER_SECONDS,
    }),
  };
}

export function buildContainerProbes(
  vmi: VirtualMachineInstance,
): Pick<Container, "livenessProbe" | "readinessProbe"> {
  const { livenessProbe, readinessProbe } = vmi.spec;
  return {
    ...(livenessProbe !== undefined && { livenessProbe: buildContainerProbe(vmi, livenessProbe) }),
    ...(readinessProbe !== undefined && {
      readinessProbe: buildContainerProbe(vmi, readinessProbe),
    }),
  };
}
