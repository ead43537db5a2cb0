// SPDX-License-Identifier: Apache-2.0
// Events about NICs and about the guest as a whole.
import type { IfaceStatus, KubeObject, VirtualMachineInstance, VmiPhase } from "@patchbay/api";
import { findEventType } from "@patchbay/core/reasons";
import { findByName, networksOf } from "@patchbay/core/nics";
import { findOwnerVm, type Drift } from "@patchbay/core/vm";
import type { NodeVmStatus } from "@patchbay/core/status";
import type { Note } from "@patchbay/kube";
import type { Deps } from "../../deps.ts";

interface PhaseTimingTexts {
  readonly phaseTimings: Pick<Deps["phaseTimings"], "describe">;
}

interface NicFacts extends PhaseTimingTexts {
  readonly vmi: VirtualMachineInstance;
}

function describeNetwork({ spec }: VirtualMachineInstance, name: string): string {
  const network = findByName(networksOf(spec), name)?.multus?.networkName;
  return network === undefined ? "the pod's network" : `network ${network}`;
}

function isReady(status: IfaceStatus | undefined): boolean {
  return status?.hotplug?.phase === "Ready";
}

function buildBlockedNote(before: IfaceStatus | undefined, after: IfaceStatus): Note | undefined {
  const reason = after.hotplug?.reason;
  if (reason === undefined || reason === before?.hotplug?.reason) return undefined;
  const type = findEventType(reason);
  if (type === undefined) return undefined;
  const { name: about = "" } = after;
  const message = `interface ${about}: ${after.hotplug?.message ?? reason}`;
  return { type, reason, message, about };
}

function isSwapped(before: IfaceStatus | undefined, after: IfaceStatus): boolean {
  return (
    before?.pciAddress !== undefined &&
    before.pciAddress === after.pciAddress &&
    before.podInterfaceName !== after.podInterfaceName
  );
}

function buildReadyNote(
  before: IfaceStatus | undefined,
  after: IfaceStatus,
  facts: NicFacts,
): Note | undefined {
  const { name: about = "", pciAddress = "an unknown address" } = after;
  const network = describeNetwork(facts.vmi, about);
  if (isSwapped(before, after)) {
    const message = `interface ${about} is on ${network} now, with the MAC and the PCI address that it had`;
    return { type: "Normal", reason: "InterfaceMoved", message, about };
  }
  // Canceling a network swap is no swap.
  if (isReady(before) || before?.hotplug?.type === "Swap") return undefined;
  const mac = after.mac === undefined ? "" : ` with MAC ${after.mac}`;
  const message = `interface ${about} is in the VM at ${pciAddress}, on ${network}${mac}`;
  return { type: "Normal", reason: "InterfacePlugged", message, about };
}

function withTiming(note: Note, { vmi, phaseTimings }: NicFacts): Note {
  const timing = phaseTimings.describe(vmi, note.about ?? "");
  return timing === undefined ? note : { ...note, message: `${note.message}, ${timing}` };
}

function buildNotes(
  before: IfaceStatus | undefined,
  after: IfaceStatus,
  facts: NicFacts,
): readonly Note[] {
  const ready = isReady(after) ? buildReadyNote(before, after, facts) : undefined;
  const blocked = buildBlockedNote(before, after);
  return [ready === undefined ? [] : withTiming(ready, facts), blocked ?? []].flat();
}

type Notes = readonly Note[];

const START_REASONS: readonly string[] = ["GuestNotStarted", "HookFailed", "HookAnswerRefused"];

/** One event for each reason that blocks the VMI as a whole, because messages may vary. Source of the reason: KubeVirt virt-handler. */
function buildGuestNotes({ status }: VirtualMachineInstance, { hindrance }: NodeVmStatus): Notes {
  if (hindrance === undefined || hindrance.reason === status?.hindrance?.reason) return [];
  if (findEventType(hindrance.reason) === undefined) return [];
  const summary = START_REASONS.includes(hindrance.reason)
    ? "the guest cannot be started"
    : "the guest cannot be managed";
  const message = `${summary}: ${hindrance.message}`;
  return [{ type: "Warning", reason: "SyncFailed", message }];
}

/** Events about the guest as a whole. Source of the reasons: KubeVirt virt-handler. */
const PHASE_NOTES: Partial<Record<VmiPhase, Note>> = {
  Running: { type: "Normal", reason: "Started", message: "the guest runs" },
  Succeeded: { type: "Normal", reason: "Stopped", message: "the guest has shut down" },
  Failed: {
    type: "Warning",
    reason: "Stopped",
    message:
      "the guest has crashed: its QEMU failed or was killed, perhaps for lack of memory; see the logs of the launcher pod and of the node's kernel",
  },
};

interface Reports {
  readonly before: readonly IfaceStatus[];
  readonly after: readonly IfaceStatus[];
}

function buildPluggedNotes({ before, after }: Reports, facts: NicFacts): Notes {
  return after.flatMap((status) =>
    buildNotes(findByName(before, status.name ?? ""), status, facts),
  );
}

function buildUnpluggedNotes({ before, after }: Reports, facts: NicFacts): Notes {
  return before
    .map(({ name = "" }) => name)
    .filter((name) => findByName(after, name) === undefined)
    .map((name) => {
      const message = `interface ${name} is out of the VM and of its pod`;
      return withTiming(
        { type: "Normal", reason: "InterfaceUnplugged", message, about: name },
        facts,
      );
    });
}

/** Events about NICs go to the VM that declares them, or to the VMI if it has no VM. */
function findDeclarer(vmi: VirtualMachineInstance): KubeObject {
  const owner = findOwnerVm(vmi);
  if (owner === undefined) return vmi;
  const { apiVersion, kind, name, uid } = owner;
  const { namespace = "" } = vmi.metadata;
  return { apiVersion, kind, metadata: { namespace, name, uid } };
}

/** One event for each kind of drift. */
export function announceDrift(
  vmi: VirtualMachineInstance,
  { message }: Drift,
  { events }: Pick<Deps, "events">,
): void {
  const note = { type: "Warning", reason: "InterfaceDrifted", message, about: message } as const;
  events.record(findDeclarer(vmi), note);
}

/** Failures during the deletion of a VMI are expected and have no consequences. */
function isReportable(vmi: VirtualMachineInstance, { type }: Note): boolean {
  return type !== "Warning" || vmi.metadata.deletionTimestamp === undefined;
}

export function announceChanges(
  vmi: VirtualMachineInstance,
  next: NodeVmStatus,
  { events, phaseTimings }: Pick<Deps, "events"> & PhaseTimingTexts,
): void {
  // Links that the guest created itself have no names in the spec.
  const isDeclared = ({ name }: IfaceStatus): boolean => name !== undefined;
  const before = (vmi.status?.interfaces ?? []).filter(isDeclared);
  const reports = { before, after: (next.interfaces ?? before).filter(isDeclared) };
  const facts = { vmi, phaseTimings };
  const guestNotes = [
    next.phase === undefined ? [] : (PHASE_NOTES[next.phase] ?? []),
    buildGuestNotes(vmi, next).filter((note) => isReportable(vmi, note)),
  ].flat();
  for (const note of guestNotes) events.record(vmi, note);
  const nicNotes = [...buildPluggedNotes(reports, facts), ...buildUnpluggedNotes(reports, facts)];
  for (const note of nicNotes) {
    if (isReportable(vmi, note)) events.record(findDeclarer(vmi), note);
  }
}
