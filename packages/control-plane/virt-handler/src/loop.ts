// SPDX-License-Identifier: Apache-2.0
// The reconcile loop over the VMIs of one node, independent of the adapters.
import type { VirtualMachineInstance } from "@patchbay/api";
import type { MetricFamily } from "@patchbay/core/metrics";
import {
  createMutationCache,
  createQueue,
  keyOf,
  parseKey,
  printKey,
  runReconciler,
  type LoopWatch,
  type LostWriteReporter,
  type ReconcileMetrics,
} from "@patchbay/kube";
import type {
  AddressServers,
  Change,
  HookSidecars,
  Launchers,
  LinkCounters,
  LinkWatch,
  PacketCaptures,
} from "@patchbay/core/interfaces";
import type { Deps, NodeParts } from "./deps.ts";
import { createExamineGuest, type ExamineGuest, type NodeDoctor } from "./server/guest-doctor.ts";
import { createRequestGuest, type RequestGuest } from "./server/guest-requests.ts";
import { createOpenCapture, type OpenCapture } from "./server/guest-captures.ts";
import {
  createOpenGuestStream,
  type ConnectToPod,
  type OpenGuestStream,
} from "./server/guest-streams.ts";
import { createGuestServers } from "./addresses/guest-servers.ts";
import { releaseVmi, reconcileNodeVm } from "./reconcilers/vmi/index.ts";
import { createGuestHooks } from "./hooks/guest-hooks.ts";
import { createMemory } from "./memory.ts";
import { createMigrationRuns } from "./migration/migration-runs.ts";
import { createMigrationMetrics } from "./migration/outgoing.ts";
import { serializeInputs } from "./rate-limits.ts";
import { withBackoff } from "./sessions/backoff.ts";
import { createSessions } from "./sessions/sessions.ts";
import { measurePlugs, type PlugMetrics } from "./metrics/plugs.ts";
import { createTrafficSource } from "./metrics/traffic.ts";

interface LoopMetrics extends ReconcileMetrics, PlugMetrics {
  addSource(read: () => Promise<readonly MetricFamily[]>): void;
}

export interface GuestAccess {
  readonly request: RequestGuest;
  readonly createOpenStream: (connect: ConnectToPod) => OpenGuestStream;
  readonly createCapture: (captures: PacketCaptures) => OpenCapture;
  readonly createExamine: (doctor: NodeDoctor) => ExamineGuest;
}

interface LoopParts extends NodeParts {
  readonly launchers: Launchers;
  readonly linkWatch: LinkWatch;
  readonly addressServers: AddressServers;
  readonly hooks: HookSidecars;
  readonly linkCounters: LinkCounters;
  readonly metrics: LoopMetrics;
  readonly watch?: LoopWatch;
  readonly concurrency: number;
  readonly onGuestAccess?: (access: GuestAccess) => void;
}

function buildDeps(parts: LoopParts): Deps {
  const { launchers, hypervisor, linkWatch, vhostSockets, clock, log } = parts;
  return {
    ...parts,
    sessions: withBackoff(
      createSessions({ launchers, hypervisor, linkWatch, vhostSockets, log }),
      clock,
    ),
    guestServers: createGuestServers(parts),
    guestHooks: createGuestHooks(parts),
    ...createMemory(clock),
    ownWrites: createMutationCache(parts.vmis),
    migrationRuns: createMigrationRuns(),
    knownLaunchers: new Map(),
  };
}

function listActivePodUids(vmis: readonly VirtualMachineInstance[]): ReadonlySet<string> {
  return new Set(vmis.flatMap(({ status }) => Object.keys(status?.activePods ?? {})));
}

/** Resolves when the signal is aborted and all sessions are closed. */
export async function runLoop(parts: LoopParts, signal: AbortSignal): Promise<void> {
  const { clock, concurrency, metrics, vmis } = parts;
  const deps = buildDeps(parts);
  const plugs = measurePlugs(vmis, metrics, clock);
  metrics.addSource(() => Promise.resolve(plugs.families()));
  metrics.addSource(createTrafficSource(parts.linkCounters, deps));
  metrics.addSource(createMigrationMetrics(deps));
  const readInputs = (key: string): string => serializeInputs(vmis.find(parseKey(key)));
  await deps.addressStore.retainPods(listActivePodUids(vmis.list()));
  const queue = createQueue({ clock, concurrency, readInputs });
  const wake = (key: string): void => {
    queue.add(key);
  };
  for (const vmi of vmis.list()) wake(printKey(keyOf(vmi)));
  const stop = vmis.onChange((change: Change<VirtualMachineInstance>) => {
    if (change.kind === "deleted") releaseVmi(change.previous, deps);
    else wake(printKey(keyOf(change.current)));
  });
  const reconcile = (key: string): ReturnType<typeof reconcileNodeVm> =>
    reconcileNodeVm(key, deps, wake);
  parts.onGuestAccess?.({
    request: createRequestGuest({ ...deps, linkCounters: parts.linkCounters }, wake),
    createOpenStream: (connect) => createOpenGuestStream(deps, connect, wake),
    createCapture: (captures) => createOpenCapture(deps, captures, wake),
    createExamine: (doctor) => createExamineGuest(deps, doctor, wake),
  });
  const lostWrites: LostWriteReporter = {
    events: parts.events,
    find: (_resource, key) => vmis.find(key),
  };
  await runReconciler({ ...parts, name: "vmi", queue, reconcile, lostWrites }, signal);
  stop();
  plugs.stop();
  deps.migrationRuns.forgetAll();
  deps.sessions.closeAll();
  await deps.guestServers.stopAll();
}
