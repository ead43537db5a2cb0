// SPDX-License-Identifier: Apache-2.0
// Reports of guest agents, and the times of the next queries. A restarted process restores the reports from the VMI's status.
import type { GuestOsInfo, VirtualMachineInstance } from "@patchbay/api";
import { AGENT_CONNECTED } from "@patchbay/core/status";
import {
  restoreGuestView,
  computeAgentPollDelayMs,
  updateGuestView,
  readGuestLinks,
  readGuestSystem,
  type GuestView,
} from "@patchbay/core/guest";
import { isEqual, type Clock } from "@patchbay/base";
import { createTokenBuckets, printTime } from "@patchbay/kube";
import type { GuestInterface, GuestSystem } from "@patchbay/core/interfaces";

interface AgentAnswer {
  /** Links of the guest; undefined if the agent did not answer. The previously reported links then stay in use. */
  readonly links: readonly GuestInterface[] | undefined;
  /** Set if an agent has opened the channel but did not answer in time. */
  readonly isTimeout?: boolean;
  /** MACs of the VM's NICs, in lower case with colons. */
  readonly macs: readonly string[];
  readonly system?: GuestSystem | undefined;
}

export interface GuestAgents {
  getView(vmi: VirtualMachineInstance): GuestView;
  /** Returns the guest's operating system; undefined if it must be queried, for example after a reboot into another system. */
  findSystem(uid: string): GuestOsInfo | undefined;
  /**
   * Returns the milliseconds until the next query; undefined if no agent is connected. `inputs` describes the guest's NICs, and is empty
   * if no agent is connected. A query is due soon after `inputs` changed.
   */
  queryDueInMs(uid: string, inputs: string): number | undefined;
  /** Records an answer. Returns whether the VMI's status must be updated. */
  recordAnswer(vmi: VirtualMachineInstance, answer: AgentAnswer): boolean;
  /**
   * Records whether the agent is silent. An agent with an open channel (`isListening`) is silent if its last queries timed out. An agent
   * with a closed channel is silent if it has answered before.
   */
  recordConnected(vmi: VirtualMachineInstance, isListening: boolean): void;
  /** Returns the RFC 3339 time since which the agent has been silent. Returns undefined if it answers or was silent only briefly. */
  silentSince(vmi: VirtualMachineInstance): string | undefined;
  silenceReportDueInMs(uid: string): number | undefined;
  forget(uid: string): void;
}

interface QueryHistory {
  readonly inputs: string;
  readonly changedMs: number;
  readonly queries: number;
  readonly queriedMs: number;
  readonly failures: number;
}

interface AgentSilence {
  readonly since: string;
  readonly reportAtMs: number;
}

/** Consecutive queries that timed out although an agent had opened the channel. */
interface UnansweredQueries {
  readonly count: number;
  /** RFC 3339 time of the first timeout. */
  readonly since: string;
  readonly sinceMs: number;
}

/** Number of consecutive timeouts after which the agent counts as hung. */
const HUNG_AFTER_TIMEOUTS = 2;
/** Delay before a silent agent is reported, in milliseconds. It exceeds the duration of a reboot. */
const SILENCE_REPORT_DELAY_MS = 60_000;
/** Limits how often an agent that reconnects constantly is queried. */
const QUERY_LIMIT = { burst: 12, refillMs: 30_000 };

function uidOf({ metadata }: VirtualMachineInstance): string {
  return metadata.uid ?? "";
}

function listReportedFields({ nics, otherLinks }: GuestView): unknown {
  const shown = [...nics.values(), ...otherLinks].map(({ mac, name, ipv4, ipv6 }) => [
    mac,
    name,
    ipv4.value,
    ipv6.value,
  ]);
  return shown;
}

class TrackedGuestAgents implements GuestAgents {
  readonly #clock: Clock;
  readonly #queries = new Map<string, QueryHistory>();
  readonly #views = new Map<string, GuestView>();
  readonly #systems = new Map<string, GuestOsInfo>();
  readonly #silences = new Map<string, AgentSilence>();
  readonly #unanswered = new Map<string, UnansweredQueries>();
  readonly #queryLimits;

  constructor(clock: Clock) {
    this.#clock = clock;
    this.#queryLimits = createTokenBuckets(clock, QUERY_LIMIT);
  }

  getView(vmi: VirtualMachineInstance): GuestView {
    return this.#views.get(uidOf(vmi)) ?? restoreGuestView(vmi.status?.interfaces ?? []);
  }

  findSystem(uid: string): GuestOsInfo | undefined {
    return this.#systems.get(uid);
  }

  queryDueInMs(uid: string, inputs: string): number | undefined {
    const nowMs = this.#clock.monotonicMs();
    const previous = this.#queries.get(uid);
    const newHistory = { inputs, changedMs: nowMs, queries: 0, queriedMs: nowMs, failures: 0 };
    const history = previous?.inputs === inputs ? previous : newHistory;
    this.#queries.set(uid, history);
    if (inputs === "") return undefined;
    const dueInMs = computeAgentPollDelayMs({
      queries: history.queries,
      failures: history.failures,
      changedAgoMs: nowMs - history.changedMs,
      queriedAgoMs: nowMs - history.queriedMs,
    });
    return dueInMs === 0 && !this.#queryLimits.has(uid) ? QUERY_LIMIT.refillMs : dueInMs;
  }

