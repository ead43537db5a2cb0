// SPDX-License-Identifier: Apache-2.0
// Plans the target node's steps for an incoming guest. The guest resumes only after the source has stopped it.
import type { MigrationState } from "@patchbay/api";
import { isEqual } from "@patchbay/base";
import type { DomainInfo } from "../interfaces/hypervisor.ts";
import type { NewCondition } from "../status/conditions.ts";

export interface IncomingFacts {
  readonly migration: MigrationState;
  readonly isWired: boolean;
  /** State of the migration's relay on this node. `reported`: the VMI's status contains the relay's address and ports. */
  readonly relay: "none" | "unreported" | "reported";
  /** Domain in this node's pod. Undefined until libvirt receives the domain. */
  readonly domain: DomainInfo | undefined;
  readonly isIncoming: boolean;
  /** Whether the guest has stopped at the source. True if the source node reported the stop over the relay, or the source pod has ended. */
  readonly isOffAtSource: boolean;
  /** Whether the guest was paused at the source by a user or a disk error. */
  readonly wasPausedAtSource: boolean;
  readonly faults: readonly string[];
}

/** Step of an incoming migration, which runs on the target node. Every step is idempotent. */
export type IncomingStep =
  | { readonly kind: "startRelay" }
  | { readonly kind: "reportAddress" }
  | { readonly kind: "reportDetected" }
  /** Resumes the guest and announces it on its networks. */
  | { readonly kind: "resume" }
  /** Enables flooding to the guest's taps again and announces the guest on its networks. */
  | { readonly kind: "announce" }
  | { readonly kind: "reportReady" }
  | { readonly kind: "stopRelay" }
  /** Reports the differing devices that keep the guest paused until a user acts. An empty list clears an earlier report. */
  | { readonly kind: "reportFaults"; readonly faults: readonly string[] }
  | { readonly kind: "wait"; readonly for: "wiring" | "guest" | "source" | "person" | "end" };

function listen({ relay }: IncomingFacts): readonly IncomingStep[] {
  const relaySteps = relay === "none" ? [{ kind: "startRelay" } as const] : [];
  const report = relay === "reported" ? [] : [{ kind: "reportAddress" } as const];
  return [...relaySteps, ...report];
}

function prepare(facts: IncomingFacts): readonly IncomingStep[] {
  if (!facts.isWired) return [{ kind: "wait", for: "wiring" }];
  return [...listen(facts), { kind: "wait", for: "guest" }];
}

/** Plans the last steps when the guest runs on the target, or is paused there because it was paused at the source. */
function planFinish({ migration, relay }: IncomingFacts): readonly IncomingStep[] {
  const isReported = migration.targetNodeDomainReadyTimestamp !== undefined;
  const relaySteps = relay === "none" ? [] : [{ kind: "stopRelay" } as const];
  if (isReported) return [...relaySteps, { kind: "wait", for: "end" }];
  return [{ kind: "announce" }, { kind: "reportReady" }, ...relaySteps];
}

function reportFaults({ migration, faults }: IncomingFacts): readonly IncomingStep[] {
  const isReported = isEqual(migration.targetNodeDomainFaults ?? [], faults);
  return isReported ? [] : [{ kind: "reportFaults", faults }];
}

function planGuestResume(facts: IncomingFacts): readonly IncomingStep[] {
  const { migration, isIncoming, isOffAtSource, wasPausedAtSource, faults } = facts;
  if (migration.targetNodeDomainReadyTimestamp !== undefined) return planFinish(facts);
  if (isIncoming) return [{ kind: "wait", for: "source" }];
  // The source reports over the relay that the guest has stopped. `listen` starts the relay again if virt-handler was restarted.
  if (!isOffAtSource) return [...listen(facts), { kind: "wait", for: "source" }];
  if (faults.length > 0) return [...reportFaults(facts), { kind: "wait", for: "person" }];
  if (wasPausedAtSource) return [...reportFaults(facts), ...planFinish(facts)];
  const finalSteps = planFinish(facts).filter(({ kind }) => kind !== "announce");
  return [{ kind: "resume" }, ...reportFaults(facts), ...finalSteps];
}

export function planIncoming(facts: IncomingFacts): readonly IncomingStep[] {
  const { migration, domain } = facts;
  if (migration.failed === true) {
    const stopSteps = facts.relay === "none" ? [] : [{ kind: "stopRelay" } as const];
    return [...stopSteps, { kind: "wait", for: "end" }];
  }
  if (domain === undefined) return prepare(facts);
  const isDetected = migration.targetNodeDomainDetected === true;
  const detectionSteps = isDetected ? [] : [{ kind: "reportDetected" } as const];
  if (domain.state === "running") return [...detectionSteps, ...planFinish(facts)];
  if (domain.state === "paused") return [...detectionSteps, ...planGuestResume(facts)];
  return [...detectionSteps, { kind: "wait", for: "end" }];
}

/** Properties of a NIC that must match on the target. */
export interface IncomingNic {
  readonly mac: string;
  readonly tap: string | undefined;
  readonly pciAddress: string | undefined;
}

export interface IncomingDomain {
  readonly nics: readonly IncomingNic[];
  readonly paths: readonly string[];
}

function findNicFaults(
  incoming: IncomingNic,
  preparedNic: IncomingNic | undefined,
): readonly string[] {
  if (preparedNic === undefined)
    return [`a NIC with MAC ${incoming.mac}, which the VM does not have`];
  const parts = [
    ["tap", incoming.tap, preparedNic.tap],
    ["place", incoming.pciAddress, preparedNic.pciAddress],
  ] as const;
  return parts
    .filter(([, actual, expected]) => actual !== expected)
    .map(
      ([property, actual = "none"]) =>
        `the NIC with MAC ${incoming.mac} has another ${property}: ${actual}`,
    );
}

export function findIncomingFaults(
  incoming: IncomingDomain,
  prepared: IncomingDomain,
): readonly string[] {
  const findNic = ({ nics }: IncomingDomain, mac: string) => nics.find((nic) => nic.mac === mac);
  const missingNics = prepared.nics.filter(({ mac }) => findNic(incoming, mac) === undefined);
  const unexpectedPaths = incoming.paths.filter((path) => !prepared.paths.includes(path));
  return [
    ...incoming.nics.flatMap((nic) => findNicFaults(nic, findNic(prepared, nic.mac))),
    ...missingNics.map(({ mac }) => `no NIC with MAC ${mac}`),
    ...unexpectedPaths.map((path) => `${path}, which the VM does not use`),
  ].sort();
}

/** Condition type of a VMI and its migration. Set while the guest is paused on the target because of unexpected devices. */
export const GUEST_PAUSED_ON_TARGET = "GuestHeld";

/** Returns a message if the guest is paused because its devices differ from what the target prepared. Otherwise returns undefined. */
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
  return [{ type: GUEST_PAUSED_ON_TARGET, status: "True", reason: "ArrivedOtherwise", message }];
}
