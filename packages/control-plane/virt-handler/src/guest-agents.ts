// SPDX-License-Identifier: Apache-2.0
// Guest agents' last reports and next queries. After a restart the VMI's status stays until the agents are queried again.
import type { GuestOsInfo, VirtualMachineInstance } from "@patchbay/api";
import { AGENT_CONNECTED } from "@patchbay/core/status";
import {
  restoreGuestView,
  nextAgentPollMs,
  nextGuestView,
  readGuestLinks,
  readGuestSystem,
  type GuestView,
} from "@patchbay/core/guest";
import { isEqual, type Clock } from "@patchbay/base";
import { createTokenBuckets, printTime } from "@patchbay/kube";
import type { GuestInterface, GuestSystem } from "@patchbay/core/interfaces";

interface AgentAnswer {
  /** Undefined when the agent did not answer; what is known then stays. */
  readonly links: readonly GuestInterface[] | undefined;
  /** True when the agent has the channel open but did not answer in time. Unset when the agent rejected the query. */
  readonly isTimeout?: boolean;
  /** MACs of the VM's NICs, lower case with colons. */
  readonly macs: readonly string[];
  readonly system?: GuestSystem | undefined;
}

export interface GuestAgents {
  getView(vmi: VirtualMachineInstance): GuestView;
  /** Undefined when the agent must be queried for it. An agent that reconnects may run in another system. */
  findSystem(uid: string): GuestOsInfo | undefined;
  /** Milliseconds, 0 for now; undefined to wait for a change. `inputs` names the reportable NICs; a different text is a change. */
  queryDueInMs(uid: string, inputs: string): number | undefined;
  /** Returns true when the answer contains something new. */
  recordAnswer(vmi: VirtualMachineInstance, answer: AgentAnswer): boolean;
  /** Records whether an agent has the channel open. An agent that does not answer counts as not connected. */
  recordConnected(vmi: VirtualMachineInstance, isListening: boolean): void;
  /** RFC 3339 time since which the agent of a guest has not answered; undefined until the silence is long enough to report. */
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

/** Consecutive timeouts of an agent that has the channel open. */
interface Unanswered {
  readonly count: number;
  /** Time of the first timeout, RFC 3339. */
  readonly since: string;
  readonly sinceMs: number;
}

/** The agent counts as hung after this many timeouts in a row. */
const HUNG_AFTER_TIMEOUTS = 2;
/** A guest that reboots is silent for a while, which needs no report. */
const SILENCE_REPORT_DELAY_MS = 60_000;
/** Limits queries for agents that connect and disconnect all the time: a burst, then one in each `refillMs`. */
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
  readonly #unanswered = new Map<string, Unanswered>();
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
    const known = this.#queries.get(uid);
    const fresh = { inputs, changedMs: nowMs, queries: 0, queriedMs: nowMs, failures: 0 };
    const history = known?.inputs === inputs ? known : fresh;
    this.#queries.set(uid, history);
    if (inputs === "") return undefined;
    const dueInMs = nextAgentPollMs({
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
    const before = this.getView(vmi);
    const view = nextGuestView(before, readGuestLinks(links), { macs, nowMs });
    this.#views.set(uid, view);
    if (system !== undefined) this.#systems.set(uid, readGuestSystem(system));
    return (
      wasSilent ||
      system !== undefined ||
      !isEqual(listReportedFields(before), listReportedFields(view))
    );
  }

  /** Returns true when the agent has just been found to hang. */
  #recordTimeout(uid: string): boolean {
    const before = this.#unanswered.get(uid) ?? {
      count: 0,
      since: printTime(this.#clock.now()),
      sinceMs: this.#clock.monotonicMs(),
    };
    const count = before.count + 1;
    this.#unanswered.set(uid, { ...before, count });
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
    const now = { since: printTime(this.#clock.now()), sinceMs: nowMs };
    const { since, sinceMs } = this.#unanswered.get(uidOf(vmi)) ?? now;
    return { since, reportAtMs: sinceMs + SILENCE_REPORT_DELAY_MS };
  }

  /** A process that has not queried the agent yet relies on what its predecessor reported. */
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
