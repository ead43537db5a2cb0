// SPDX-License-Identifier: Apache-2.0
// The launcher pod of a VMI, as virt-controller makes it.
import {
  names,
  type Container,
  type OvercommitConfig,
  type Pod,
  type PodVolume,
  type SecurityContext,
  type VirtualMachineInstance,
  type VolumeMount,
  type VmiSpec,
  type GuestProbe,
  type Probe,
} from "@patchbay/api";
import { layoutOf } from "@patchbay/domain";
import { bindingsMiBOf, launcherResourcesOf } from "./launcher-resources.ts";
import { networkResources, type Definitions } from "../../node/definitions.ts";
import { launcherPodName } from "../../migration/owner.ts";
import { topologyVersionOf } from "../../pcie/devices.ts";
import { isForVhostUser } from "../../bindings/resolve-binding.ts";
import { hasDisplay, hasConsole } from "../../spec/guest-devices.ts";
import type { DiskFacts } from "./disk-parts.ts";
import { diskImagesOf, diskPartsOf, planDisks } from "./disks.ts";
import { imagePartsOf, kernelImageOf } from "./image-files.ts";
import { hookPartsOf, type HookSettings } from "./hook-sidecars.ts";
import { inMi, joinParts, statePartsOf, type PodParts } from "./parts.ts";
import { networkInfoVolume } from "./network-info.ts";
import { planPodNetworks, type NetworksOwner } from "./pod-networks.ts";
import { podAnnotationsOf, podLabelsOf, podSettingsOf } from "./inherited-fields.ts";
import { domainNameOf } from "../node/domain.ts";

/** What the cluster decides about launchers. */
export interface LauncherSettings {
  /** Image of the launcher. */
  readonly image: string;
  /** Of hooks that name none. */
  readonly sidecarShimImage: string;
  /** Whether guests run under software emulation. Source: KubeVirt developerConfiguration.useEmulation. */
  readonly useEmulation: boolean;
  /** Whether what guests print is a container's log, where a VM does not say. */
  readonly logsConsoles: boolean;
  /** Whether the API server keeps volumes that are images; else files are copied out of theirs. */
  readonly keepsImageVolumes: boolean;
  readonly overcommit: OvercommitConfig;
  /** Extended resources of all nodes; others are not requested. Unset while no node is known. */
  readonly offeredResources?: ReadonlySet<string>;
}

/** What a launcher is made of beside its VMI. */
export interface LauncherRequest extends LauncherSettings, DiskFacts, HookSettings {
  /** PCIe ports of the domain. */
  readonly ports: number;
  /** Of its networks, as far as they are there. */
  readonly definitions: Definitions;
}

/** What is written beside the guest's disks: one directory for sockets and the console's log, one for libvirt's files. */
const VOLUMES: readonly (VolumeMount & { readonly mib: number })[] = [
  { name: names.LAUNCHER_VOLUME, mountPath: names.LAUNCHER_DIR, mib: 64 },
  { name: "tmp", mountPath: "/tmp", mib: 64 },
];
/** What the node keeps of the launcher's output. Source: kubelet containerLogMaxSize (10Mi) times containerLogMaxFiles (5). */
const LOGS_MIB = 50;
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
function podGraceSeconds(vmi: VirtualMachineInstance): number {
  return (vmi.spec.terminationGracePeriodSeconds ?? DEFAULT_GRACE_SECONDS) + EXTRA_GRACE_SECONDS;
}

/**
 * Seconds in which the pod is to end, which may be fewer than those with which it was made. A guest that gets no time at
 * all is not waited for: 0 would say that the node need not answer. Source: KubeVirt RestartVMRequestHandler.
 */
export function endGraceSeconds(vmi: VirtualMachineInstance): number {
  return vmi.spec.terminationGracePeriodSeconds === 0 ? 1 : podGraceSeconds(vmi);
}

function ownVolumes(): readonly PodVolume[] {
  return VOLUMES.map(({ name, mib }) => ({ name, emptyDir: { sizeLimit: inMi(mib) } }));
}

