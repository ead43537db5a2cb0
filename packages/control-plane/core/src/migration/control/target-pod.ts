// SPDX-License-Identifier: Apache-2.0
// Builds the launcher pod for the target node. Source: KubeVirt pkg/virt-controller/watch/migration.
import {
  names,
  type VirtualMachineInstance,
  type VirtualMachineInstanceMigration,
} from "@patchbay/api";
import type { Pod, Container } from "@patchbay/api/kubernetes";
import { findMachineFamily } from "@patchbay/domain";
import { buildMachine } from "../../vm/spec/machine.ts";
import { buildLauncherPod, type LauncherRequest } from "../../vm/pod/launcher-pod.ts";
import { hasImageVolume } from "../../vm/pod/image-files.ts";
import { buildLauncherRequest, type VmiFacts } from "../../vm/vmi.ts";
import { launcherPodName } from "../owner.ts";
import { buildTargetPodView, findSourceClaims } from "./target-nics.ts";

/** Pattern of an image ID with a registry digest. An image that was imported on the node has no such ID. */
const IMAGE_WITH_DIGEST = /^(?:[a-z-]+:\/\/)?[^\s@]+@(sha256:[0-9a-f]{64})$/;
/** Pattern of the tag and digest at the end of an image reference. A registry's port does not match, because a slash follows it. */
const IMAGE_VERSION = /(?::[^:/@]+)?(?:@[^@]+)?$/;

function parseDigest(imageId: string): string | undefined {
  return IMAGE_WITH_DIGEST.exec(imageId)?.[1];
}

function parseRepository({ image }: Container): string {
  return image.replace(IMAGE_VERSION, "");
}

/** Returns true if the image reference must not change, because it contains a digest or the node must not pull the image. */
function isPinned({ image, imagePullPolicy }: Container): boolean {
  return imagePullPolicy === "Never" || image.includes("@");
}

function concatLists<T>(left: readonly T[] = [], right: readonly T[] = []): readonly T[] {
  return [...left, ...right];
}

function pinImage(container: Container, { spec, status }: Pod): Container {
  const { name } = container;
  const repository = parseRepository(container);
  const launcher = concatLists(spec.containers, spec.initContainers);
  const isSame = launcher.some(
    (candidate) => candidate.name === name && parseRepository(candidate) === repository,
  );
  const containerStatuses = concatLists(status?.containerStatuses, status?.initContainerStatuses);
  const digest = parseDigest(
    containerStatuses.find((candidate) => candidate.name === name)?.imageID ?? "",
  );
  if (!isSame || digest === undefined || isPinned(container)) return container;
  return { ...container, image: `${repository}@${digest}` };
}

/**
 * Pins the target pod's images to the digests in the source pod, because a changed tag would give the guest other disks
 * or files. The launcher's image is not pinned, because a migration may update the launcher. Source: KubeVirt
 * pkg/container-disk, ExtractImageIDsFromSourcePod.
 */
export function withSourceImages(pod: Pod, source: Pod): Pod {
  const launcherImage = pod.spec.containers.find(
    ({ name }) => name === names.LAUNCHER_CONTAINER,
  )?.image;
  const pinUnlessLauncher = (container: Container): Container =>
    container.image === launcherImage ? container : pinImage(container, source);
  const { initContainers } = pod.spec;
  return {
    ...pod,
    spec: {
      ...pod.spec,
      containers: pod.spec.containers.map(pinUnlessLauncher),
      ...(initContainers === undefined
        ? {}
        : { initContainers: initContainers.map(pinUnlessLauncher) }),
    },
  };
}

/** Topology key of pod anti-affinity. Source: Kubernetes well-known labels. */
const HOSTNAME_TOPOLOGY_KEY = "kubernetes.io/hostname";

interface Affinity {
  readonly podAntiAffinity?: {
    readonly requiredDuringSchedulingIgnoredDuringExecution?: readonly object[];
  };
}

type Labels = Readonly<Record<string, string>>;

