// SPDX-License-Identifier: Apache-2.0
// What guests say of their links, as they last said it, and when they are asked again. Lost at a restart, after which they
// are asked anew; until then what was reported stays.
import type { GuestOsInfo, VirtualMachineInstance } from "@patchbay/api";
import {
  AGENT_CONNECTED,
  guestViewOf,
  isEqual,
  nextAskInMs,
  nextGuestView,
  readGuestLinks,
  readGuestSystem,
  type GuestView,
} from "@patchbay/core";
import { createTokenBuckets, printTime } from "@patchbay/kube";
import type { Clock, GuestInterface, GuestSystem } from "@patchbay/core/ports";

/** An answer of a guest's agent, or that there was none. */
export interface GuestAnswer {
  /** Undefined: it did not answer, which changes nothing that is known. */
  readonly links: readonly GuestInterface[] | undefined;
  /** The agent has the channel open and did not answer in time. Unset where it refused the question. */
  readonly isTimeout?: boolean;
  /** Of the VM's NICs, lower case with colons. */
  readonly macs: readonly string[];
  /** Undefined: it was not asked, or did not answer. */
  readonly system?: GuestSystem | undefined;
}

/** What the guests' agents said, by the uid of the VMI. */
export interface Guests {
  /** What is known of the guest's links. */
  viewOf(vmi: VirtualMachineInstance): GuestView;
  /** What is known of the guest's system; undefined: it is to be asked. A guest whose agent comes back may have another. */
  systemOf(uid: string): GuestOsInfo | undefined;
  /**
   * Milliseconds until the guest is to be asked, 0 for now; undefined: not before something changes. `listeners` says who
   * would answer, and for what; another text than at the last look is a change.
   */
  askInMs(uid: string, listeners: string): number | undefined;
  /** The guest was asked. True when something else is known now. */
  note(vmi: VirtualMachineInstance, answer: GuestAnswer): boolean;
  /** An agent has the channel open, or none has; one that does not answer counts as none. */
  noteListening(vmi: VirtualMachineInstance, isListening: boolean): void;
  /** Since when no agent has listened to a guest that was heard before, RFC 3339; told once it is long enough. */
  silentSince(vmi: VirtualMachineInstance): string | undefined;
  /** Milliseconds until that is to be told; undefined: it is, or an agent listens. */
  tellSilenceInMs(uid: string): number | undefined;
  /** The VMI is gone, and with it what its guest said. */
  forget(uid: string): void;
}

interface Asks {
  readonly listeners: string;
  readonly changedMs: number;
  readonly asks: number;
  readonly askedMs: number;
  readonly failures: number;
}

/** No agent listens any more. */
interface Silence {
  /** RFC 3339. */
  readonly since: string;
  readonly toldAtMs: number;
}

/** Questions in a row that an agent with an open channel has not answered. */
interface Unanswered {
  readonly count: number;
  /** Of the first, RFC 3339. */
  readonly since: string;
  readonly sinceMs: number;
}

/** So many questions in a row without an answer: the agent hangs. */
const HUNG_AFTER_QUESTIONS = 2;
/** A guest that starts again is silent for a while, and nobody needs to know. */
const SILENCE_TOLD_AFTER_MS = 60_000;
/** For an agent that comes and goes all the time: so many questions at once, then one in so many milliseconds. */
const QUESTIONS = { burst: 12, refillMs: 30_000 };

function uidOf({ metadata }: VirtualMachineInstance): string {
  return metadata.uid ?? "";
}

/** What is reported of a view; how often something was left out is not. */
function shownOf({ nics, others }: GuestView): unknown {
  const shown = [...nics.values(), ...others].map(({ mac, name, ipv4, ipv6 }) => [
    mac,
    name,
    ipv4.value,
    ipv6.value,
  ]);
  return shown;
}

class KnownGuests implements Guests {
  readonly #clock: Clock;
  readonly #asks = new Map<string, Asks>();
  readonly #views = new Map<string, GuestView>();
  readonly #systems = new Map<string, GuestOsInfo>();
  readonly #silences = new Map<string, Silence>();
  readonly #unanswered = new Map<string, Unanswered>();
  readonly #questions;

  constructor(clock: Clock) {
    this.#clock = clock;
    this.#questions = createTokenBuckets(clock, QUESTIONS);
  }

  viewOf(vmi: VirtualMachineInstance): GuestView {
    return this.#views.get(uidOf(vmi)) ?? guestViewOf(vmi.status?.interfaces ?? []);
  }

  systemOf(uid: string): GuestOsInfo | undefined {
    return this.#systems.get(uid);
  }