function containerOf(
  vmi: VirtualMachineInstance,
  request: LauncherRequest,
  parts: PodParts,
): Container {
  const grace = vmi.spec.terminationGracePeriodSeconds ?? DEFAULT_GRACE_SECONDS;
  const { hasKubeVirtDefaults } = layoutOf(topologyVersionOf(vmi));
  const elements = planPodNetworks({ vmi, bindings: request.bindings }, []);
  const facts = {
    ...request,
    hasDisplay: hasDisplay(vmi.spec, hasKubeVirtDefaults),
    networkResources: networkResources(elements, request.definitions, request.offeredResources),
    bindingsMiB: bindingsMiBOf(vmi.spec, request.bindings),
    isForVhostUser: isForVhostUser(vmi.spec, request.bindings),
  };
  const info = networkInfoVolume({ vmi, bindings: request.bindings });
  const ownMiB = VOLUMES.reduce((sum, volume) => sum + volume.mib, LOGS_MIB);
  return {
    name: names.LAUNCHER_CONTAINER,
    image: request.image,
    imagePullPolicy: "IfNotPresent",
    env: [{ name: "SHUTDOWN_SECONDS", value: String(grace) }],
    resources: launcherResourcesOf(vmi.spec, facts, { ownMiB, guestMiB: parts.diskMiB }),
    securityContext: SECURITY,
    ...containerProbesOf(vmi),
    volumeMounts: [
      ...VOLUMES.map(({ name, mountPath }) => ({ name, mountPath })),
      ...parts.mounts,
      ...(info === undefined ? [] : [info.mount]),
    ],
    ...(parts.devices.length === 0 ? {} : { volumeDevices: parts.devices }),
  };
}

