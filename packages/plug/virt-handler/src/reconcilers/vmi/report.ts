// SPDX-License-Identifier: Apache-2.0
// Writes virt-handler's fields of the VMI's status when they say something new.
import {
  networkConfigOf,
  VIRTUAL_MACHINE_INSTANCES,
  type VirtualMachineInstance,
  type VmiStatus,
  type JsonPatchOperation,
} from "@patchbay/api";
import {
  guestHindranceField,
  guestHindranceOf,
  isEqual,
  isNodesWord,
  isTransientChange,
  launcherOn,
  nodeVmStatus,
  openMigration,
  unreachableIfaces,
  type Hindrance,
  type NodeVmFacts,
  type NodeVmStatus,
} from "@patchbay/core";
import { keyOf, printTime } from "@patchbay/kube";
import type { Deps } from "../../deps.ts";
import { TRANSIENT_MS, WRITE_REFILL_MS } from "../../pace.ts";
import { announce } from "./announce.ts";

/** The report rests on what virt-controller said of the pod, and `phase` has a second writer: both are tested. */
function preconditions(current: VmiStatus, next: NodeVmStatus): readonly JsonPatchOperation[] {
  const { attachments, phase } = current;
  return [
    ...(attachments === undefined
      ? []
      : [{ op: "test", path: "/status/attachments", value: attachments } as const]),
    ...(next.phase === undefined || phase === undefined
      ? []
      : [{ op: "test", path: "/status/phase", value: phase } as const]),
  ];
}

const INTERFACES = "/status/interfaces";

/** Fields that are there while there is something to say. */
const TRANSIENT = ["hindrance", "unlistedGuestInterfaces"] as const;

/** virt-controller writes conditions too: nothing of what it wrote meanwhile may be lost. */
function conditionChanges(current: VmiStatus, next: NodeVmStatus): readonly JsonPatchOperation[] {
  const [path, value] = ["/status/conditions", next.conditions];
  if (value === undefined || isEqual(current.conditions ?? [], value)) return [];
  return [
    ...(current.conditions === undefined
      ? []
      : [{ op: "test", path, value: current.conditions } as const]),
    { op: "add", path, value },
  ];
}

function changes(current: VmiStatus, next: NodeVmStatus): readonly JsonPatchOperation[] {
  const changed = (
    ["phase", "pciePorts", "interfaces", "guestOSInfo", ...TRANSIENT] as const
  ).flatMap((field) =>
    next[field] === undefined || isEqual(current[field] ?? [], next[field])
      ? []
      : [{ op: "add" as const, path: `/status/${field}`, value: next[field] }],
  );
  const over = TRANSIENT.filter(
    (field) => current[field] !== undefined && next[field] === undefined,
  ).map((field) => ({ op: "remove" as const, path: `/status/${field}` }));
  return [...changed, ...over, ...conditionChanges(current, next)];
}

/** Nothing is written for its sake alone: it goes along with what is told of NICs, and of the guest's end. */
function historyChanges(
  vmi: VirtualMachineInstance,
  next: NodeVmStatus,
  { stories }: Deps,
): readonly JsonPatchOperation[] {
  const { interfaces, interfaceHistory: told = [] } = vmi.status ?? {};
  const history = stories.historyOf(vmi, { ...(interfaces && { interfaces }), ...next });
  return isEqual(told, history)
    ? []
    : [{ op: "add", path: "/status/interfaceHistory", value: history }];
}

/** How long what is new is held back, milliseconds; 0: it is told. */
export type HeldMs = number;

/** Its phase is told at once: it changes a few times in a life. */
function isHeld(vmi: VirtualMachineInstance, next: NodeVmStatus, { writes }: Deps): boolean {
  return !writes.take(vmi) && next.phase === undefined;
}

