// SPDX-License-Identifier: Apache-2.0
// Events for the steps that a person would ask about.
import type { IfaceStatus, VirtualMachineInstance, VmiPhase } from "@patchbay/api";
import { eventTypeOf, findByName, type Drift, type NodeVmStatus } from "@patchbay/core";
import type { Note } from "@patchbay/kube";
import type { Deps } from "../../deps.ts";

function isReady(status: IfaceStatus | undefined): boolean {
  return status?.hotplug?.phase === "Ready";
}

function hindranceNote(before: IfaceStatus | undefined, after: IfaceStatus): Note | undefined {
  const reason = after.hotplug?.reason;
  if (reason === undefined || reason === before?.hotplug?.reason) return undefined;
  const type = eventTypeOf(reason);
  if (type === undefined) return undefined;
  const { name: about = "" } = after;
  const message = `interface ${about}: ${after.hotplug?.message ?? reason}`;
  return { type, reason, message, about };
}

/** Its device is there as before, and hangs on another NIC of the pod. */
function isSwapped(before: IfaceStatus | undefined, after: IfaceStatus): boolean {
  return (
    before?.pciAddress !== undefined &&
    before.pciAddress === after.pciAddress &&
    before.podInterfaceName !== after.podInterfaceName
  );
}

function readyNote(before: IfaceStatus | undefined, after: IfaceStatus): Note | undefined {
  const { name: about = "", pciAddress = "an unknown address" } = after;
  if (isSwapped(before, after)) {
    const message = `interface ${about} is on its new network, with the MAC and the PCI address that it had`;
    return { type: "Normal", reason: "InterfaceMoved", message, about };
  }
  // A network swap that was called off is none.
  if (isReady(before) || before?.hotplug?.type === "Swap") return undefined;
  const message = `interface ${about} is in the VM at ${pciAddress}`;
  return { type: "Normal", reason: "InterfacePlugged", message, about };
}

/** What is new of one iface: that it is ready, or why it is not; a NIC that is ready may have something to tell too. */
function noteOf(before: IfaceStatus | undefined, after: IfaceStatus): readonly Note[] {
  const ready = isReady(after) ? readyNote(before, after) : undefined;
  return [ready ?? [], hindranceNote(before, after) ?? []].flat();
}

type Notes = readonly Note[];

/** Of what holds up the VMI as a whole, once; its words may differ each time. Source of the reason: KubeVirt virt-handler. */
function guestNotes({ status }: VirtualMachineInstance, { hindrance }: NodeVmStatus): Notes {
  if (hindrance === undefined || hindrance.reason === status?.hindrance?.reason) return [];
  const said =
    hindrance.reason === "GuestNotStarted"
      ? "the guest cannot be started"
      : "the guest cannot be worked with";
  const message = `${said}: ${hindrance.message}`;
  return [{ type: "Warning", reason: "SyncFailed", message }];
}

/** Of the guest as a whole. Source of the reasons: KubeVirt virt-handler. */
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

function pluggedNotes(before: readonly IfaceStatus[], after: readonly IfaceStatus[]): Notes {
  return after.flatMap((status) => noteOf(findByName(before, status.name ?? ""), status));
}

function unpluggedNotes(before: readonly IfaceStatus[], after: readonly IfaceStatus[]): Notes {
  return before
    .map(({ name = "" }) => name)
    .filter((name) => findByName(after, name) === undefined)
    .map((name) => ({
      type: "Normal",
      reason: "InterfaceUnplugged",
      message: `interface ${name} is out of the VM and of its pod`,
      about: name,
    }));
}

/** Tells that a NIC was not as it was made, which is mended: an event for each thing that can be wrong with it. */
export function announceDrift(
  vmi: VirtualMachineInstance,
  { message }: Drift,
  { events }: Pick<Deps, "events">,
): void {
  events.record(vmi, { type: "Warning", reason: "InterfaceDrifted", message, about: message });
}

/** Tells what the new report says beyond the last one. */
export function announce(
  vmi: VirtualMachineInstance,
  next: NodeVmStatus,
  { events }: Pick<Deps, "events">,
): void {
  // Links of the guest's own have no names, and are nobody's plug.
  const ofSpec = ({ name }: IfaceStatus): boolean => name !== undefined;
  const before = (vmi.status?.interfaces ?? []).filter(ofSpec);
  const after = (next.interfaces ?? before).filter(ofSpec);
  const notes = [
    next.phase === undefined ? [] : (PHASE_NOTES[next.phase] ?? []),
    guestNotes(vmi, next),
    pluggedNotes(before, after),
    unpluggedNotes(before, after),
  ].flat();
  for (const note of notes) events.record(vmi, note);
}