function metadataOf(owner: NetworksOwner): Pod["metadata"] {
  const { vmi } = owner;
  return {
    name: launcherPodName(vmi),
    namespace: vmi.metadata.namespace ?? "",
    labels: podLabelsOf(vmi),
    annotations: podAnnotationsOf(owner),
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

/** All that the guest has needs: files of images first, then what is made of them. */
function partsOf(vmi: VirtualMachineInstance, given: LauncherRequest): PodParts {
  const request = { ...given, securityContext: SECURITY };
  const disks = planDisks(vmi, given);
  const diskImages = diskImagesOf(disks);
  const images = imagePartsOf([...kernelImageOf(vmi), ...diskImages], request);
  const ofDisks = images.mounts.filter(({ name }) =>
    diskImages.some((image) => image.name === name),
  );
  return joinParts([images, diskPartsOf(disks, ofDisks, request), statePartsOf(vmi)]);
}

/** The pod for a VMI. Its annotation names the secondary networks from the start. */
export function launcherPodOf(vmi: VirtualMachineInstance, request: LauncherRequest): Pod {
  const user = names.LAUNCHER_UID;
  const parts = partsOf(vmi, request);
  const { initContainers, secrets } = parts;
  const info = networkInfoVolume({ vmi, bindings: request.bindings });
  const hooks = hookPartsOf(vmi, request, info?.mount);
  return {
    apiVersion: "v1",
    kind: "Pod",
    metadata: metadataOf({ vmi, bindings: request.bindings }),
    spec: {
      restartPolicy: "Never",
      terminationGracePeriodSeconds: podGraceSeconds(vmi),
      automountServiceAccountToken: false,
      enableServiceLinks: false,
      ...podSettingsOf(vmi),
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
        containerOf(vmi, request, { ...parts, mounts: [...parts.mounts, ...hooks.mounts] }),
        ...consoleLogOf(vmi.spec, { ...request, securityContext: SECURITY }),
        ...hooks.containers,
      ],
      volumes: [
        ...ownVolumes(),
        ...parts.volumes,
        ...(info === undefined ? [] : [info.volume]),
        ...hooks.volumes,
      ],
    },
  };
}

/** What a container is made of that is the same for all of a launcher. */
interface LogParts {
  readonly image: string;
  readonly securityContext: SecurityContext;
  /** Whether guests have it that do not say. Source: KubeVirt virtualMachineOptions.disableSerialConsoleLog. */
  readonly logsConsoles: boolean;
}

/** A shell and `tail`; a guest that prints as much as it can gets no more. Disk: what the node keeps of a log. */
const RESOURCES = {
  requests: { cpu: "5m", memory: "8Mi", "ephemeral-storage": "1Mi" },
  limits: { cpu: "100m", memory: "32Mi", "ephemeral-storage": "51Mi" },
};

/** Whether what the guest prints is a container's log. */
function isLogged(spec: VmiSpec, byDefault: boolean): boolean {
  return hasConsole(spec) && (spec.domain.devices?.logSerialConsole ?? byDefault);
}

/** None, or the one. It may read where the console's log is, and write nothing. */
export function consoleLogOf(spec: VmiSpec, parts: LogParts): readonly Container[] {
  const { image, securityContext, logsConsoles } = parts;
  if (!isLogged(spec, logsConsoles)) return [];
  return [
    {
      name: names.CONSOLE_LOG_CONTAINER,
      image,
      imagePullPolicy: "IfNotPresent",
      command: ["/usr/bin/virt-tail"],
      resources: RESOURCES,
      securityContext,
      volumeMounts: [
        { name: names.LAUNCHER_VOLUME, mountPath: names.LAUNCHER_DIR, readOnly: true },
      ],
    },
  ];
}

/** Added to the delay: libvirt starts, and then the guest, seconds. Source: KubeVirt LibvirtStartupDelay. */
const STARTUP_SECONDS = 10;
/** Added to the time for an answer where the guest's agent gives it, seconds. */
const AGENT_SECONDS = 1;
/** Source: Kubernetes, default timeoutSeconds of a probe. */
const TIMEOUT_SECONDS = 1;

/** What the kubelet does with it as with any other container's. */
const HANDED_ON = [
  "httpGet",
  "tcpSocket",
  "periodSeconds",
  "timeoutSeconds",
  "successThreshold",
  "failureThreshold",
] as const;

/** What the agent is sent: the command, whose output it keeps. Source: QEMU qga/qapi-schema.json guest-exec. */
function execRequest([path = "", ...args]: readonly string[]): string {
  const fields = { path, arg: args, "capture-output": true };
  return JSON.stringify({ execute: "guest-exec", arguments: fields });
}

/** The words of `virt-probe` in the launcher; undefined: the kubelet asks the guest itself. */
function commandOf(vmi: VirtualMachineInstance, probe: GuestProbe): readonly string[] | undefined {
  const { exec, guestAgentPing, timeoutSeconds = TIMEOUT_SECONDS } = probe;
  const words = [
    "virt-probe",
    domainNameOf(vmi),
    String(Math.max(timeoutSeconds, TIMEOUT_SECONDS)),
  ];
  if (guestAgentPing !== undefined) return words;
  return exec === undefined ? undefined : [...words, execRequest(exec.command ?? [])];
}

function containerProbeOf(vmi: VirtualMachineInstance, probe: GuestProbe): Probe {
  const { initialDelaySeconds = 0, timeoutSeconds = TIMEOUT_SECONDS } = probe;
  const command = commandOf(vmi, probe);
  const asked = HANDED_ON.filter((field) => probe[field] !== undefined);
  return {
    ...Object.fromEntries(asked.map((field) => [field, probe[field]])),
    initialDelaySeconds: initialDelaySeconds + STARTUP_SECONDS,
    ...(command !== undefined && {
      exec: { command },
      timeoutSeconds: Math.max(timeoutSeconds, TIMEOUT_SECONDS) + AGENT_SECONDS,
    }),
  };
}

/** The probes of the container that runs the guest. */
export function containerProbesOf(
  vmi: VirtualMachineInstance,
): Pick<Container, "livenessProbe" | "readinessProbe"> {
  const { livenessProbe, readinessProbe } = vmi.spec;
  return {
    ...(livenessProbe !== undefined && { livenessProbe: containerProbeOf(vmi, livenessProbe) }),
    ...(readinessProbe !== undefined && { readinessProbe: containerProbeOf(vmi, readinessProbe) }),
  };
}
