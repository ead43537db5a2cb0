// SPDX-License-Identifier: Apache-2.0
// State of this node's migrations. It is not persisted.
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
  /** Source only: state or result of the libvirt call that migrates the guest. */
  call: OutgoingFacts["call"];
  /** Source only: last job statistics; undefined if no job runs. */
  job: JobStats | undefined;
  /** Source only: monotonic time at which the transfer last made progress, in milliseconds. */
  progressMs: number | undefined;
  reportedMs: number | undefined;
  /** Source only: whether the transfer has made no progress for longer than allowed. */
  isStalled = false;
  /** Source only: whether the downtime limit was lifted, because the migration took too long. */
  isDisrupted = false;
  /** Target only: whether the source's node has reported that the guest has left. */
  isOffAtSource = false;
  /** Target only: files and sockets that the domain is expected to use; undefined until computed. */
  expectedPaths: readonly string[] | undefined;
  /** Target only: links and MACs of the guest; undefined until read. */
  guestNetwork: GuestNetwork | undefined;
  /** Source only: whether the launcher pod's links no longer use the guest's MACs, so that the target can use them. */
  hasReleasedMacs = false;
  /** Source only: whether the target's node has acknowledged, over the current relay, the report that the guest has left. */
  isDepartureConfirmed = false;
  #relay: Relay | undefined;
  #endpoint: RelayEndpoint | undefined;

  constructor(migrationUid: string) {
    this.migrationUid = migrationUid;
  }

  get relay(): Relay | undefined {
    return this.#relay;
  }

  connectsTo(endpoint: RelayEndpoint): boolean {
    return this.#relay !== undefined && isEqual(this.#endpoint, endpoint);
  }

  /** Replaces the relay. Calls `onChange` when the new relay ends, and when it receives the report that the guest has left the source. */
  useRelay(relay: Relay, endpoint: RelayEndpoint | undefined, onChange: () => void): void {
    this.stopRelay();
    this.#relay = relay;
    this.#endpoint = endpoint;
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
    this.#endpoint = undefined;
    this.isDepartureConfirmed = false;
  }
}

/** Migrations that this node takes part in, at most one for each VMI. */
export interface MigrationRuns {
  /** Returns the run of the VMI's open migration, or undefined if no migration is open. Deletes the run of an earlier migration. */
  find(vmi: VirtualMachineInstance): MigrationRun | undefined;
  forget(uid: string): void;
  findJob(uid: string): JobStats | undefined;
  forgetAll(): void;
}

class TrackedRuns implements MigrationRuns {
  readonly #runs = new Map<string, MigrationRun>();

  find(vmi: VirtualMachineInstance): MigrationRun | undefined {
    const { uid = "" } = vmi.metadata;
    const { migrationUid } = openMigration(vmi) ?? {};
    const previous = this.#runs.get(uid);
    if (previous?.migrationUid !== migrationUid) this.forget(uid);
    if (migrationUid === undefined) return undefined;
    const run = this.#runs.get(uid) ?? new MigrationRun(migrationUid);
    this.#runs.set(uid, run);
    return run;
  }

  forget(uid: string): void {
    this.#runs.get(uid)?.stopRelay();
    this.#runs.delete(uid);
  }

  findJob(uid: string): JobStats | undefined {
    return this.#runs.get(uid)?.job;
  }

  forgetAll(): void {
    for (const uid of [...this.#runs.keys()]) this.forget(uid);
  }
}

export function createMigrationRuns(): MigrationRuns {
  return new TrackedRuns();
}