/** Returns the VM's affinity with an added term that keeps the pod off nodes that already run a launcher of the VMI. */
function buildAntiAffinity({ metadata, spec }: VirtualMachineInstance): Affinity {
  const affinity: Affinity = spec.affinity ?? {};
  const requiredTermsField = "requiredDuringSchedulingIgnoredDuringExecution";
  const antiAffinityTerm = {
    labelSelector: { matchLabels: { [names.CREATED_BY_LABEL]: metadata.uid ?? "" } },
    topologyKey: HOSTNAME_TOPOLOGY_KEY,
  };
  const existingTerms = affinity.podAntiAffinity?.[requiredTermsField] ?? [];
  return {
    ...affinity,
    podAntiAffinity: {
      ...affinity.podAntiAffinity,
      [requiredTermsField]: [...existingTerms, antiAffinityTerm],
    },
  };
}

/** Merges CPU labels and the node selectors of migration and VM. The VM's values take precedence, then the migration's. */
export function buildTargetNodeSelector(
  { spec }: VirtualMachineInstance,
  migration: VirtualMachineInstanceMigration,
  cpuLabels: Labels,
): Labels {
  return { ...cpuLabels, ...migration.spec.addedNodeSelector, ...spec.nodeSelector };
}

const SOURCE_LABELS: readonly string[] = [names.NODE_NAME_LABEL, names.MIGRATION_TARGET_NODE_LABEL];

function buildTargetLabels(
  pod: Pod,
  { metadata }: VirtualMachineInstanceMigration,
): Readonly<Record<string, string>> {
  const otherLabels = Object.entries(pod.metadata.labels ?? {}).filter(
    ([key]) => !SOURCE_LABELS.includes(key),
  );
  return { ...Object.fromEntries(otherLabels), [names.MIGRATION_JOB_LABEL]: metadata.uid ?? "" };
}

/** Returns the target pod's number of PCIe ports: the planned number, or the running guest's number if that is larger. */
function countTargetPorts({ vmi }: VmiFacts, plannedPorts: number): number {
  // On machine type pc, the status counts slots of the conventional PCI bus, which need no ports.
  const hasPorts = findMachineFamily(buildMachine(vmi.spec.domain)) !== "pc";
  return hasPorts ? Math.max(plannedPorts, vmi.status?.pciePorts?.total ?? 0) : plannedPorts;
}

/** Builds the request for a target pod. The pod mounts images like the source pod, so that disk paths are the same on both nodes. */
function buildTargetRequest(facts: VmiFacts): LauncherRequest {
  const defaultRequest = buildLauncherRequest(facts);
  const request = { ...defaultRequest, ports: countTargetPorts(facts, defaultRequest.ports) };
  const { pod } = facts;
  if (pod === undefined) return request;
  const ipamClaims = findSourceClaims(facts);
  return { ...request, ipamClaims, supportsImageVolumes: hasImageVolume(pod) };
}

export function buildTargetPod(
  facts: VmiFacts,
  migration: VirtualMachineInstanceMigration,
  cpuLabels: Labels = {},
): Pod {
  const { vmi, pod: source, definitions } = facts;
  const view = buildTargetPodView(vmi, definitions);
  const launcher = buildLauncherPod(view, buildTargetRequest(facts));
  const pod = source === undefined ? launcher : withSourceImages(launcher, source);
  const { uid, name } = migration.metadata;
  const nodeSelector = buildTargetNodeSelector(vmi, migration, cpuLabels);
  return {
    ...pod,
    metadata: {
      ...pod.metadata,
      name: launcherPodName(vmi, uid ?? ""),
      labels: buildTargetLabels(pod, migration),
      annotations: { ...pod.metadata.annotations, [names.MIGRATION_JOB_NAME_ANNOTATION]: name },
    },
    spec: {
      ...pod.spec,
      ...(Object.keys(nodeSelector).length === 0 ? {} : { nodeSelector }),
      affinity: buildAntiAffinity(vmi),
    },
  };
}
