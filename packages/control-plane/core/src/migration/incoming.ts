// SPDX-License-Identifier: Apache-2.0
// Plans the target node's steps for an incoming guest. The guest resumes only if it is known to be off at the source and its
// devices match what was prepared.
import type { MigrationState } from "@patchbay/api";
import { isEqual } from "@patchbay/base";
import type { DomainInfo } from "../interfaces/hypervisor.ts";
import type { NewCondition } from "../status/conditions.ts";

export interface IncomingFacts {
  readonly migration: MigrationState;
  readonly isWired: boolean;
  /** The state of the relay: not started, listening, or listening with its address and ports in the status. */
  readonly relay: "none" | "unreported" | "reported";
  /** The domain in this node's pod. Undefined until libvirt receives one. */
  readonly domain: DomainInfo | undefined;
  /** Whether libvirt still receives the guest. */
  readonly isIncoming: boolean;
  /** Whether the guest is off at the source: the source node reported it over the relay, or the source pod has ended. */
  readonly isOffAtSource: boolean;
  /** Whether the guest was paused at the source, by its user or a disk error. */
  readonly staysPaused: boolean;
  readonly faults: readonly string[];
}

/** A step on the target node. Every step is idempotent. */
export type IncomingStep =
  | { readonly kind: "startRelay" }
  | { readonly kind: "reportAddress" }
  | { readonly kind: "reportDetected" }
  /** Resumes the guest, and welcomes it at the same time. */
  | { readonly kind: "resume" }
  /** Enables flooding to the guest's taps again, and announces the guest on its networks. */
  | { readonly kind: "welcome" }
  | { readonly kind: "reportReady" }
  | { readonly kind: "stopRelay" }
  /** Reports why the guest stays paused until a person decides. Empty faults clear an earlier report. */
  | { readonly kind: "reportFaults"; readonly faults: readonly string[] }
  | { readonly kind: "wait"; readonly for: "wiring" | "guest" | "source" | "person" | "end" };

function listen({ relay }: IncomingFacts): readonly IncomingStep[] {
  const start = relay === "none" ? [{ kind: "startRelay" } as const] : [];
  const report = relay === "reported" ? [] : [{ kind: "reportAddress" } as const];
  return [...start, ...report];
}

function prepare(facts: IncomingFacts): readonly IncomingStep[] {
  if (!facts.isWired) return [{ kind: "wait", for: "wiring" }];
  return [...listen(facts), { kind: "wait", for: "guest" }];
}

/** Plans the steps for a guest that runs, or stays paused as it was at the source. */
function finish({ migration, relay }: IncomingFacts): readonly IncomingStep[] {
  const isReported = migration.targetNodeDomainReadyTimestamp !== undefined;
  const end = relay === "none" ? [] : [{ kind: "stopRelay" } as const];
  if (isReported) return [...end, { kind: "wait", for: "end" }];
  return [{ kind: "welcome" }, { kind: "reportReady" }, ...end];
}

function reportFaults({ migration, faults }: IncomingFacts): readonly IncomingStep[] {
  const isReported = isEqual(migration.targetNodeDomainFaults ?? [], faults);
  return isReported ? [] : [{ kind: "reportFaults", faults }];
}

function resumeGuest(facts: IncomingFacts): readonly IncomingStep[] {
  const { migration, isIncoming, isOffAtSource, staysPaused, faults } = facts;
  if (migration.targetNodeDomainReadyTimestamp !== undefined) return finish(facts);
  if (isIncoming) return [{ kind: "wait", for: "source" }];
  // A restarted virt-handler has lost the relay and the source's report.
  if (!isOffAtSource) return [...listen(facts), { kind: "wait", for: "source" }];
  if (faults.length > 0) return [...reportFaults(facts), { kind: "wait", for: "person" }];
  if (staysPaused) return [...reportFaults(facts), ...finish(facts)];
  const rest = finish(facts).filter(({ kind }) => kind !== "welcome");
  return [{ kind: "resume" }, ...reportFaults(facts), ...rest];
}

export function planIncoming(facts: IncomingFacts): readonly IncomingStep[] {
  const { migration, domain } = facts;
  if (migration.failed === true) {
    const stop = facts.relay === "none" ? [] : [{ kind: "stopRelay" } as const];
    return [...stop, { kind: "wait", for: "end" }];
  }
  if (domain === undefined) return prepare(facts);
  const isDetected = migration.targetNodeDomainDetected === true;
  const detect = isDetected ? [] : [{ kind: "reportDetected" } as const];
  if (domain.state === "running") return [...detect, ...finish(facts)];
  if (domain.state === "paused") return [...detect, ...resumeGuest(facts)];
  return [...detect, { kind: "wait", for: "end" }];
}

/** A NIC's properties that must match on the target. */
export interface IncomingNic {
  readonly mac: string;
  /** Name of the tap, or path of the vhost-user socket. */
  readonly tap: string | undefined;
  readonly pciAddress: string | undefined;
}

export interface IncomingDomain {
  readonly nics: readonly IncomingNic[];
  readonly paths: readonly string[];
}

function nicFaults(incoming: IncomingNic, wired: IncomingNic | undefined): readonly string[] {
  if (wired === undefined) return [`a NIC with MAC ${incoming.mac}, which the VM does not have`];
  const parts = [
    ["tap", incoming.tap, wired.tap],
    ["place", incoming.pciAddress, wired.pciAddress],
  ] as const;
  return parts
    .filter(([, has, wants]) => has !== wants)
    .map(([what, has = "none"]) => `the NIC with MAC ${incoming.mac} has another ${what}: ${has}`);
}

export function findIncomingFaults(
  incoming: IncomingDomain,
  wired: IncomingDomain,
): readonly string[] {
  const find = ({ nics }: IncomingDomain, mac: string) => nics.find((nic) => nic.mac === mac);
  const missing = wired.nics.filter(({ mac }) => find(incoming, mac) === undefined);
  const foreign = incoming.paths.filter((path) => !wired.paths.includes(path));
  return [
    ...incoming.nics.flatMap((nic) => nicFaults(nic, find(wired, nic.mac))),
    ...missing.map(({ mac }) => `no NIC with MAC ${mac}`),
    ...foreign.map((path) => `${path}, which the VM does not use`),
  ].sort();
}

/** Condition type of a VMI and its migration while the guest is paused on the target because its devices differ. */
export const GUEST_HELD_CONDITION = "GuestHeld";

/** Describes the differing devices that keep the guest paused, and what to do. Undefined if there are none. */
export function findPausedGuestMessage(state: MigrationState | undefined): string | undefined {
  const { targetNodeDomainFaults: faults = [], targetNode = "" } = state ?? {};
  if (faults.length === 0) return undefined;
  return `the guest is paused on node ${targetNode}, because its devices differ from what was prepared: ${faults.join("; ")}. It resumes when they match; otherwise restart the VM`;
}

export function buildPausedGuestCondition(
  state: MigrationState | undefined,
): readonly NewCondition[] {
  const message = findPausedGuestMessage(state);
  if (message === undefined) return [];
  return [{ type: GUEST_HELD_CONDITION, status: "True", reason: "ArrivedOtherwise", message }];
}
