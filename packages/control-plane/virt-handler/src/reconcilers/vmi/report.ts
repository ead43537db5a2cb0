// SPDX-License-Identifier: Apache-2.0
// Writes virt-handler's fields of the VMI's status when they changed.
import {
  networkConfigOf,
  VIRTUAL_MACHINE_INSTANCES,
  type VirtualMachineInstance,
  type VmiStatus,
  type JsonPatchOperation,
} from "@patchbay/api";
import {
  guestBlockedField,
  guestBlockedReason,
  mayNodeReport,
  buildNodeVmStatus,
  type BlockedReason,
  type NodeVmStatus,
} from "@patchbay/core/status";
import { isEqual } from "@patchbay/base";
import { isTransientChange, unreachableIfaces } from "@patchbay/core/nics";
import { launcherOn, openMigration } from "@patchbay/core/migration";
import type { NodeVmFacts } from "@patchbay/core/vm";
import { keyOf, printTime } from "@patchbay/kube";
import type { Deps } from "../../deps.ts";
import { TRANSIENT_REPORT_DELAY_MS, WRITE_REFILL_MS } from "../../rate-limits.ts";
import { announceChanges } from "./announce.ts";

/** The report depends on the attachments that virt-controller wrote, and virt-controller also writes `phase`: the patch tests both. */
function buildPreconditions(current: VmiStatus, next: NodeVmStatus): readonly JsonPatchOperation[] {
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

/** Optional fields that are removed when they have no value. */
const TRANSIENT = ["hindrance", "unlistedGuestInterfaces"] as const;

/** virt-controller writes conditions too, so the patch tests the old value and loses no concurrent write. */
function listConditionChanges(
  current: VmiStatus,
  next: NodeVmStatus,
): readonly JsonPatchOperation[] {
  const [path, value] = ["/status/conditions", next.conditions];
  if (value === undefined || isEqual(current.conditions ?? [], value)) return [];
  return [
    ...(current.conditions === undefined
      ? []
      : [{ op: "test", path, value: current.conditions } as const]),
    { op: "add", path, value },
  ];
}

function listChanges(current: VmiStatus, next: NodeVmStatus): readonly JsonPatchOperation[] {
  const changed = (
    ["phase", "pciePorts", "interfaces", "guestOSInfo", ...TRANSIENT] as const
  ).flatMap((field) =>
    next[field] === undefined || isEqual(current[field] ?? [], next[field])
      ? []
      : [{ op: "add" as const, path: `/status/${field}`, value: next[field] }],
  );
  const removed = TRANSIENT.filter(
    (field) => current[field] !== undefined && next[field] === undefined,
  ).map((field) => ({ op: "remove" as const, path: `/status/${field}` }));
  return [...changed, ...removed, ...listConditionChanges(current, next)];
}

/** The history alone causes no write: it is written together with changes of NICs or of the guest's end. */
function listHistoryChanges(
  vmi: VirtualMachineInstance,
  next: NodeVmStatus,
  { phaseTimings }: Deps,
): readonly JsonPatchOperation[] {
  const { interfaces, interfaceHistory: previous = [] } = vmi.status ?? {};
  const history = phaseTimings.nextHistory(vmi, { ...(interfaces && { interfaces }), ...next });
  return isEqual(previous, history)
    ? []
    : [{ op: "add", path: "/status/interfaceHistory", value: history }];
}

/** Milliseconds; 0 when the change was written. */
export type DelayMs = number;

/** A changed phase is written at once, because it changes only a few times in a life. */
function isRateLimited(
  vmi: VirtualMachineInstance,
  next: NodeVmStatus,
  { writeBudget }: Deps,
): boolean {
  return !writeBudget.take(vmi) && next.phase === undefined;
}

function findTransientDelayMs(
  vmi: VirtualMachineInstance,
  next: NodeVmStatus,
  { transientSince, clock }: Deps,
): DelayMs {
  const { interfaces: before = [] } = vmi.status ?? {};
  if (!isTransientChange(before, next.interfaces ?? before)) return 0;
  const { uid = "" } = vmi.metadata;
  const nowMs = clock.monotonicMs();
  const sinceMs = transientSince.get(uid) ?? nowMs;
  transientSince.set(uid, sinceMs);
  return Math.max(0, TRANSIENT_REPORT_DELAY_MS - (nowMs - sinceMs));
}

async function write(
  vmi: VirtualMachineInstance,
  next: NodeVmStatus,
  deps: Deps,
): Promise<DelayMs> {
  const current = vmi.status ?? {};
  const operations = listChanges(current, next);
  const changesOnlyInterfaces =
    operations.length > 0 && operations.every(({ path }) => path === INTERFACES);
  const delayMs = changesOnlyInterfaces ? findTransientDelayMs(vmi, next, deps) : 0;
  if (delayMs > 0) return delayMs;
  deps.transientSince.delete(vmi.metadata.uid ?? "");
  if (operations.length === 0) return 0;
  if (isRateLimited(vmi, next, deps)) return WRITE_REFILL_MS;
  const patch = {
    type: "json",
    operations: [
      ...buildPreconditions(current, next),
      ...operations,
      ...listHistoryChanges(vmi, next, deps),
    ],
  } as const;
  const options = { subresource: "status" } as const;
  const written = await deps.store.patch(VIRTUAL_MACHINE_INSTANCES, keyOf(vmi), patch, options);
  deps.ownWrites.note(written);
  deps.phaseTimings.markWritten(vmi.metadata.uid ?? "");
  announceChanges(vmi, next, deps);
  return 0;
}

export interface ReportExtras {
  readonly blockedReasons: Readonly<Record<string, BlockedReason>>;
  readonly guest?: BlockedReason | undefined;
}

/** @throws AppError with KUBE_CONFLICT when the attachments changed in the meantime; the facts must be read again */
export async function reportNodeVm(
  facts: NodeVmFacts,
  extras: ReportExtras,
  deps: Deps,
): Promise<DelayMs> {
  if (!mayNodeReport(facts)) return 0;
  const now = printTime(deps.clock.now());
  return write(facts.vmi, buildNodeVmStatus(facts, { ...extras, now }), deps);
}

/** A restarted libvirt needs a moment, so the VMI as a whole is reported as blocked only from this failure on. */
const REPORT_AFTER_FAILURES = 3;

function buildBlockedFields(
  vmi: VirtualMachineInstance,
  { error, failures }: { readonly error: unknown; readonly failures: number },
  now: string,
): Pick<NodeVmStatus, "hindrance"> {
  const before = vmi.status?.hindrance;
  if (failures >= REPORT_AFTER_FAILURES) {
    return guestBlockedField(vmi, guestBlockedReason(vmi, "LauncherUnreachable", error), now);
  }
  return before === undefined ? {} : { hindrance: before };
}

/** Reports why a VMI is blocked and what its ifaces wait for, while `error` makes its launcher unusable. */
export async function reportFailure(
  vmi: VirtualMachineInstance,
  failure: { readonly error: unknown; readonly failures: number },
  deps: Deps,
): Promise<void> {
  if (vmi.metadata.deletionTimestamp !== undefined) return;
  if (launcherOn(vmi, deps.nodeName)?.role !== "owner") return;
  // A launcher ends after its guest has migrated away, which is no failure.
  if (openMigration(vmi) !== undefined) return;
  // A report about a step that was just written is more precise.
  if (deps.ownWrites.isBehind(vmi)) return;
  const now = printTime(deps.clock.now());
  const hindrance = buildBlockedFields(vmi, failure, now);
  const { bindings } = networkConfigOf(deps.kubevirts.list()[0]);
  const known = { now, bindings };
  const { phase, unlistedGuestInterfaces } = vmi.status ?? {};
  const ifaces =
    phase === "Running" ? { interfaces: [...unreachableIfaces(vmi, failure.error, known)] } : {};
  const unlisted = unlistedGuestInterfaces === undefined ? {} : { unlistedGuestInterfaces };
  await write(vmi, { ...ifaces, ...unlisted, ...hindrance }, deps);
}
