// SPDX-License-Identifier: Apache-2.0
// The node loop: facts on this node become devices in the VM.
import { isVmiFinal, type VirtualMachineInstance } from "@patchbay/api";
import {
  driftIn,
  hasRun,
  launcherOn,
  letsGo,
  nameOfAlias,
  planNodeVm,
  stagesOf,
  type Drift,
  type NodeAction,
  type NodeVmFacts,
} from "@patchbay/core";
import { after, done, parseKey, type Next } from "@patchbay/kube";
import type { HypervisorEvent, LauncherPod } from "@patchbay/core/ports";
import type { Deps } from "../../deps.ts";
import { keepLauncher } from "../../forget.ts";
import { noteTaps } from "../../metrics/plugs.ts";
import { moveGuest, tellLeft } from "../../migration/index.ts";
import { actNodeVm, callsLibvirt, type NodePlanResult } from "./act.ts";
import { announceDrift } from "./announce.ts";
import type { Listener } from "../../sessions/sessions.ts";
import { askGuest } from "./ask-guest.ts";
import { observeNodeVm, type Known } from "./observe.ts";
import { giveWay, heldBack, noteSuccess } from "./give-way.ts";
import { nameOfStep, stepsOf } from "./steps/on-iface.ts";
import { reportNodeVm } from "./report.ts";
import { serveStepOf } from "./steps/serve-addresses.ts";
import { START_STEP } from "./steps/start-guest.ts";
import { sweepStepsOf } from "./steps/sweep-links.ts";
import type { Place } from "./steps/step-context.ts";

/** Its pod is being made: what of the launcher's path is there may still be mounted over, of which inotify tells nothing. */
const BEFORE_LAUNCHER: readonly (string | undefined)[] = ["Pending", "Scheduling"];
/** Remember addresses, wire, attach, and look once more; each pass does what the one before made possible. */
const PASSES_MAX = 5;

/**
 * The launcher of a VMI on this node: the uid as its status says, in the VMI's namespace and of the name that
 * virt-controller gives it. None where the guest has left the node.
 */
export function launcherOf(
  vmi: VirtualMachineInstance,
  { nodeName }: Pick<Deps, "nodeName">,
): (LauncherPod & Pick<Place, "role">) | undefined {
  const launcher = launcherOn(vmi, nodeName);
  if (launcher === undefined) return undefined;
  return { ...launcher, namespace: vmi.metadata.namespace ?? "" };
}

/** The drifts that this pass repaired. A guest that ends takes its taps along, and then repairs fail. */
function repairedDrifts(
  plan: readonly NodeAction[],
  facts: NodeVmFacts,
  result: NodePlanResult,
): readonly Drift[] {
  const repairs = plan.filter((action) => "iface" in action && result.done.has(nameOfStep(action)));
  return driftIn(repairs, facts);
}

/** None where the guest has ended meanwhile. */
function shownDrifts(
  drifts: readonly Drift[],
  { domain }: NodeVmFacts,
  { lost }: NodePlanResult,
): readonly Drift[] {
  return lost === undefined && domain?.running === true ? drifts : [];
}

async function converge(
  vmi: VirtualMachineInstance,
  place: Place,
  deps: Deps,
): Promise<{ facts: NodeVmFacts; result: NodePlanResult }> {
  let known: Known = {};
  const drifts: Drift[] = [];
  for (let pass = 1; ; pass += 1) {
    const facts = await observeNodeVm(vmi, { ...place, ...known }, deps);
    const plan = planNodeVm(facts);
    // What goes on is its owner's to tell: who gets the guest goes on with what was told.
    if (place.role === "owner") {
      deps.stories.see(vmi, stagesOf(facts.ifaces, vmi.metadata.namespace ?? ""));
    }
    const result = await actNodeVm(plan, { ...place, facts, deps });
    drifts.push(...repairedDrifts(plan, facts, result));
    if (!result.changed || result.lost !== undefined || pass === PASSES_MAX) {
      for (const drift of shownDrifts(drifts, facts, result)) announceDrift(vmi, drift, deps);
      return { facts, result };
    }
    known = plan.some(callsLibvirt) ? {} : { domain: facts.domain };
  }
}