  askInMs(uid: string, listeners: string): number | undefined {
    const nowMs = this.#clock.monotonicMs();
    const known = this.#asks.get(uid);
    const begun = { listeners, changedMs: nowMs, asks: 0, askedMs: nowMs, failures: 0 };
    const history = known?.listeners === listeners ? known : begun;
    this.#asks.set(uid, history);
    if (listeners === "") return undefined;
    const dueInMs = nextAskInMs({
      ...history,
      changedAgoMs: nowMs - history.changedMs,
      askedAgoMs: nowMs - history.askedMs,
    });
    return dueInMs === 0 && !this.#questions.has(uid) ? QUESTIONS.refillMs : dueInMs;
  }

  note(vmi: VirtualMachineInstance, { links, macs, system, isTimeout }: GuestAnswer): boolean {
    const uid = uidOf(vmi);
    const nowMs = this.#clock.monotonicMs();
    this.#questions.take(uid);
    const history = this.#asks.get(uid);
    if (history !== undefined) {
      const failures = links === undefined ? history.failures + 1 : 0;
      this.#asks.set(uid, { ...history, asks: history.asks + 1, askedMs: nowMs, failures });
    }
    if (isTimeout === true) return this.#noteTimeout(uid);
    if (links === undefined) return false;
    this.#unanswered.delete(uid);
    const wasSilent = this.#silences.has(uid);
    const before = this.viewOf(vmi);
    const view = nextGuestView(before, readGuestLinks(links), { macs, nowMs });
    this.#views.set(uid, view);
    if (system !== undefined) this.#systems.set(uid, readGuestSystem(system));
    return wasSilent || system !== undefined || !isEqual(shownOf(before), shownOf(view));
  }

  /** True when the agent hangs from now on. */
  #noteTimeout(uid: string): boolean {
    const before = this.#unanswered.get(uid) ?? {
      count: 0,
      since: printTime(this.#clock.now()),
      sinceMs: this.#clock.monotonicMs(),
    };
    const count = before.count + 1;
    this.#unanswered.set(uid, { ...before, count });
    return count === HUNG_AFTER_QUESTIONS;
  }

  noteListening(vmi: VirtualMachineInstance, isListening: boolean): void {
    const uid = uidOf(vmi);
    if (!isListening) this.#unanswered.delete(uid);
    const isHung = isListening && this.#isHung(vmi);
    if (isHung || !isListening) this.#systems.delete(uid);
    const isSilent = isListening ? isHung : this.#wasHeard(vmi);
    if (!isSilent) this.#silences.delete(uid);
    else if (!this.#silences.has(uid)) this.#silences.set(uid, this.#beginSilence(vmi));
  }

  #beginSilence(vmi: VirtualMachineInstance): Silence {
    const nowMs = this.#clock.monotonicMs();
    const reported = reportedSilence(vmi);
    if (reported !== undefined) return { since: reported, toldAtMs: nowMs };
    const now = { since: printTime(this.#clock.now()), sinceMs: nowMs };
    const { since, sinceMs } = this.#unanswered.get(uidOf(vmi)) ?? now;
    return { since, toldAtMs: sinceMs + SILENCE_TOLD_AFTER_MS };
  }

  /** A process that has heard nothing yet goes by what the one before reported. */
  #isHung(vmi: VirtualMachineInstance): boolean {
    const uid = uidOf(vmi);
    const unanswered = this.#unanswered.get(uid);
    if (unanswered !== undefined && unanswered.count >= HUNG_AFTER_QUESTIONS) return true;
    return !this.#views.has(uid) && reportedSilence(vmi) !== undefined;
  }

  silentSince(vmi: VirtualMachineInstance): string | undefined {
    const silence = this.#silences.get(uidOf(vmi));
    return silence === undefined || this.#leftMs(silence) > 0 ? undefined : silence.since;
  }

  tellSilenceInMs(uid: string): number | undefined {
    const silence = this.#silences.get(uid);
    const leftMs = silence === undefined ? 0 : this.#leftMs(silence);
    return leftMs > 0 ? leftMs : undefined;
  }

  #wasHeard(vmi: VirtualMachineInstance): boolean {
    const isTold = (vmi.status?.conditions ?? []).some(({ type }) => type === AGENT_CONNECTED);
    return isTold || this.viewOf(vmi).nics.size > 0;
  }

  #leftMs({ toldAtMs }: Silence): number {
    return toldAtMs - this.#clock.monotonicMs();
  }

  forget(uid: string): void {
    this.#asks.delete(uid);
    this.#views.delete(uid);
    this.#systems.delete(uid);
    this.#silences.delete(uid);
    this.#unanswered.delete(uid);
    this.#questions.forget(uid);
  }
}

/** As another process reported it. */
function reportedSilence({ status }: VirtualMachineInstance): string | undefined {
  return (status?.interfaces ?? []).flatMap(({ addressInfo }) => addressInfo?.silentSince ?? [])[0];
}

/** No guest was heard yet. */
export function createGuests(clock: Clock): Guests {
  return new KnownGuests(clock);
}
