// SPDX-License-Identifier: Apache-2.0
// What this process has begun for the guests that leave this node or come to it. Lost at a restart, with the relays: the next process
// looks at the domains, and begins nothing a second time.
import {
  isEqual,
  openMigration,
  type announcedNics,
  type arrivedWirings,
  type DepartureFacts,
} from "@patchbay/core";
import type { VirtualMachineInstance } from "@patchbay/api";
import type { JobStats } from "@patchbay/core/ports";
import type { RelayPlace, Relay } from "../relays/relays.ts";

/** What stands between the pod and a guest that is here, and as what networks know it. */
export interface Surroundings {
  readonly wirings: ReturnType<typeof arrivedWirings>;
  readonly nics: ReturnType<typeof announcedNics>;
}

/** One migration on this node. */
export class Move {
  readonly migrationUid: string;
  /** Of the node that it leaves: how its call ended, or that it goes on. */
  call: DepartureFacts["call"];
  /** The same: its job as libvirt told it last; undefined: none was seen, or it is over. */
  job: JobStats | undefined;
  /** When more was seen to have come over last, and when that was told, monotonic milliseconds. */
  progressMs: number | undefined;
  toldMs: number | undefined;
  /** Nothing came over for longer than it may. */
  isStalled = false;
  /** It has taken all its time, and goes whatever is left of it. */
  isDisrupted = false;
  /** Of the node that it comes to: the source's node has said that the guest is off there. */
  isOffAtSource = false;
  /** The same: files and sockets that its domain is to use; undefined: nobody has asked yet. */
  expectedPaths: readonly string[] | undefined;
  /** The same: what is around the guest once it is here; undefined: nobody has looked yet. */
  surroundings: Surroundings | undefined;
  /** Of the node that it leaves: nothing of its pod is taken for the guest any more. */
  isReleased = false;
  /** Of the node that it leaves: the target's has heard that, by the relay that runs. */
  isHeard = false;
  #relay: Relay | undefined;
  #leadsTo: RelayPlace | undefined;

  constructor(migrationUid: string) {
    this.migrationUid = migrationUid;
  }

  /** The relay that runs; undefined: none does. */
  get relay(): Relay | undefined {
    return this.#relay;
  }

  /** Whether the relay that runs leads to that place. */
  leadsTo(place: RelayPlace): boolean {
    return this.#relay !== undefined && isEqual(this.#leadsTo, place);
  }

  /** From now on that relay is the one; `changed` is called when it has ended, and when the source's node has spoken. */
  follow(relay: Relay, leadsTo: RelayPlace | undefined, changed: () => void): void {
    this.stopRelay();
    this.#relay = relay;
    this.#leadsTo = leadsTo;
    relay.onWord(({ kind }) => {
      if (kind !== "gone") return;
      this.isOffAtSource = true;
      changed();
    });
    void relay.ended.then(() => {
      if (this.#relay !== relay) return;
      this.stopRelay();
      changed();
    });
  }

  stopRelay(): void {
    this.#relay?.close();
    this.#relay = undefined;
    this.#leadsTo = undefined;
    this.isHeard = false;
  }
}

/** By the uid of the VMI, one at a time. */
export interface Moves {
  /** Of the migration that the VMI is in; undefined: it is in none, and what there was of one before is ended. */
  of(vmi: VirtualMachineInstance): Move | undefined;
  /** Nothing is left of it. */
  forget(uid: string): void;
  /** The job of the guest that leaves this node; undefined: it does not, or nothing was told of it. */
  jobOf(uid: string): JobStats | undefined;
  forgetAll(): void;
}

class KnownMoves implements Moves {
  readonly #moves = new Map<string, Move>();

  of(vmi: VirtualMachineInstance): Move | undefined {
    const { uid = "" } = vmi.metadata;
    const { migrationUid } = openMigration(vmi) ?? {};
    const known = this.#moves.get(uid);
    if (known?.migrationUid !== migrationUid) this.forget(uid);
    if (migrationUid === undefined) return undefined;
    const move = this.#moves.get(uid) ?? new Move(migrationUid);
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

/** Nothing has begun. */
export function createMoves(): Moves {
  return new KnownMoves();
}
