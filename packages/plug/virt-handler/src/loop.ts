// SPDX-License-Identifier: Apache-2.0
// The loop over the VMIs of one node, on whatever adapters it is given.
import type { VirtualMachineInstance } from "@patchbay/api";
import type { MetricFamily } from "@patchbay/core";
import {
  createOwnWrites,
  createQueue,
  keyOf,
  parseKey,
  printKey,
  runReconciler,
  type LoopWatch,
  type LostWriteTeller,
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
} from "@patchbay/core/ports";
import type { Deps, NodeParts } from "./deps.ts";
import { createExamineGuest, type ExamineGuest, type NodeDoctor } from "./server/guest-doctor.ts";
import { createAskGuest, type AskGuest } from "./server/guest-requests.ts";
import { createOpenCapture, type OpenCapture } from "./server/guest-captures.ts";
import {
  createOpenGuestStream,
  type ConnectToPod,
  type OpenGuestStream,
} from "./server/guest-streams.ts";
import { createGuestServers } from "./addresses/guest-servers.ts";
import { forgetNodeVm } from "./forget.ts";
import { createGuestHooks } from "./hooks/guest-hooks.ts";
import { createMemory } from "./memory.ts";
import { createMoves } from "./migration/moves.ts";
import { createMoveSource } from "./migration/outgoing.ts";
import { givenTo } from "./pace.ts";
import { withBackoff } from "./sessions/backoff.ts";
import { reconcileNodeVm } from "./reconcilers/vmi/index.ts";
import { createSessions } from "./sessions/sessions.ts";
import { measurePlugs, type PlugMetrics } from "./metrics/plugs.ts";
import { createTrafficSource } from "./metrics/traffic.ts";

/** What is counted, and what is read when it is asked for. */
interface LoopMetrics extends ReconcileMetrics, PlugMetrics {
  addSource(read: () => Promise<readonly MetricFamily[]>): void;
}

/** What others than the loop do with guests. */
export interface GuestWays {
  readonly ask: AskGuest;
  /** What opens their streams, by a way to the sockets of their pods. */
  readonly openBy: (connect: ConnectToPod) => OpenGuestStream;
  /** What shows their packets. */
  readonly captureBy: (captures: PacketCaptures) => OpenCapture;
  /** What tells where their frames die. */
  readonly examineBy: (doctor: NodeDoctor) => ExamineGuest;
}

/** A node, the ways to its launchers, and how many of its VMs are worked on at once. */
interface LoopParts extends NodeParts {
  readonly launchers: Launchers;
  readonly linkWatch: LinkWatch;
  readonly addressServers: AddressServers;
  readonly hooks: HookSidecars;
  /** Of the links in pods. */
  readonly linkCounters: LinkCounters;
  readonly metrics: LoopMetrics;
  readonly watch?: LoopWatch;
  readonly concurrency: number;
  /** Is given the ways to guests, as soon as the loop runs. */
  readonly offerGuests?: (ways: GuestWays) => void;
}

function depsOf(parts: LoopParts): Deps {
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
    ownWrites: createOwnWrites(parts.vmis),
    moves: createMoves(),
    knownLaunchers: new Map(),
  };
}

/** Uids of the pods of this node that somebody may still work with. */
function podsOf(vmis: readonly VirtualMachineInstance[]): ReadonlySet<string> {
  return new Set(vmis.flatMap(({ status }) => Object.keys(status?.activePods ?? {})));
}

/**
 * Works on each VMI of the node when it, its launcher or its guest has changed; resolves once the signal is aborted and
 * all sessions are closed.
 */
export async function runLoop(parts: LoopParts, signal: AbortSignal): Promise<void> {
  const { clock, concurrency, metrics, vmis } = parts;
  const deps = depsOf(parts);
  const plugs = measurePlugs(vmis, metrics, clock);
  metrics.addSource(() => Promise.resolve(plugs.families()));
  metrics.addSource(createTrafficSource(parts.linkCounters, deps));
  metrics.addSource(createMoveSource(deps));
  const circumstancesOf = (key: string): string => givenTo(vmis.find(parseKey(key)));
  await deps.addressStore.retainPods(podsOf(vmis.list()));
  const queue = createQueue({ clock, concurrency, circumstancesOf });
  const wake = (key: string): void => {
    queue.add(key);
  };
  for (const vmi of vmis.list()) wake(printKey(keyOf(vmi)));
  const stop = vmis.onChange((change: Change<VirtualMachineInstance>) => {
    if (change.kind === "deleted") forgetNodeVm(change.previous, deps);
    else wake(printKey(keyOf(change.current)));
  });
  const reconcile = (key: string): ReturnType<typeof reconcileNodeVm> =>
    reconcileNodeVm(key, deps, wake);
  parts.offerGuests?.({
    ask: createAskGuest({ ...deps, linkCounters: parts.linkCounters }, wake),
    openBy: (connect) => createOpenGuestStream(deps, connect, wake),
    captureBy: (captures) => createOpenCapture(deps, captures, wake),
    examineBy: (doctor) => createExamineGuest(deps, doctor, wake),
  });
  const lostWrites: LostWriteTeller = {
    events: parts.events,
    find: (_resource, key) => vmis.find(key),
  };
  await runReconciler({ ...parts, name: "vmi", queue, reconcile, lostWrites }, signal);
  stop();
  plugs.stop();
  deps.moves.forgetAll();
  deps.sessions.closeAll();
  await deps.guestServers.stopAll();
}