/** Until news that is over in a moment, most of the time, is told nevertheless. */
function transientMs(
  vmi: VirtualMachineInstance,
  next: NodeVmStatus,
  { transientSince, clock }: Deps,
): HeldMs {
  const { interfaces: before = [] } = vmi.status ?? {};
  if (!isTransientChange(before, next.interfaces ?? before)) return 0;
  const { uid = "" } = vmi.metadata;
  const nowMs = clock.monotonicMs();
  const sinceMs = transientSince.get(uid) ?? nowMs;
  transientSince.set(uid, sinceMs);
  return Math.max(0, TRANSIENT_MS - (nowMs - sinceMs));
}

async function write(vmi: VirtualMachineInstance, next: NodeVmStatus, deps: Deps): Promise<HeldMs> {
  const current = vmi.status ?? {};
  const operations = changes(current, next);
  const isOfIfaces = operations.length > 0 && operations.every(({ path }) => path === INTERFACES);
  const heldMs = isOfIfaces ? transientMs(vmi, next, deps) : 0;
  if (heldMs > 0) return heldMs;
  deps.transientSince.delete(vmi.metadata.uid ?? "");
  if (operations.length === 0) return 0;
  if (isHeld(vmi, next, deps)) return WRITE_REFILL_MS;
  const patch = {
    type: "json",
    operations: [
      ...preconditions(current, next),
      ...operations,
      ...historyChanges(vmi, next, deps),
    ],
  } as const;
  const options = { subresource: "status" } as const;
  const written = await deps.store.patch(VIRTUAL_MACHINE_INSTANCES, keyOf(vmi), patch, options);
  deps.ownWrites.note(written);
  deps.stories.noteWritten(vmi.metadata.uid ?? "");
  announce(vmi, next, deps);
  return 0;
}

/** What the report says beside the facts. */
export interface Told {
  /** What keeps ifaces from going on, by their names. */
  readonly hindrances: Readonly<Record<string, Hindrance>>;
  /** Why there is no guest. */
  readonly guest?: Hindrance | undefined;
}

/**
 * One write at most.
 * @throws AppError with KUBE_CONFLICT when the attachments changed meanwhile; the facts must be read again.
 */
export async function reportNodeVm(facts: NodeVmFacts, told: Told, deps: Deps): Promise<HeldMs> {
  if (!isNodesWord(facts)) return 0;
  const now = printTime(deps.clock.now());
  return write(facts.vmi, nodeVmStatus(facts, { ...told, now }), deps);
}

/** A libvirt that is started again needs a moment: the VMI as a whole is told to be hindered from this failure on. */
const TOLD_FROM = 3;

function hindranceAfter(
  vmi: VirtualMachineInstance,
  { error, failures }: { readonly error: unknown; readonly failures: number },
  now: string,
): Pick<NodeVmStatus, "hindrance"> {
  const before = vmi.status?.hindrance;
  if (failures >= TOLD_FROM) {
    return guestHindranceField(vmi, guestHindranceOf(vmi, "LauncherUnreachable", error), now);
  }
  return before === undefined ? {} : { hindrance: before };
}

/** Tells what holds up a VMI, and what its ifaces wait for, while its launcher cannot be worked with because of `error`. */
export async function reportFailure(
  vmi: VirtualMachineInstance,
  failure: { readonly error: unknown; readonly failures: number },
  deps: Deps,
): Promise<void> {
  if (vmi.metadata.deletionTimestamp !== undefined) return;
  if (launcherOn(vmi, deps.nodeName)?.role !== "owner") return;
  // A guest that has left takes its launcher's end along.
  if (openMigration(vmi) !== undefined) return;
  // What was just told of a step knows more.
  if (deps.ownWrites.isBehind(vmi)) return;
  const now = printTime(deps.clock.now());
  const hindrance = hindranceAfter(vmi, failure, now);
  const { bindings } = networkConfigOf(deps.kubevirts.list()[0]);
  const known = { now, bindings };
  const { phase, unlistedGuestInterfaces } = vmi.status ?? {};
  const ifaces =
    phase === "Running" ? { interfaces: [...unreachableIfaces(vmi, failure.error, known)] } : {};
  const unlisted = unlistedGuestInterfaces === undefined ? {} : { unlistedGuestInterfaces };
  await write(vmi, { ...ifaces, ...unlisted, ...hindrance }, deps);
}
