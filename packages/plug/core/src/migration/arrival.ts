// SPDX-License-Identifier: Apache-2.0
// What does the node do that a guest comes to? Pure. It lets the guest go on only when it is known to be off where it was, and when
// what has come is what was wired.
import type { MigrationState } from "@patchbay/api";
import { isEqual } from "../equal.ts";
import type { DomainInfo } from "../ports/index.ts";

/** What is known at the target. */
export interface ArrivalFacts {
  /** Open, and to this node. */
  readonly migration: MigrationState;
  /** Whether each iface that the guest has is wired in this node's pod. */
  readonly isWired: boolean;
  /** Whether the relay listens, and its address and ports are told. */
  readonly relay: "none" | "untold" | "told";
  /** The domain in this node's pod; undefined: there is none yet. */
  readonly domain: DomainInfo | undefined;
  /** Whether a move into it goes on. */
  readonly isComing: boolean;
  /** Whether the guest is known to be off at the source: its node has said so over the relay, or its pod has ended. */
  readonly isOffAtSource: boolean;
  /** Whether the guest stood still where it was, as its user or a disk wanted it to. */
  readonly staysPaused: boolean;
  /** What has come that was not wired here, for people: see {@link arrivalFaults}. */
  readonly faults: readonly string[];
}

/** One step; repeated, it does no harm. */
export type ArrivalStep =
  | { readonly kind: "startRelay" }
  | { readonly kind: "reportAddress" }
  | { readonly kind: "reportDetected" }
  /** It goes on, while it is welcomed. */
  | { readonly kind: "resume" }
  /** Frames to unknown receivers come to the guest's taps again, and networks are told that it is here. */
  | { readonly kind: "welcome" }
  | { readonly kind: "reportReady" }
  | { readonly kind: "stopRelay" }
  /** It stays paused, and that is told: a person decides. None: it no longer does. */
  | { readonly kind: "reportFaults"; readonly faults: readonly string[] }
  | { readonly kind: "wait"; readonly for: "wiring" | "guest" | "source" | "person" | "end" };

/** The source's node can speak to this one. */
function listen({ relay }: ArrivalFacts): readonly ArrivalStep[] {
  const start = relay === "none" ? [{ kind: "startRelay" } as const] : [];
  const tell = relay === "told" ? [] : [{ kind: "reportAddress" } as const];
  return [...start, ...tell];
}

function makeReady(facts: ArrivalFacts): readonly ArrivalStep[] {
  if (!facts.isWired) return [{ kind: "wait", for: "wiring" }];
  return [...listen(facts), { kind: "wait", for: "guest" }];
}

/** After the guest runs, whoever made it, or stands still as it did. */
function finish({ migration, relay }: ArrivalFacts): readonly ArrivalStep[] {
  const isTold = migration.targetNodeDomainReadyTimestamp !== undefined;
  const end = relay === "none" ? [] : [{ kind: "stopRelay" } as const];
  if (isTold) return [...end, { kind: "wait", for: "end" }];
  return [{ kind: "welcome" }, { kind: "reportReady" }, ...end];
}

function tellFaults({ migration, faults }: ArrivalFacts): readonly ArrivalStep[] {
  const isTold = isEqual(migration.targetNodeDomainFaults ?? [], faults);
  return isTold ? [] : [{ kind: "reportFaults", faults }];
}

function letGoOn(facts: ArrivalFacts): readonly ArrivalStep[] {
  const { migration, isComing, isOffAtSource, staysPaused, faults } = facts;
  if (migration.targetNodeDomainReadyTimestamp !== undefined) return finish(facts);
  if (isComing) return [{ kind: "wait", for: "source" }];
  // The relay may have ended with the process that had it, and the source's word with it.
  if (!isOffAtSource) return [...listen(facts), { kind: "wait", for: "source" }];
  if (faults.length > 0) return [...tellFaults(facts), { kind: "wait", for: "person" }];
  if (staysPaused) return [...tellFaults(facts), ...finish(facts)];
  const rest = finish(facts).filter(({ kind }) => kind !== "welcome");
  return [{ kind: "resume" }, ...tellFaults(facts), ...rest];
}

/** The steps, in order. */
export function planArrival(facts: ArrivalFacts): readonly ArrivalStep[] {
  const { migration, domain } = facts;
  if (migration.failed === true) {
    const stop = facts.relay === "none" ? [] : [{ kind: "stopRelay" } as const];
    return [...stop, { kind: "wait", for: "end" }];
  }
  if (domain === undefined) return makeReady(facts);
  const isDetected = migration.targetNodeDomainDetected === true;
  const detect = isDetected ? [] : [{ kind: "reportDetected" } as const];
  if (domain.state === "running") return [...detect, ...finish(facts)];
  if (domain.state === "paused") return [...detect, ...letGoOn(facts)];
  return [...detect, { kind: "wait", for: "end" }];
}

/** A NIC as the guest has it, by what must be the same wherever it runs, and its tap, which is this node's. */
export interface ArrivedNic {
  readonly mac: string;
  /** Or the path of the socket at which it speaks vhost-user. */
  readonly tap: string | undefined;
  /** Where it is, as text. */
  readonly pciAddress: string | undefined;
}

/** What a domain uses of its launcher. */
export interface ArrivedDomain {
  readonly nics: readonly ArrivedNic[];
  /** Paths of files and sockets. */
  readonly paths: readonly string[];
}

function nicFaults(came: ArrivedNic, wired: ArrivedNic | undefined): readonly string[] {
  if (wired === undefined) return [`a NIC with MAC ${came.mac}, which the VM does not have`];
  const parts = [
    ["tap", came.tap, wired.tap],
    ["place", came.pciAddress, wired.pciAddress],
  ] as const;
  return parts
    .filter(([, has, wants]) => has !== wants)
    .map(([what, has = "none"]) => `the NIC with MAC ${came.mac} has another ${what}: ${has}`);
}

/** How what has come differs from what this node has wired and would have defined; none: it does not. */
export function arrivalFaults(came: ArrivedDomain, wired: ArrivedDomain): readonly string[] {
  const find = ({ nics }: ArrivedDomain, mac: string) => nics.find((nic) => nic.mac === mac);
  const missing = wired.nics.filter(({ mac }) => find(came, mac) === undefined);
  const foreign = came.paths.filter((path) => !wired.paths.includes(path));
  return [
    ...came.nics.flatMap((nic) => nicFaults(nic, find(wired, nic.mac))),
    ...missing.map(({ mac }) => `no NIC with MAC ${mac}`),
    ...foreign.map((path) => `${path}, which the VM does not use`),
  ].sort();
}
