// SPDX-License-Identifier: Apache-2.0
// The launcher pod that a guest goes to: its VMI's, on another node. Source: KubeVirt pkg/virt-controller/watch/migration.
import {
  names,
  type Pod,
  type VirtualMachineInstance,
  type VirtualMachineInstanceMigration,
} from "@patchbay/api";
import { machineFamilyOf } from "@patchbay/domain";
import { machineOf } from "../../spec/machine.ts";
import { launcherPodOf, type LauncherRequest } from "../../plan/pod/launcher-pod.ts";
import { hasImageVolume } from "../../plan/pod/image-files.ts";
import { launcherRequestOf, type VmiFacts } from "../../plan/vm/vmi.ts";
import { launcherPodName } from "../owner.ts";
import { withImagesOf } from "../source-images.ts";
import { travelView } from "./travellers.ts";

/** On a node: its name, by which pods are kept apart. Source: Kubernetes well-known labels. */
const HOSTNAME = "kubernetes.io/hostname";

/** As virt-controller writes it, and as a VMI may say it itself. */
interface Affinity {
  readonly podAntiAffinity?: {
    readonly requiredDuringSchedulingIgnoredDuringExecution?: readonly object[];
  };
}

type Labels = Readonly<Record<string, string>>;

/** Not on a node with another launcher of the VMI. */
function apartFrom({ metadata, spec }: VirtualMachineInstance): Affinity {
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

/** Labels that the target's node has, with those for the guest's processors: the VM's word counts. */
export function targetSelectorOf(
  { spec }: VirtualMachineInstance,
  migration: VirtualMachineInstanceMigration,
  ofCpu: Labels,
): Labels {
  return { ...ofCpu, ...migration.spec.addedNodeSelector, ...spec.nodeSelector };
}

/** The VMI says where it is, which its target is not. */
const OF_SOURCE: readonly string[] = [names.NODE_NAME_LABEL, names.MIGRATION_TARGET_NODE_LABEL];

function labelsOf(
  pod: Pod,
  { metadata }: VirtualMachineInstanceMigration,
): Readonly<Record<string, string>> {
  const others = Object.entries(pod.metadata.labels ?? {}).filter(
    ([key]) => !OF_SOURCE.includes(key),
  );
  return { ...Object.fromEntries(others), [names.MIGRATION_JOB_LABEL]: metadata.uid ?? "" };
}

/** Ports come with the guest, as many as it was started with, whatever guests are given that start now. */
function portsOf({ vmi }: VmiFacts, planned: number): number {
  // Slots of a conventional bus are counted as well, and take nothing.
  const hasPorts = machineFamilyOf(machineOf(vmi.spec.domain)) !== "pc";
  return hasPorts ? Math.max(planned, vmi.status?.pciePorts?.total ?? 0) : planned;
}

/** Files of images come as they came to the source: a guest finds its own at the same places. */
function requestOf(facts: VmiFacts): LauncherRequest {
  const planned = launcherRequestOf(facts);
  const request = { ...planned, ports: portsOf(facts, planned.ports) };
  const { pod } = facts;
  return pod === undefined ? request : { ...request, keepsImageVolumes: hasImageVolume(pod) };
}

/** Made from the same template as the owner's, with the same images, for what the guest has now. */
export function targetPodOf(
  facts: VmiFacts,
  migration: VirtualMachineInstanceMigration,
  ofCpu: Labels = {},
): Pod {
  const { vmi, pod: source } = facts;
  const made = launcherPodOf(travelView(vmi), requestOf(facts));
  const pod = source === undefined ? made : withImagesOf(made, source);
  const { uid, name } = migration.metadata;
  const nodeSelector = targetSelectorOf(vmi, migration, ofCpu);
  return {
    ...pod,
    metadata: {
      ...pod.metadata,
      name: launcherPodName(vmi, uid ?? ""),
      labels: labelsOf(pod, migration),
      annotations: { ...pod.metadata.annotations, [names.MIGRATION_JOB_NAME_ANNOTATION]: name },
    },
    spec: {
      ...pod.spec,
      ...(Object.keys(nodeSelector).length === 0 ? {} : { nodeSelector }),
      affinity: apartFrom(vmi),
    },
  };
}
