// SPDX-License-Identifier: Apache-2.0
// The node loop: turns the facts of one node into devices of the VM.
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

/** While the pod is created, a mount may still cover the launcher's path, and inotify does not report that. */
const BEFORE_LAUNCHER: readonly (string | undefined)[] = ["Pending", "Scheduling"];
/** Remember addresses, wire, attach and check once more: each pass does what the previous one made possible. */
const PASSES_MAX = 5;

/**
 * The launcher of a VMI on this node, with the uid from the VMI's status and the name that virt-controller assigns. Undefined
 * when the guest has left the node.
 */
export function launcherOf(
  vmi: VirtualMachineInstance,
  { nodeName }: Pick<Deps, "nodeName">,
): (LauncherPod & Pick<Place, "role">) | undefined {
  const launcher = launcherOn(vmi, nodeName);
  if (launcher === undefined) return undefined;
  return { ...launcher, namespace: vmi.metadata.namespace ?? "" };
}

/** Drifts that this pass repaired. Repairs fail while a guest shuts down, because its taps vanish. */
function repairedDrifts(
  plan: readonly NodeAction[],
  facts: NodeVmFacts,
  result: NodePlanResult,
): readonly Drift[] {
  const repairs = plan.filter((action) => "iface" in action && result.done.has(nameOfStep(action)));
  return driftIn(repairs, facts);
}

/** Returns none when the guest has ended in the meantime. */
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
    // Only the owner records phases; a migration target continues with those in the status.
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

/** Drops the retry state of steps that succeeded, so that the next unplug or step starts afresh. */
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

function noteHooks({ vmi, domain }: NodeVmFacts, { pod, session }: Place, deps: Deps): void {
  if (domain?.running === true) deps.guestHooks.started(pod);
  else if (domain !== undefined && hasRun(vmi)) {
    deps.guestHooks.ended({ pod, sidecars: session.launcher.sidecars ?? [] });
  }
}

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
  // Without a guest agent nothing is polled: netlink, libvirt and the API server report every change.
  const dueInMs = [
    result.changed ? 0 : [],
    result.againInMs ?? [],
    (heldMs > 0 ? heldMs : await askOwn(facts, place, deps)) ?? [],
  ].flat();
  return { facts, next: dueInMs.length === 0 ? done() : after(Math.min(...dueInMs)) };
}

/** On a migration target, the guest's owner queries the agent. */
async function askOwn(facts: NodeVmFacts, place: Place, deps: Deps): Promise<number | undefined> {
  return place.role === "owner" ? askGuest(facts, place.session, deps) : undefined;
}

/** libvirt reports a refused unplug only once, and no query shows it afterwards. */
function noteRefusal(
  { metadata }: VirtualMachineInstance,
  event: HypervisorEvent,
  { unplugRequests }: Deps,
): void {
  if (event.kind !== "deviceRemovalFailed") return;
  const iface = nameOfAlias(event.alias);
  if (iface !== undefined) unplugRequests.noteRefusal(metadata.uid ?? "", iface);
}

export function listenerOf(vmi: VirtualMachineInstance, deps: Deps, wake: () => void): Listener {
  return {
    wake,
    hear: (event) => {
      noteRefusal(vmi, event, deps);
    },
  };
}

/** Migrating guests take a separate path. */
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
