// SPDX-License-Identifier: Apache-2.0
// Writes virt-handler's fields of the VMI's status when they say something new.
import {
  VIRTUAL_MACHINE_INSTANCES,
  type VirtualMachineInstance,
  type VmiStatus,
} from "@patchbay/api";
import {
  isEqual,
  nodeVmStatus,
  unreachableIfaces,
  type Hindrance,
  type NodeVmFacts,
  type NodeVmStatus,
} from "@patchbay/core";
import { keyOf, printTime } from "@patchbay/kube";
import type { JsonPatchOperation } from "@patchbay/ports";
import type { Deps } from "../../deps.ts";
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
  return (["phase", "pciePorts", "interfaces"] as const).flatMap((field) =>
    next[field] === undefined || isEqual(current[field] ?? [], next[field])
      ? []
      : [{ op: "add" as const, path: `/status/${field}`, value: next[field] }],
  );
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

/**
 * One write at most.
 * @throws AppError with KUBE_CONFLICT when the attachments changed meanwhile; the facts must be read again.
 */
export async function reportNodeVm(
  facts: NodeVmFacts,
  hindrances: Readonly<Record<string, Hindrance>>,
  deps: Deps,
): Promise<void> {
  const now = printTime(deps.clock.now());
  await write(facts.vmi, nodeVmStatus(facts, { hindrances, now }), deps);
}

/** Tells what the ifaces of a running VM wait for, while its libvirt cannot be asked because of `error`. */
export async function reportUnreachable(
  vmi: VirtualMachineInstance,
  error: unknown,
  deps: Deps,
): Promise<void> {
  if (vmi.status?.phase !== "Running" || vmi.metadata.deletionTimestamp !== undefined) return;
  // What was just told of a step knows more.
  if (deps.ownWrites.isBehind(vmi)) return;
  const now = printTime(deps.clock.now());
  const interfaces = unreachableIfaces(vmi, error, { now, sha256Hex: deps.sha256Hex });
  await write(vmi, { interfaces: [...interfaces] }, deps);
}
