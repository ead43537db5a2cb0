// SPDX-License-Identifier: Apache-2.0
// Listens for announced addresses at the taps of this node's guests. A restarted process restores the addresses from the VMI's status.
import type { VirtualMachineInstance } from "@patchbay/api";
import { isEqual, messageOf, type Clock, type Logger } from "@patchbay/base";
import {
  buildAnnouncementFilter,
  findNextEndMs,
  learnAddresses,
  type LearnedAddress,
  type LearnedOnNic,
  type ListenedNic,
  listReportedLearned,
  readAddressClaim,
  removeExpired,
  restoreLearned,
} from "@patchbay/core/guest";
import type {
  FrameWatch,
  NetnsHandle,
  WatchedFrame,
  WatchedFrames,
} from "@patchbay/core/interfaces";

export interface LearnedAddresses {
  /** Returns the addresses by interface; before the first `listen`, those in the VMI's status. */
  list(vmi: VirtualMachineInstance): ReadonlyMap<string, LearnedOnNic>;
  /**
   * Listens on exactly these NICs of the VMI, and drops the addresses of other NICs. Only logs failures. The next call retries them.
   */
  listen(vmi: VirtualMachineInstance, nics: readonly ListenedNic[], options: ListenOptions): void;
  /** Returns the milliseconds until an address is removed; undefined if none is known. */
  nextEndInMs(uid: string): number | undefined;
  forget(uid: string): void;
  forgetAll(): void;
}

export interface ListenOptions {
  readonly netns: NetnsHandle;
  /** Ends the listening. The addresses remain for a later `listen` on the same NICs. */
  readonly signal: AbortSignal;
  /** Called when an address is added or removed. */
  readonly onChange: () => void;
}

interface Listening {
  readonly nic: ListenedNic;
  readonly stop: AbortController;
  /** Aborted when the listening has ended. */
  readonly ended: AbortSignal;
  watched: WatchedFrames | undefined;
  known: readonly LearnedAddress[];
}

interface LearnedAddressesOptions {
  readonly frameWatch: FrameWatch;
  readonly clock: Clock;
  readonly log: Logger;
}

function listAddresses({ known }: Listening): readonly string[] {
  return known.map(({ address }) => address);
}

class NodeLearnedAddresses implements LearnedAddresses {
  readonly #options: LearnedAddressesOptions;
  readonly #vmis = new Map<string, Map<string, Listening>>();

  constructor(options: LearnedAddressesOptions) {
    this.#options = options;
  }

  list({ metadata, status }: VirtualMachineInstance): ReadonlyMap<string, LearnedOnNic> {
    const listening = this.#vmis.get(metadata.uid ?? "");
    if (listening === undefined) return listReportedLearned(status?.interfaces ?? []);
    const nowMs = this.#options.clock.monotonicMs();
    return new Map(
      [...listening.values()].map((entry) => {
        entry.known = removeExpired(entry.known, nowMs);
        const { name, podInterfaceName } = entry.nic;
        return [name, { podInterfaceName, addresses: listAddresses(entry) }];
      }),
    );
  }

  listen(vmi: VirtualMachineInstance, nics: readonly ListenedNic[], options: ListenOptions): void {
    const { uid = "" } = vmi.metadata;
    const previous = this.#vmis.get(uid);
    const restored = previous === undefined ? this.list(vmi) : undefined;
    const current = new Map<string, Listening>();
    for (const nic of nics) {
      const found = previous?.get(nic.name);
      const entry = found !== undefined && isEqual(found.nic, nic) ? found : undefined;
      const known = entry?.known ?? this.#restore(nic, restored?.get(nic.name));
      const isListening = entry?.ended.aborted === false;
      current.set(nic.name, isListening ? entry : this.#start({ nic, known }, options));
    }
    for (const [name, entry] of previous ?? []) {
      if (current.get(name) !== entry) entry.stop.abort();
    }
    this.#vmis.set(uid, current);
  }

  #restore(nic: ListenedNic, reported: LearnedOnNic | undefined): readonly LearnedAddress[] {
    const isSameNic = reported?.podInterfaceName === nic.podInterfaceName;
    return isSameNic ? restoreLearned(reported.addresses, this.#options.clock.monotonicMs()) : [];
  }

  #start(
    { nic, known }: Pick<Listening, "nic" | "known">,
    { netns, signal, onChange }: ListenOptions,
  ): Listening {
    const stop = new AbortController();
    const ended = AbortSignal.any([stop.signal, signal]);
    const entry: Listening = { nic, stop, ended, watched: undefined, known };
    const filter = buildAnnouncementFilter(nic.mac, listAddresses(entry));
    const onFrames = (frames: readonly WatchedFrame[]): void => {
      if (this.#learn(entry, frames)) onChange();
    };
    this.#try(entry, () => {
      const link = { netns, name: nic.tapName, filter };
      entry.watched = this.#options.frameWatch.watch(link, onFrames, ended);
    });
    return entry;
  }

  /** If the call fails, ends the listening and logs the reason. */
  #try({ nic, stop }: Listening, call: () => void): void {
    try {
      call();
    } catch (error) {
      stop.abort();
      const reason = messageOf(error);
      this.#options.log.warn("cannot learn the addresses of a NIC", { tap: nic.tapName, reason });
    }
  }

  /** Returns whether the addresses changed. */
  #learn(entry: Listening, frames: readonly WatchedFrame[]): boolean {
    const { mac } = entry.nic;
    const claims = frames.flatMap((frame) => readAddressClaim(frame, mac) ?? []);
    const before = listAddresses(entry);
    entry.known = learnAddresses(entry.known, claims, this.#options.clock.monotonicMs());
    const addresses = listAddresses(entry);
    if (isEqual(before, addresses)) return false;
    this.#try(entry, () => entry.watched?.setFilter(buildAnnouncementFilter(mac, addresses)));
    return true;
  }

  nextEndInMs(uid: string): number | undefined {
    const ends = [...(this.#vmis.get(uid)?.values() ?? [])].flatMap(
      ({ known }) => findNextEndMs(known) ?? [],
    );
    if (ends.length === 0) return undefined;
    return Math.max(0, Math.min(...ends) - this.#options.clock.monotonicMs());
  }

  forget(uid: string): void {
    for (const { stop } of this.#vmis.get(uid)?.values() ?? []) stop.abort();
    this.#vmis.delete(uid);
  }

  forgetAll(): void {
    for (const uid of [...this.#vmis.keys()]) this.forget(uid);
  }
}

export function createLearnedAddresses(options: LearnedAddressesOptions): LearnedAddresses {
  return new NodeLearnedAddresses(options);
}
