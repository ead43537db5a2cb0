// SPDX-License-Identifier: Apache-2.0
// This process's state of migrations from and to this node. A restart loses it together with the relays; the new process reads the
// domains and starts nothing twice.
import { isEqual } from "@patchbay/base";
import {
  openMigration,
  type listAnnouncedNics,
  type listIncomingWirings,
  type OutgoingFacts,
} from "@patchbay/core/migration";
import type { VirtualMachineInstance } from "@patchbay/api";
import type { JobStats } from "@patchbay/core/interfaces";
import type { RelayEndpoint, Relay } from "../relays/relays.ts";

export interface GuestNetwork {
  readonly wirings: ReturnType<typeof listIncomingWirings>;
  readonly nics: ReturnType<typeof listAnnouncedNics>;
}

export class MigrationRun {
  readonly migrationUid: string;
  /** Source only: whether the libvirt call runs, or how it ended. */
  call: OutgoingFacts["call"];
  /** Source only: last job statistics; undefined without a running job. */
  job: JobStats | undefined;
  /** Source only: when the transferred bytes last changed, monotonic milliseconds. */
  progressMs: number | undefined;
  reportedMs: number | undefined;
  /** Source only: no bytes were transferred for longer than allowed. */
  isStalled = false;
  /** Source only: the time limit has passed, so the downtime is no longer limited. */
  isDisrupted = false;
  /** Target only: the source's node has reported that the guest has left. */
  isOffAtSource = false;
  /** Target only: files and sockets that the domain is expected to use; undefined until computed. */
  expectedPaths: readonly string[] | undefined;
  /** Target only: undefined until read. */
  guestNetwork: GuestNetwork | undefined;
  /** Source only: the pod no longer holds the guest's MACs. */
  isReleased = false;
  /** Source only: the target's node has confirmed through the current relay that it knows of the departure. */
  isConfirmed = false;
  #relay: Relay | undefined;
  #leadsTo: RelayEndpoint | undefined;

  constructor(migrationUid: string) {
    this.migrationUid = migrationUid;
  }

  get relay(): Relay | undefined {
    return this.#relay;
  }

  /** Whether the running relay connects to that endpoint. */
  leadsTo(endpoint: RelayEndpoint): boolean {
    return this.#relay !== undefined && isEqual(this.#leadsTo, endpoint);
  }

  /** Uses this relay from now on. Calls `changed` when the relay ends or the source's node reports that the guest has left. */
  useRelay(relay: Relay, leadsTo: RelayEndpoint | undefined, onChange: () => void): void {
    this.stopRelay();
    this.#relay = relay;
    this.#leadsTo = leadsTo;
    relay.onMessage(({ kind }) => {
      if (kind !== "gone") return;
      this.isOffAtSource = true;
      onChange();
    });
    void relay.ended.then(() => {
      if (this.#relay !== relay) return;
      this.stopRelay();
      onChange();
    });
  }

  stopRelay(): void {
    this.#relay?.close();
    this.#relay = undefined;
    this.#leadsTo = undefined;
    this.isConfirmed = false;
  }
}

/** At most one migration for each VMI uid. */
export interface MigrationRuns {
  /** State of the VMI's open migration; undefined without one. Drops the state of an earlier migration. */
  of(vmi: VirtualMachineInstance): MigrationRun | undefined;
  forget(uid: string): void;
  /** Job statistics of a guest that leaves this node; undefined without any. */
  jobOf(uid: string): JobStats | undefined;
  forgetAll(): void;
}

class TrackedRuns implements MigrationRuns {
  readonly #moves = new Map<string, MigrationRun>();

  of(vmi: VirtualMachineInstance): MigrationRun | undefined {
    const { uid = "" } = vmi.metadata;
    const { migrationUid } = openMigration(vmi) ?? {};
    const known = this.#moves.get(uid);
    if (known?.migrationUid !== migrationUid) this.forget(uid);
    if (migrationUid === undefined) return undefined;
    const move = this.#moves.get(uid) ?? new MigrationRun(migrationUid);
    this.#moves.set(uid, move);
    return move;
  }

  forget(uid: string): void {
    this.#moves.get(uid)?.stopRelay();
    this.#moves.delete(uid);
  }

  jobOf(uid: string): JobStats | undefined {
    return this.#moves.get(uid)?.job;
  }

  forgetAll(): void {
    for (const uid of [...this.#moves.keys()]) this.forget(uid);
  }
}

export function createMigrationRuns(): MigrationRuns {
  return new TrackedRuns();
}