  recordAnswer(
    vmi: VirtualMachineInstance,
    { links, macs, system, isTimeout }: AgentAnswer,
  ): boolean {
    const uid = uidOf(vmi);
    const nowMs = this.#clock.monotonicMs();
    this.#queryLimits.take(uid);
    const history = this.#queries.get(uid);
    if (history !== undefined) {
      const failures = links === undefined ? history.failures + 1 : 0;
      this.#queries.set(uid, {
        ...history,
        queries: history.queries + 1,
        queriedMs: nowMs,
        failures,
      });
    }
    if (isTimeout === true) return this.#recordTimeout(uid);
    if (links === undefined) return false;
    this.#unanswered.delete(uid);
    const wasSilent = this.#silences.has(uid);
    const previousView = this.getView(vmi);
    const view = updateGuestView(previousView, readGuestLinks(links), { macs, nowMs });
    this.#views.set(uid, view);
    if (system !== undefined) this.#systems.set(uid, readGuestSystem(system));
    return (
      wasSilent ||
      system !== undefined ||
      !isEqual(listReportedFields(previousView), listReportedFields(view))
    );
  }

  /** Records a timeout. Returns true for the timeout that makes the agent count as hung. */
  #recordTimeout(uid: string): boolean {
    const previous = this.#unanswered.get(uid) ?? {
      count: 0,
      since: printTime(this.#clock.now()),
      sinceMs: this.#clock.monotonicMs(),
    };
    const count = previous.count + 1;
    this.#unanswered.set(uid, { ...previous, count });
    return count === HUNG_AFTER_TIMEOUTS;
  }

  recordConnected(vmi: VirtualMachineInstance, isListening: boolean): void {
    const uid = uidOf(vmi);
    if (!isListening) this.#unanswered.delete(uid);
    const isHung = isListening && this.#isHung(vmi);
    if (isHung || !isListening) this.#systems.delete(uid);
    const isSilent = isListening ? isHung : this.#hasAnswered(vmi);
    if (!isSilent) this.#silences.delete(uid);
    else if (!this.#silences.has(uid)) this.#silences.set(uid, this.#beginSilence(vmi));
  }

  #beginSilence(vmi: VirtualMachineInstance): AgentSilence {
    const nowMs = this.#clock.monotonicMs();
    const reported = findReportedSilence(vmi);
    if (reported !== undefined) return { since: reported, reportAtMs: nowMs };
    const fallback = { since: printTime(this.#clock.now()), sinceMs: nowMs };
    const { since, sinceMs } = this.#unanswered.get(uidOf(vmi)) ?? fallback;
    return { since, reportAtMs: sinceMs + SILENCE_REPORT_DELAY_MS };
  }

  /**
   * Returns whether the agent's last queries timed out. Until this process has received an answer from the agent, also
   * returns true if the VMI's status contains `silentSince`.
   */
  #isHung(vmi: VirtualMachineInstance): boolean {
    const uid = uidOf(vmi);
    const unanswered = this.#unanswered.get(uid);
    if (unanswered !== undefined && unanswered.count >= HUNG_AFTER_TIMEOUTS) return true;
    return !this.#views.has(uid) && findReportedSilence(vmi) !== undefined;
  }

  silentSince(vmi: VirtualMachineInstance): string | undefined {
    const silence = this.#silences.get(uidOf(vmi));
    return silence === undefined || this.#remainingMs(silence) > 0 ? undefined : silence.since;
  }

  silenceReportDueInMs(uid: string): number | undefined {
    const silence = this.#silences.get(uid);
    const remainingMs = silence === undefined ? 0 : this.#remainingMs(silence);
    return remainingMs > 0 ? remainingMs : undefined;
  }

  #hasAnswered(vmi: VirtualMachineInstance): boolean {
    const isReported = (vmi.status?.conditions ?? []).some(({ type }) => type === AGENT_CONNECTED);
    return isReported || this.getView(vmi).nics.size > 0;
  }

  #remainingMs({ reportAtMs }: AgentSilence): number {
    return reportAtMs - this.#clock.monotonicMs();
  }

  forget(uid: string): void {
    this.#queries.delete(uid);
    this.#views.delete(uid);
    this.#systems.delete(uid);
    this.#silences.delete(uid);
    this.#unanswered.delete(uid);
    this.#queryLimits.forget(uid);
  }
}

function findReportedSilence({ status }: VirtualMachineInstance): string | undefined {
  return (status?.interfaces ?? []).flatMap(({ addressInfo }) => addressInfo?.silentSince ?? [])[0];
}

export function createGuestAgents(clock: Clock): GuestAgents {
  return new TrackedGuestAgents(clock);
}
