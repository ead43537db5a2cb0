// SPDX-License-Identifier: Apache-2.0
// Events for the steps that a person would ask about.
import type { IfaceStatus, VirtualMachineInstance } from "@patchbay/api";
import { findByName, type NodeVmStatus } from "@patchbay/core";
import type { Note } from "@patchbay/kube";
import type { Deps } from "../../deps.ts";

function isReady(status: IfaceStatus | undefined): boolean {
  return status?.hotplug?.phase === "Ready";
}

/** Reasons that end by themselves. */
const WAITS: ReadonlySet<string> = new Set([
  "DomainBusy",
  "DomainMissing",
  "DomainNotRunning",
  "WaitingForMigration",
]);

function typeOf(reason: string): Note["type"] {
  return WAITS.has(reason) ? "Normal" : "Warning";
}

function hindranceNote(before: IfaceStatus | undefined, after: IfaceStatus): Note | undefined {
  const reason = after.hotplug?.reason;
  if (reason === undefined || reason === "WaitingForGuest") return undefined;
  if (reason === before?.hotplug?.reason) return undefined;
  const message = `interface ${after.name ?? ""}: ${after.hotplug?.message ?? reason}`;
  return { type: typeOf(reason), reason, message };
}

function noteOf(before: IfaceStatus | undefined, after: IfaceStatus): Note | undefined {
  if (!isReady(after) || isReady(before)) return hindranceNote(before, after);
  const message = `interface ${after.name ?? ""} is in the VM at ${after.pciAddress ?? "an unknown address"}`;
  return { type: "Normal", reason: "InterfacePlugged", message };
}

/** Tells what the new report says beyond the last one. */
export function announce(vmi: VirtualMachineInstance, next: NodeVmStatus, deps: Deps): void {
  const before = vmi.status?.interfaces;
  const after = next.interfaces ?? [];
  for (const status of after) {
    const note = noteOf(findByName(before, status.name ?? ""), status);
    if (note !== undefined) deps.events.record(vmi, note);
  }
  for (const status of before ?? []) {
    const name = status.name ?? "";
    if (findByName(after, name) !== undefined) continue;
    const message = `interface ${name} is out of the VM and of its pod`;
    deps.events.record(vmi, { type: "Normal", reason: "InterfaceUnplugged", message });
  }
}
