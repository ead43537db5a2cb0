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
  nodeVmStatus,
  unreachableIfaces,
  type NodeVmFacts,
  type NodeVmStatus,
} from "@patchbay/core";
import { keyOf, printTime } from "@patchbay/kube";
import type { Deps } from "../../deps.ts";
import type { Outcome } from "./act.ts";
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

function changes(current: VmiStatus, next: NodeVmStatus): readonly JsonPatchOperation[] {
  const changed = (["phase", "pciePorts", "interfaces", "hindrance"] as const).flatMap((field) =>
    next[field] === undefined || isEqual(current[field] ?? [], next[field])
      ? []
      : [{ op: "add" as const, path: `/status/${field}`, value: next[field] }],
  );
  return current.hindrance === undefined || next.hindrance !== undefined
    ? changed
    : [...changed, { op: "remove", path: "/status/hindrance" }];
}

async function write(vmi: VirtualMachineInstance, next: NodeVmStatus, deps: Deps): Promise<void> {
  const current = vmi.status ?? {};
  const operations = changes(current, next);
  if (operations.length === 0) return;
  const patch = {
    type: "json",
    operations: [...preconditions(current, next), ...operations],
  } as const;
  const options = { subresource: "status" } as const;
  const written = await deps.store.patch(VIRTUAL_MACHINE_INSTANCES, keyOf(vmi), patch, options);
  deps.ownWrites.note(written);
  announce(vmi, next, deps);
}

/** What the report says beside the facts. */
export type Told = Pick<Outcome, "hindrances"> & Partial<Pick<Outcome, "guest">>;

/**
 * One write at most.
 * @throws AppError with KUBE_CONFLICT when the attachments changed meanwhile; the facts must be read again.
 */
export async function reportNodeVm(facts: NodeVmFacts, told: Told, deps: Deps): Promise<void> {
  const now = printTime(deps.clock.now());
  await write(facts.vmi, nodeVmStatus(facts, { ...told, now }), deps);
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
  // What was just told of a step knows more.
  if (deps.ownWrites.isBehind(vmi)) return;
  const now = printTime(deps.clock.now());
  const hindrance = hindranceAfter(vmi, failure, now);
  const { bindings } = networkConfigOf(deps.kubevirts.list()[0]);
  const known = { now, sha256Hex: deps.sha256Hex, bindings };
  const ifaces =
    vmi.status?.phase === "Running"
      ? { interfaces: [...unreachableIfaces(vmi, failure.error, known)] }
      : {};
  await write(vmi, { ...ifaces, ...hindrance }, deps);
}
