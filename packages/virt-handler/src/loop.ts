// SPDX-License-Identifier: Apache-2.0
// The loop over the VMIs of one node, on whatever adapters it is given.
import { createHash } from "node:crypto";
import type { KubeVirt, VirtualMachineInstance } from "@patchbay/api";
import {
  createOwnWrites,
  createQueue,
  keyOf,
  parseKey,
  printKey,
  runReconciler,
  type EventRecorder,
  type ReconcileMetrics,
} from "@patchbay/kube";
import type {
  Cache,
  Change,
  Clock,
  Hypervisor,
  Launchers,
  Logger,
  PodNetwork,
  Store,
} from "@patchbay/ports";
import { createUnplugRequests } from "./unplug-requests.ts";
import type { Deps } from "./deps.ts";
import { createGuestNames } from "./guest-names.ts";
import { createPace, givenTo } from "./pace.ts";
import { withPenalties } from "./penalties.ts";
import { launcherOf, reconcileNodeVm } from "./reconcilers/vmi/index.ts";
import { createSessions } from "./sessions.ts";

/** What the loop works with. */
export interface LoopParts {
  readonly nodeName: string;
  readonly store: Store;
  /** The VMIs of this node; what is in it already is worked on too. */
  readonly vmis: Cache<VirtualMachineInstance>;
  readonly kubevirts: Cache<KubeVirt>;
  readonly launchers: Launchers;
  readonly hypervisor: Hypervisor;
  readonly podNetwork: PodNetwork;
  readonly events: EventRecorder;
  readonly clock: Clock;
  readonly log: Logger;
  readonly metrics?: ReconcileMetrics;
  /** VMs worked on at once. */
  readonly concurrency: number;
}

function depsOf(parts: LoopParts): Deps {
  const { launchers, hypervisor, clock, log } = parts;
  return {
    ...parts,
    sessions: withPenalties(createSessions({ launchers, hypervisor, log }), clock),
    unplugRequests: createUnplugRequests(clock),
    guestNames: createGuestNames(clock),
    ownWrites: createOwnWrites(),
    ...createPace(clock),
    sha256Hex: (text) => createHash("sha256").update(text).digest("hex"),
  };
}

/** Forgets what belonged to a VMI that left this node. */
function forget(vmi: VirtualMachineInstance, deps: Deps): void {
  const pod = launcherOf(vmi, deps);
  if (pod !== undefined) deps.sessions.close(pod);
  const uid = vmi.metadata.uid ?? "";
  deps.unplugRequests.retain(uid, []);
  deps.steps.forget(uid);
  deps.passes.forget(uid);
  deps.failures.delete(uid);
  deps.guestNames.forget(uid);
}

/** Runs until the signal is aborted. */
export async function runLoop(parts: LoopParts, signal: AbortSignal): Promise<void> {
  const { clock, log, concurrency, metrics, vmis } = parts;
  const deps = depsOf(parts);
  const circumstancesOf = (key: string): string => givenTo(vmis.find(parseKey(key)));
  const queue = createQueue({ clock, concurrency, circumstancesOf });
  const wake = (key: string): void => {
    queue.add(key);
  };
  for (const vmi of vmis.list()) wake(printKey(keyOf(vmi)));
  const stop = vmis.onChange((change: Change<VirtualMachineInstance>) => {
    if (change.kind === "deleted") forget(change.previous, deps);
    else wake(printKey(keyOf(change.current)));
  });
  const reconcile = (key: string): ReturnType<typeof reconcileNodeVm> =>
    reconcileNodeVm(key, deps, wake);
  const measured = metrics === undefined ? {} : { metrics };
  await runReconciler({ name: "vmi", queue, reconcile, log, clock, ...measured }, signal);
  stop();
  deps.sessions.closeAll();
}