/** What went on is not remembered: the next unplug, and the next step of an iface, begin anew. */
function forgetDone(
  { vmi, ifaces, domain, orphans }: NodeVmFacts,
  result: NodePlanResult,
  deps: Deps,
): void {
  const asked = ifaces.filter(letsGo).map(({ name }) => name);
  deps.unplugRequests.retain(vmi.metadata.uid ?? "", asked);
  const hindered = Object.keys(result.hindrances).flatMap(stepsOf);
  deps.steps.retain(vmi.metadata.uid ?? "", [
    ...hindered,
    ...sweepStepsOf(orphans),
    ...(domain?.running === true ? [] : [START_STEP]),
    ...ifaces.map(({ name }) => serveStepOf(name)),
  ]);
}

/** What a guest's life means for its hooks. */
function noteHooks({ vmi, domain }: NodeVmFacts, { pod, session }: Place, deps: Deps): void {
  if (domain?.running === true) deps.guestHooks.started(pod);
  else if (domain !== undefined && hasRun(vmi)) {
    deps.guestHooks.ended({ pod, sidecars: session.launcher.sidecars ?? [] });
  }
}

/** Converges, reports, and asks the guest, with a launcher that answers. */
async function workOn(
  vmi: VirtualMachineInstance,
  place: Place,
  deps: Deps,
): Promise<{ readonly facts: NodeVmFacts; readonly next: Next }> {
  const { facts, result } = await converge(vmi, place, deps);
  forgetDone(facts, result, deps);
  noteTaps(facts, deps.taps);
  noteHooks(facts, place, deps);
  const heldMs = await reportNodeVm(facts, result, deps);
  if (result.lost !== undefined) throw result.lost;
  // Unless an agent listens nothing is looked at at rest: the kernel tells of links, libvirt of the guest, the API server
  // of what is wanted.
  const dueInMs = [
    result.changed ? 0 : [],
    result.againInMs ?? [],
    (heldMs > 0 ? heldMs : await askOwn(facts, place, deps)) ?? [],
  ].flat();
  return { facts, next: dueInMs.length === 0 ? done() : after(Math.min(...dueInMs)) };
}

/** A guest that is about to come is its owner's to ask. */
async function askOwn(facts: NodeVmFacts, place: Place, deps: Deps): Promise<number | undefined> {
  return place.role === "owner" ? askGuest(facts, place.session, deps) : undefined;
}

/** libvirt tells once that a guest keeps a device; nothing shows it afterwards. */
function noteRefusal(
  { metadata }: VirtualMachineInstance,
  event: HypervisorEvent,
  { unplugRequests }: Deps,
): void {
  if (event.kind !== "deviceRemovalFailed") return;
  const iface = nameOfAlias(event.alias);
  if (iface !== undefined) unplugRequests.noteRefusal(metadata.uid ?? "", iface);
}

/** Whoever works with the VMI's launcher: the first one is told of what happens there. */
export function listenerOf(vmi: VirtualMachineInstance, deps: Deps, wake: () => void): Listener {
  return {
    wake,
    hear: (event) => {
      noteRefusal(vmi, event, deps);
    },
  };
}

/** A guest that is on its way is worked on otherwise. */
async function passOver(vmi: VirtualMachineInstance, place: Place, deps: Deps): Promise<Next> {
  const converge = (): ReturnType<typeof workOn> => workOn(vmi, place, deps);
  if (deps.moves.of(vmi) === undefined) return (await converge()).next;
  return moveGuest(vmi, place, { deps, converge });
}

/** One pass over one VMI of this node. Safe to repeat. */
export async function reconcileNodeVm(
  key: string,
  deps: Deps,
  wake: (key: string) => void,
): Promise<Next> {
  const vmi = deps.vmis.find(parseKey(key));
  if (vmi === undefined || deps.ownWrites.isBehind(vmi)) return done();
  const launcher = launcherOf(vmi, deps);
  keepLauncher(vmi, launcher, deps);
  if (launcher === undefined) return done();
  const { role, ...pod } = launcher;
  if (BEFORE_LAUNCHER.includes(vmi.status?.phase)) return done();
  if (isVmiFinal(vmi)) {
    deps.sessions.close(pod);
    deps.guestHooks.forget(pod);
    await deps.guestServers.stop(pod.uid);
    return done();
  }
  const heldMs = heldBack(vmi, pod, deps);
  if (heldMs !== undefined) return after(heldMs);
  const listener = listenerOf(vmi, deps, () => {
    wake(key);
  });
  try {
    if (await tellLeft(vmi, listener.wake, deps)) return done();
    const next = await deps.sessions.use(pod, listener, (session) =>
      passOver(vmi, { pod, role, session, wake: listener.wake }, deps),
    );
    noteSuccess(vmi, deps);
    return next;
  } catch (error) {
    return giveWay(vmi, error, deps);
  }
}
