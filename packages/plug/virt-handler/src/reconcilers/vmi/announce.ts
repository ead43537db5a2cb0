// SPDX-License-Identifier: Apache-2.0
// Events for the steps that a person would ask about.
import type { IfaceStatus, KubeObject, VirtualMachineInstance, VmiPhase } from "@patchbay/api";
import {
  eventTypeOf,
  findByName,
  networksOf,
  ownerVmOf,
  type Drift,
  type NodeVmStatus,
} from "@patchbay/core";
import type { Note } from "@patchbay/kube";
import type { Deps } from "../../deps.ts";

interface SaidStories {
  readonly stories: Pick<Deps["stories"], "say">;
}

/** Whose NICs are told of, and how long each took. */
interface NicFacts extends SaidStories {
  readonly vmi: VirtualMachineInstance;
}

/** The network that an iface is to be on. */
function sayNetwork({ spec }: VirtualMachineInstance, name: string): string {
  const network = findByName(networksOf(spec), name)?.multus?.networkName;
  return network === undefined ? "the pod's network" : `network ${network}`;
}

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

/** What a NIC that is in order has come to. */
function readyNote(
  before: IfaceStatus | undefined,
  after: IfaceStatus,
  facts: NicFacts,
): Note | undefined {
  const { name: about = "", pciAddress = "an unknown address" } = after;
  const network = sayNetwork(facts.vmi, about);
  if (isSwapped(before, after)) {
    const message = `interface ${about} is on ${network} now, with the MAC and the PCI address that it had`;
    return { type: "Normal", reason: "InterfaceMoved", message, about };
  }
  // A network swap that was called off is none.
  if (isReady(before) || before?.hotplug?.type === "Swap") return undefined;
  const mac = after.mac === undefined ? "" : ` with MAC ${after.mac}`;
  const message = `interface ${about} is in the VM at ${pciAddress}, on ${network}${mac}`;
  return { type: "Normal", reason: "InterfacePlugged", message, about };
}

/** With how long it took, where that is known. */
function withStory(note: Note, { vmi, stories }: NicFacts): Note {
  const told = stories.say(vmi, note.about ?? "");
  return told === undefined ? note : { ...note, message: `${note.message}, ${told}` };
}

/** What is new of one iface: that it is ready, or why it is not; a NIC that is ready may have something to tell too. */
function noteOf(
  before: IfaceStatus | undefined,
  after: IfaceStatus,
  facts: NicFacts,
): readonly Note[] {
  const ready = isReady(after) ? readyNote(before, after, facts) : undefined;
  const hindrance = hindranceNote(before, after);
  return [ready === undefined ? [] : withStory(ready, facts), hindrance ?? []].flat();
}

type Notes = readonly Note[];

/** What holds up a guest that does not run yet. */
const OF_STARTS: readonly string[] = ["GuestNotStarted", "HookFailed", "HookAnswerRefused"];

/** Of what holds up the VMI as a whole, once; its words may differ each time. Source of the reason: KubeVirt virt-handler. */
function guestNotes({ status }: VirtualMachineInstance, { hindrance }: NodeVmStatus): Notes {
  if (hindrance === undefined || hindrance.reason === status?.hindrance?.reason) return [];
  if (eventTypeOf(hindrance.reason) === undefined) return [];
  const said = OF_STARTS.includes(hindrance.reason)
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

/** What was told last and what is told now. */
interface Reports {
  readonly before: readonly IfaceStatus[];
  readonly after: readonly IfaceStatus[];
}

function pluggedNotes({ before, after }: Reports, facts: NicFacts): Notes {
  return after.flatMap((status) => noteOf(findByName(before, status.name ?? ""), status, facts));
}

function unpluggedNotes({ before, after }: Reports, facts: NicFacts): Notes {
  return before
    .map(({ name = "" }) => name)
    .filter((name) => findByName(after, name) === undefined)
    .map((name) => {
      const message = `interface ${name} is out of the VM and of its pod`;
      return withStory(
        { type: "Normal", reason: "InterfaceUnplugged", message, about: name },
        facts,
      );
    });
}

/** Who is told of NICs: the VM that declares them, where there is one, else the VMI. */
function declarerOf(vmi: VirtualMachineInstance): KubeObject {
  const owner = ownerVmOf(vmi);
  if (owner === undefined) return vmi;
  const { apiVersion, kind, name, uid } = owner;
  const { namespace = "" } = vmi.metadata;
  return { apiVersion, kind, metadata: { namespace, name, uid } };
}

/** Tells that a NIC was not as it was made, which is mended: an event for each thing that can be wrong with it. */
export function announceDrift(
  vmi: VirtualMachineInstance,
  { message }: Drift,
  { events }: Pick<Deps, "events">,
): void {
  const note = { type: "Warning", reason: "InterfaceDrifted", message, about: message } as const;
  events.record(declarerOf(vmi), note);
}

/** The end of a VMI that is being deleted is no fault: what fails on the way has no consequences. */
function isNews(vmi: VirtualMachineInstance, { type }: Note): boolean {
  return type !== "Warning" || vmi.metadata.deletionTimestamp === undefined;
}

/** Tells what the new report says beyond the last one. */
export function announce(
  vmi: VirtualMachineInstance,
  next: NodeVmStatus,
  { events, stories }: Pick<Deps, "events"> & SaidStories,
): void {
  // Links of the guest's own have no names, and are nobody's plug.
  const ofSpec = ({ name }: IfaceStatus): boolean => name !== undefined;
  const before = (vmi.status?.interfaces ?? []).filter(ofSpec);
  const reports = { before, after: (next.interfaces ?? before).filter(ofSpec) };
  const facts = { vmi, stories };
  const ofGuest = [
    next.phase === undefined ? [] : (PHASE_NOTES[next.phase] ?? []),
    guestNotes(vmi, next).filter((note) => isNews(vmi, note)),
  ].flat();
  for (const note of ofGuest) events.record(vmi, note);
  const ofNics = [...pluggedNotes(reports, facts), ...unpluggedNotes(reports, facts)];
  for (const note of ofNics) {
    if (isNews(vmi, note)) events.record(declarerOf(vmi), note);
  }
}
