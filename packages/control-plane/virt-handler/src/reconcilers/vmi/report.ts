// SPDX-License-Identifier: Apache-2.0
// Writes virt-handler's fields of the VMI's status, and events about NICs and the guest.
import {
  type IfaceStatus,
  type VirtualMachineInstance,
  type VmiPhase,
  networkConfigOf,
  VIRTUAL_MACHINE_INSTANCES,
  type VmiStatus,
} from "@patchbay/api";
import type { JsonPatchOperation } from "@patchbay/api/json";
import type { KubeObject } from "@patchbay/api/kubernetes";
import { findEventType } from "@patchbay/core/reasons";
import {
  findByName,
  networksOf,
  isTransientChange,
  buildUnreachableIfaces,
} from "@patchbay/core/nics";
import { findOwnerVm, type Drift, type NodeVmFacts } from "@patchbay/core/vm";
import {
  type NodeVmStatus,
  guestBlockedField,
  guestBlockedReason,
  mayNodeReport,
  buildNodeVmStatus,
  type BlockedReason,
} from "@patchbay/core/status";
import { type Note, keyOf, printTime } from "@patchbay/kube";
import type { Deps } from "../../deps.ts";
import { isEqual } from "@patchbay/base";
import { launcherOn, openMigration } from "@patchbay/core/migration";
import { TRANSIENT_REPORT_DELAY_MS, WRITE_REFILL_MS } from "../../rate-limits.ts";

interface PhaseTimingTexts {
  readonly phaseTimings: Pick<Deps["phaseTimings"], "describe">;
}

interface NicFacts extends PhaseTimingTexts {
  readonly vmi: VirtualMachineInstance;
}

function describeNetwork({ spec }: VirtualMachineInstance, name: string): string {
  const { multus, resourceClaim } = findByName(networksOf(spec), name) ?? {};
  if (resourceClaim !== undefined) return `resource claim ${resourceClaim.claimName ?? ""}`;
  return multus === undefined ? "the pod's network" : `network ${multus.networkName}`;
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
  // A NIC gets no event if it was ready before or its swap was canceled.
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

/** Builds an event if the reason that blocks the VMI has changed. Source of reason SyncFailed: KubeVirt, virt-handler. */
function buildGuestNotes(
  { status }: VirtualMachineInstance,
  { blockedReason }: NodeVmStatus,
): Notes {
  if (blockedReason === undefined || blockedReason.reason === status?.blockedReason?.reason)
    return [];
  if (findEventType(blockedReason.reason) === undefined) return [];
  const summary = START_REASONS.includes(blockedReason.reason)
    ? "the guest cannot be started"
    : "the guest cannot be managed";
  const message = `${summary}: ${blockedReason.message}`;
  return [{ type: "Warning", reason: "SyncFailed", message }];
}

/** Events by the phase that the guest enters. Source of the reasons: KubeVirt, virt-handler. */
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

interface IfaceReports {
  readonly before: readonly IfaceStatus[];
  readonly after: readonly IfaceStatus[];
}

function buildPluggedNotes({ before, after }: IfaceReports, facts: NicFacts): Notes {
  return after.flatMap((status) =>
    buildNotes(findByName(before, status.name ?? ""), status, facts),
  );
}

function buildUnpluggedNotes({ before, after }: IfaceReports, facts: NicFacts): Notes {
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

export function findEventObject(vmi: VirtualMachineInstance): KubeObject {
  const owner = findOwnerVm(vmi);
  if (owner === undefined) return vmi;
  const { apiVersion, kind, name, uid } = owner;
  const { namespace = "" } = vmi.metadata;
  return { apiVersion, kind, metadata: { namespace, name, uid } };
}

export function announceDrift(
  vmi: VirtualMachineInstance,
  { message }: Drift,
  { events }: Pick<Deps, "events">,
): void {
  const note = { type: "Warning", reason: "InterfaceDrifted", message, about: message } as const;
  events.record(findEventObject(vmi), note);
}

/** Returns false for warnings about a VMI that is being deleted, because failures are expected during a deletion. */
function isReportable(vmi: VirtualMachineInstance, { type }: Note): boolean {
  return type !== "Warning" || vmi.metadata.deletionTimestamp === undefined;
}

export function announceChanges(
  vmi: VirtualMachineInstance,
  next: NodeVmStatus,
  { events, phaseTimings }: Pick<Deps, "events"> & PhaseTimingTexts,
): void {
  // Excludes interfaces that the guest created. Their status entries have no name.
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
    if (isReportable(vmi, note)) events.record(findEventObject(vmi), note);
  }
}

/** Builds patch tests for fields that virt-controller writes, so that the patch fails if virt-controller has changed the fields. */
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

const INTERFACES_PATH = "/status/interfaces";

/** Optional fields that are deleted from the status when they become unset. */
const REMOVABLE_FIELDS = ["blockedReason", "unlistedGuestInterfaces"] as const;

/** Builds the patch of the conditions. It tests the old value, because virt-controller also writes conditions. */
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
    ["phase", "pciePorts", "interfaces", "guestOSInfo", ...REMOVABLE_FIELDS] as const
  ).flatMap((field) =>
    next[field] === undefined || isEqual(current[field] ?? [], next[field])
      ? []
      : [{ op: "add" as const, path: `/status/${field}`, value: next[field] }],
  );
  const removed = REMOVABLE_FIELDS.filter(
    (field) => current[field] !== undefined && next[field] === undefined,
  ).map((field) => ({ op: "remove" as const, path: `/status/${field}` }));
  return [...changed, ...removed, ...listConditionChanges(current, next)];
}

