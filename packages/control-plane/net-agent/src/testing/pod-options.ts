// SPDX-License-Identifier: Apache-2.0
// Builds the pod of the loop's tests from options.
import { names } from "@patchbay/api";
import type { Pod } from "@patchbay/api/kubernetes";

export interface PodOptions {
  /** Annotation `k8s.v1.cni.cncf.io/networks`. */
  readonly networks?: string;
  readonly uid?: string;
  readonly phase?: "Pending" | "Running" | "Succeeded" | "Failed";
  readonly isDeleting?: boolean;
  readonly hostNetwork?: boolean;
  readonly annotations?: Readonly<Record<string, string>>;
  /** Uid of the VMI `vm1` that owns the pod. */
  readonly launcherOf?: string;
  /** Fields that override those of that owner reference. */
  readonly owner?: Readonly<Record<string, unknown>>;
  readonly limits?: Readonly<Record<string, string>>;
  /** Program of its container, which then has a launcher's label and name. */
  readonly launcherProgram?: string;
  /** Whether each of its containers has terminated, one entry per container. */
  readonly ended?: readonly boolean[];
}

export const NAMES = { namespace: "ns1", name: "pod" };
/** Reference to the launcher's VMI. */
export const OWNER = { apiVersion: "kubevirt.io/v1", kind: "VirtualMachineInstance", name: "vm1" };

function containerOf(isOver: boolean, index: number): ContainerStatus {
  const state = isOver ? { terminated: { exitCode: 0 } } : { waiting: { reason: "Busy" } };
  return {
    name: `c${String(index)}`,
    ready: false,
    restartCount: 0,
    image: "",
    imageID: "",
    state,
  };
}

type ContainerStatus = NonNullable<NonNullable<Pod["status"]>["containerStatuses"]>[number];

function labelsOf({ launcherProgram }: PodOptions): Pick<Pod["metadata"], "labels"> {
  if (launcherProgram === undefined) return {};
  return { labels: { [names.KUBEVIRT_LABEL]: names.LAUNCHER_LABEL_VALUE } };
}

function containersOf({ limits, launcherProgram: program }: PodOptions): Pod["spec"]["containers"] {
  if (program !== undefined) {
    return [{ name: names.LAUNCHER_CONTAINER, image: "i", command: [program] }];
  }
  return limits === undefined ? [] : [{ name: "c", image: "i", resources: { limits } }];
}

/** @param before - annotations that the pod already has */
export function toPod(options: PodOptions, before: Pod["metadata"]["annotations"]): Pod {
  const { networks, uid = "uid-1", phase = "Running", isDeleting = false } = options;
  const networksAnnotation =
    networks === undefined ? {} : { [names.NETWORKS_ANNOTATION]: networks };
  const annotations = { ...before, ...options.annotations, ...networksAnnotation };
  return {
    apiVersion: "v1",
    kind: "Pod",
    metadata: {
      ...NAMES,
      uid,
      ...(Object.keys(annotations).length === 0 ? {} : { annotations }),
      ...labelsOf(options),
      ...(isDeleting ? { deletionTimestamp: "2026-01-01T00:00:00Z" } : {}),
      ...(options.launcherOf === undefined
        ? {}
        : {
            ownerReferences: [
              { ...OWNER, uid: options.launcherOf, controller: true, ...options.owner },
            ],
          }),
    },
    spec: {
      nodeName: "node",
      containers: containersOf(options),
      hostNetwork: options.hostNetwork ?? false,
    },
    status: {
      phase,
      ...(options.ended === undefined
        ? {}
        : { containerStatuses: options.ended.map((isOver, index) => containerOf(isOver, index)) }),
    },
  };
}
