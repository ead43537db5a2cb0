// SPDX-License-Identifier: Apache-2.0
// The launcher pod on the target node. Source: KubeVirt pkg/virt-controller/watch/migration.
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
import { targetPodView } from "./target-nics.ts";

/** Pattern of an image ID with a registry's digest. Images that were imported on the node have no such ID. */
const IMAGE_WITH_DIGEST = /^(?:[a-z-]+:\/\/)?[^\s@]+@(sha256:[0-9a-f]{64})$/;
/** Pattern of the tag and digest at the end of an image reference. A colon before the last slash precedes a port. */
const IMAGE_VERSION = /(?::[^:/@]+)?(?:@[^@]+)?$/;

function parseDigest(imageId: string): string | undefined {
  return IMAGE_WITH_DIGEST.exec(imageId)?.[1];
}

function parseRepository({ image }: Container): string {
  return image.replace(IMAGE_VERSION, "");
}

/** Whether the image must stay as it is: it has a digest, or the node may not pull it under another name. */
function isPinned({ image, imagePullPolicy }: Container): boolean {
  return imagePullPolicy === "Never" || image.includes("@");
}

function concat<T>(some: readonly T[] = [], others: readonly T[] = []): readonly T[] {
  return [...some, ...others];
}

/** Pins the container to the image digest of the source's container with the same name and repository. */
function pinImage(container: Container, { spec, status }: Pod): Container {
  const { name } = container;
  const repository = parseRepository(container);
  const launcher = concat(spec.containers, spec.initContainers);
  const isSame = launcher.some(
    (each) => each.name === name && parseRepository(each) === repository,
  );
  const reported = concat(status?.containerStatuses, status?.initContainerStatuses);
  const digest = parseDigest(reported.find((each) => each.name === name)?.imageID ?? "");
  if (!isSame || digest === undefined || isPinned(container)) return container;
  return { ...container, image: `${repository}@${digest}` };
}

/**
 * Pins the target pod's images to those of the source pod. Otherwise a changed tag would give the guest other disks or
 * files. The launcher's own image is not pinned, because a migration may update the launcher.
 * Source: KubeVirt pkg/container-disk, ExtractImageIDsFromSourcePod.
 */
export function withSourceImages(pod: Pod, source: Pod): Pod {
  const own = pod.spec.containers.find(({ name }) => name === names.LAUNCHER_CONTAINER)?.image;
  const pinned = (container: Container): Container =>
    container.image === own ? container : pinImage(container, source);
  const { initContainers } = pod.spec;
  return {
    ...pod,
    spec: {
      ...pod.spec,
      containers: pod.spec.containers.map(pinned),
      ...(initContainers === undefined ? {} : { initContainers: initContainers.map(pinned) }),
    },
  };
}

/** Topology key of pod anti-affinity. Source: Kubernetes well-known labels. */
const HOSTNAME = "kubernetes.io/hostname";

interface Affinity {
  readonly podAntiAffinity?: {
    readonly requiredDuringSchedulingIgnoredDuringExecution?: readonly object[];
  };
}

type Labels = Readonly<Record<string, string>>;

/** Returns the VM's affinity, which also excludes nodes with another launcher of the VMI. */
function awayFromLaunchers({ metadata, spec }: VirtualMachineInstance): Affinity {
  const affinity: Affinity = spec.affinity ?? {};
  const required = "requiredDuringSchedulingIgnoredDuringExecution";
  const term = {
    labelSelector: { matchLabels: { [names.CREATED_BY_LABEL]: metadata.uid ?? "" } },
    topologyKey: HOSTNAME,
  };
  const before = affinity.podAntiAffinity?.[required] ?? [];
  return {
    ...affinity,
    podAntiAffinity: { ...affinity.podAntiAffinity, [required]: [...before, term] },
  };
}

/** Returns the target pod's node selector. The VM's own selector takes precedence. */
export function targetNodeSelector(
  { spec }: VirtualMachineInstance,
  migration: VirtualMachineInstanceMigration,
  cpuLabels: Labels,
): Labels {
  return { ...cpuLabels, ...migration.spec.addedNodeSelector, ...spec.nodeSelector };
}

const SOURCE_LABELS: readonly string[] = [names.NODE_NAME_LABEL, names.MIGRATION_TARGET_NODE_LABEL];

function targetLabels(
  pod: Pod,
  { metadata }: VirtualMachineInstanceMigration,
): Readonly<Record<string, string>> {
  const others = Object.entries(pod.metadata.labels ?? {}).filter(
    ([key]) => !SOURCE_LABELS.includes(key),
  );
  return { ...Object.fromEntries(others), [names.MIGRATION_JOB_LABEL]: metadata.uid ?? "" };
}

/** Returns the number of PCIe ports: at least the running guest's, even if new guests get fewer. */
function countTargetPorts({ vmi }: VmiFacts, planned: number): number {
  // Slots of a conventional PCI bus count too, but need no ports.
  const hasPorts = findMachineFamily(buildMachine(vmi.spec.domain)) !== "pc";
  return hasPorts ? Math.max(planned, vmi.status?.pciePorts?.total ?? 0) : planned;
}

/** Builds the request for a pod that mounts images as the source does, so that their files have the same paths. */
function targetRequest(facts: VmiFacts): LauncherRequest {
  const planned = buildLauncherRequest(facts);
  const request = { ...planned, ports: countTargetPorts(facts, planned.ports) };
  const { pod } = facts;
  return pod === undefined ? request : { ...request, supportsImageVolumes: hasImageVolume(pod) };
}

/** Builds the target pod from the VMI's current template, the source's images and the guest's current NICs. */
export function buildTargetPod(
  facts: VmiFacts,
  migration: VirtualMachineInstanceMigration,
  cpuLabels: Labels = {},
): Pod {
  const { vmi, pod: source } = facts;
  const launcher = buildLauncherPod(targetPodView(vmi), targetRequest(facts));
  const pod = source === undefined ? launcher : withSourceImages(launcher, source);
  const { uid, name } = migration.metadata;
  const nodeSelector = targetNodeSelector(vmi, migration, cpuLabels);
  return {
    ...pod,
    metadata: {
      ...pod.metadata,
      name: launcherPodName(vmi, uid ?? ""),
      labels: targetLabels(pod, migration),
      annotations: { ...pod.metadata.annotations, [names.MIGRATION_JOB_NAME_ANNOTATION]: name },
    },
    spec: {
      ...pod.spec,
      ...(Object.keys(nodeSelector).length === 0 ? {} : { nodeSelector }),
      affinity: awayFromLaunchers(vmi),
    },
  };
}