/** Builds the change of `interfaceHistory`. The caller writes it only together with other changes, to limit the number of writes. */
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

/** Milliseconds until a postponed write is due; 0 if no write was postponed. */
type DelayMs = number;

/** Counts the write against the VMI's rate limit, and returns whether it must wait. A write that changes the phase never waits. */
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

async function writeChanges(
  vmi: VirtualMachineInstance,
  next: NodeVmStatus,
  deps: Deps,
): Promise<DelayMs> {
  const current = vmi.status ?? {};
  const operations = listChanges(current, next);
  const changesOnlyInterfaces =
    operations.length > 0 && operations.every(({ path }) => path === INTERFACES_PATH);
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
  deps.mutationCache.note(written);
  deps.phaseTimings.markWritten(vmi.metadata.uid ?? "");
  announceChanges(vmi, next, deps);
  return 0;
}

interface ReportExtras {
  readonly blockedReasons: Readonly<Record<string, BlockedReason>>;
  readonly guest?: BlockedReason | undefined;
}

/** Writes the status if it has changed. @throws AppError with KUBE_CONFLICT if virt-controller has changed the status */
export async function reportNodeVm(
  facts: NodeVmFacts,
  extras: ReportExtras,
  deps: Deps,
): Promise<DelayMs> {
  if (!mayNodeReport(facts)) return 0;
  const now = printTime(deps.clock.now());
  return writeChanges(facts.vmi, buildNodeVmStatus(facts, { ...extras, now }), deps);
}

/** Number of consecutive failures after which a VMI is reported as blocked. A restart of libvirt causes fewer failures. */
const REPORT_AFTER_FAILURES = 3;

function buildBlockedFields(
  vmi: VirtualMachineInstance,
  { error, failures }: { readonly error: unknown; readonly failures: number },
  now: string,
): Pick<NodeVmStatus, "blockedReason"> {
  const before = vmi.status?.blockedReason;
  if (failures >= REPORT_AFTER_FAILURES) {
    return guestBlockedField(vmi, guestBlockedReason(vmi, "LauncherUnreachable", error), now);
  }
  return before === undefined ? {} : { blockedReason: before };
}

/** Reports in the status that an unusable launcher blocks the VMI and its interfaces. */
export async function reportFailure(
  vmi: VirtualMachineInstance,
  failure: { readonly error: unknown; readonly failures: number },
  deps: Deps,
): Promise<void> {
  if (vmi.metadata.deletionTimestamp !== undefined) return;
  if (launcherOn(vmi, deps.nodeName)?.role !== "owner") return;
  // During a migration, an unreachable launcher is not reported, because the source's launcher exits after its guest has moved.
  if (openMigration(vmi) !== undefined) return;
  // Reports nothing while the cache lacks this process's last status, because that status may describe the failure more precisely.
  if (deps.mutationCache.isBehind(vmi)) return;
  const now = printTime(deps.clock.now());
  const blockedReason = buildBlockedFields(vmi, failure, now);
  const { bindings } = networkConfigOf(deps.kubevirts.list()[0]);
  const known = { now, bindings };
  const { phase, unlistedGuestInterfaces } = vmi.status ?? {};
  const ifaces =
    phase === "Running"
      ? { interfaces: [...buildUnreachableIfaces(vmi, failure.error, known)] }
      : {};
  const unlisted = unlistedGuestInterfaces === undefined ? {} : { unlistedGuestInterfaces };
  await writeChanges(vmi, { ...ifaces, ...unlisted, ...blockedReason }, deps);
}
