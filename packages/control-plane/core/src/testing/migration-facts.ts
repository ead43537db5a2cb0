// SPDX-License-Identifier: Apache-2.0
// Facts about a VMI's migrations.
import {
  buildMigrationConfig,
  networkConfigOf,
  type MigrationState,
  type VirtualMachineInstance,
  type VirtualMachineInstanceMigration,
  type VmiStatus,
} from "@patchbay/api";
import type { Pod } from "@patchbay/api/kubernetes";
import { aPod, aVmi } from "@patchbay/support";
import type { MigrationFacts } from "../migration/control/facts.ts";
import { launcherPodName } from "../migration/owner.ts";
import type { VmiFacts } from "../vm/vmi.ts";

type Migration = VirtualMachineInstanceMigration;

export const NOW = "2026-01-01T00:10:00.000Z";
/** Creation time of the migration and its target pod. */
export const ASKED = "2026-01-01T00:09:00.000Z";

export function aMigration(
  phase?: NonNullable<Migration["status"]>["phase"],
  metadata: Partial<Migration["metadata"]> = {},
): Migration {
  return {
    apiVersion: "kubevirt.io/v1",
    kind: "VirtualMachineInstanceMigration",
    metadata: {
      name: "move",
      namespace: "default",
      uid: "m1",
      creationTimestamp: ASKED,
      labels: { "kubevirt.io/vmi-name": "vm1" },
      finalizers: ["kubevirt.io/migrationJobFinalize"],
      ...metadata,
    },
    spec: { vmiName: "vm1" },
    ...(phase === undefined ? {} : { status: { phase } }),
  };
}

export function aGuest(status: VmiStatus = {}): VirtualMachineInstance {
  return aVmi({
    status: {
      phase: "Running",
      nodeName: "node1",
      activePods: { "pod-uid": "node1" },
      conditions: [{ type: "LiveMigratable", status: "True" }],
      ...status,
    },
  });
}

export function aSource(): Pod {
  const pod = aPod();
  return { ...pod, metadata: { ...pod.metadata, name: launcherPodName(aVmi()) } };
}

/** The target pod, on node2. */
export function aTarget(change: Partial<Pod["status"]> = {}, nodeName?: string): Pod {
  const pod = aPod();
  const name = launcherPodName(aVmi(), "m1");
  return {
    ...pod,
    metadata: { ...pod.metadata, name, uid: "target-uid", creationTimestamp: ASKED },
    spec: { ...pod.spec, nodeName: nodeName ?? "node2" },
    status: { ...pod.status, ...change },
  };
}

export function aGuestFacts(
  vmi: VirtualMachineInstance = aGuest(),
  pod: Pod | undefined = aSource(),
): VmiFacts {
  const settings = { image: "launcher", useEmulation: true, logsConsoles: false };
  const overcommit = { memoryPercent: 100, cpuRatio: 10 };
  return {
    vmi,
    pod,
    network: networkConfigOf(undefined),
    settings: { ...settings, sidecarShimImage: "shim", supportsImageVolumes: false, overcommit },
    storage: { claims: new Map(), config: { hostDisks: undefined, stateClass: undefined } },
    definitions: new Map(),
    absences: new Map(),
  };
}

export function someFacts(change: Partial<MigrationFacts> = {}): MigrationFacts {
  return {
    key: "default/vm1",
    guest: aGuestFacts(),
    migration: aMigration(),
    waiting: [],
    finished: [],
    targetPod: undefined,
    targetLoss: undefined,
    targetAbsences: new Map(),
    leftoverPods: [],
    mayBegin: true,
    noTargetReason: undefined,
    cpuLabels: {},
    settings: { configuration: buildMigrationConfig(undefined), policyName: undefined },
    now: NOW,
    ...change,
  };
}

export function openFacts(
  state: MigrationState = {},
  change: Partial<MigrationFacts> = {},
): MigrationFacts {
  const migrationState = {
    migrationUid: "m1",
    sourceNode: "node1",
    sourcePod: launcherPodName(aVmi()),
    targetNode: "node2",
    targetPod: launcherPodName(aVmi(), "m1"),
    targetAttachments: [],
    ...state,
  };
  const activePods = { "pod-uid": "node1", "target-uid": "node2" };
  return someFacts({
    guest: aGuestFacts(aGuest({ migrationState, activePods })),
    migration: aMigration("PreparingTarget"),
    targetPod: aTarget(),
    ...change,
  });
}
