// SPDX-License-Identifier: Apache-2.0
// Brings caches, adapters, queue and loop together.
import { createHash } from "node:crypto";
import {
  KUBEVIRTS,
  names,
  VIRTUAL_MACHINE_INSTANCES,
  type VirtualMachineInstance,
} from "@patchbay/api";
import { createNodeRuntimeSandboxes } from "@patchbay/cni";
import type { DaemonContext } from "@patchbay/daemon";
import {
  createCache,
  createEventRecorder,
  createOwnWrites,
  createQueue,
  keyOf,
  parseKey,
  printKey,
  runReconciler,
  wishOf,
} from "@patchbay/kube";
import { createHypervisor } from "@patchbay/libvirt";
import {
  createChildStarter,
  createFiles,
  createLaunchers,
  createProcessRunner,
} from "@patchbay/os";
import { createPodNetwork } from "@patchbay/podnet";
import type { Change, Clock, Hypervisor } from "@patchbay/ports";
import { createMetrics } from "@patchbay/telemetry";
import { createAsked } from "./asked.ts";
import { readHostNetnsInode, type Flags } from "./config.ts";
import type { Deps } from "./deps.ts";
import { createGuests } from "./guests.ts";
import { reconcileNodeVm } from "./reconcilers/vmi/index.ts";
import { createSessions, type Sessions } from "./sessions.ts";
import { createTries } from "./tries.ts";

function openHypervisor({ log, clock }: DaemonContext): Hypervisor {
  return createHypervisor({
    identity: { uid: names.LAUNCHER_UID, gid: names.LAUNCHER_UID },
    starter: createChildStarter(),
    logger: log,
    clock,
  });
}

function openSessions(context: DaemonContext, flags: Flags, hypervisor: Hypervisor): Sessions {
  const launchers = createLaunchers({
    podsDir: flags.podsDir,
    sandboxes: createNodeRuntimeSandboxes(createFiles(), flags.podsDir),
    uid: names.LAUNCHER_UID,
    hostNetnsInode: readHostNetnsInode(),
  });
  return createSessions({ launchers, hypervisor, log: context.log });
}

/** What the process remembers between passes. */
function createMemory(clock: Clock): Pick<Deps, "asked" | "tries" | "guests" | "ownWrites"> {
  return {
    asked: createAsked(clock),
    tries: createTries(clock),
    guests: createGuests(clock),
    ownWrites: createOwnWrites(),
  };
}

/** Forgets what belonged to a VMI that left this node. */
function forget(vmi: VirtualMachineInstance, deps: Deps): void {
  for (const podUid of Object.keys(vmi.status?.activePods ?? {})) deps.sessions.close(podUid);
  const uid = vmi.metadata.uid ?? "";
  deps.asked.retain(uid, []);
  deps.tries.retain(uid, []);
  deps.guests.forget(uid);
}

/** What others say that is to be done with a VMI, and where. */
function givenTo(vmi: VirtualMachineInstance | undefined): string {
  const { attachments, activePods } = vmi?.status ?? {};
  return JSON.stringify([wishOf(vmi), attachments, activePods]);
}

/** Runs the loop until the signal is aborted. */
export async function runHandler(context: DaemonContext, flags: Flags): Promise<void> {
  const { client, clock, log, signal } = context;
  const labelSelector = `${names.NODE_NAME_LABEL}=${flags.nodeName}`;
  const vmis = createCache(client.reflect(VIRTUAL_MACHINE_INSTANCES, { labelSelector }), {
    logger: log,
  });
  const kubevirts = createCache(client.reflect(KUBEVIRTS), { logger: log });
  const hypervisor = openHypervisor(context);
  const deps: Deps = {
    nodeName: flags.nodeName,
    store: client.store,
    vmis,
    kubevirts,
    sessions: openSessions(context, flags, hypervisor),
    podNetwork: createPodNetwork({ runner: createProcessRunner(), clock }),
    ...createMemory(clock),
    events: createEventRecorder({
      store: client.store,
      clock,
      logger: log,
      component: "virt-handler",
      host: flags.nodeName,
    }),
    clock,
    log,
    sha256Hex: (text) => createHash("sha256").update(text).digest("hex"),
  };
  const circumstancesOf = (key: string): string => givenTo(vmis.find(parseKey(key)));
  const queue = createQueue({ clock, concurrency: flags.concurrency, circumstancesOf });
  const wake = (key: string): void => {
    queue.add(key);
  };
  vmis.onChange((change: Change<VirtualMachineInstance>) => {
    if (change.kind === "deleted") forget(change.previous, deps);
    else wake(printKey(keyOf(change.current)));
  });
  vmis.start(signal);
  kubevirts.start(signal);
  await Promise.all([vmis.synced(), kubevirts.synced()]);
  context.ready();
  const reconcile = (key: string): ReturnType<typeof reconcileNodeVm> =>
    reconcileNodeVm(key, deps, wake);
  await runReconciler(
    { name: "vmi", queue, reconcile, log, clock, metrics: createMetrics() },
    signal,
  );
  deps.sessions.closeAll();
  await hypervisor.close();
  await deps.events.flush();
}
