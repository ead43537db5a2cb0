// SPDX-License-Identifier: Apache-2.0
// What does the panel show now? One value, which views are made of; who changes it replaces it.
import type { VirtualMachineInstance } from "@patchbay/api";
import { useEffect, useState } from "preact/hooks";
import { nowMs } from "../browser/clock.ts";
import type { Session } from "../browser/session.ts";
import { readTheme, type Theme } from "../browser/settings.ts";
import type { StreamOf } from "../browser/streams.ts";
import type { Change } from "../model/changes.ts";
import { NO_FILTER, filtered, type Filter } from "../model/filter.ts";
import { jacksOf, type Jack } from "../model/jacks.ts";
import { keyOf, NOTHING, withLine, type Line, type Objects } from "../model/objects.ts";
import { NO_PROBATION, type Probation } from "../model/probation.ts";
import { RIGHTS, may, type RightName, type Rules } from "../model/rights.ts";
import { withSteps, type Steps } from "../model/nic/steps.ts";
import { unitOf, Units, type Unit } from "../model/unit.ts";
import type { Verdict } from "../model/verdict.ts";

/**
 * What has become of a change that was sent. `checking`: it was done, and it is looked whether it works; `unfit`: it was
 * done, and does not.
 */
export interface SentState {
  readonly kind: "sending" | "checking" | "done" | "unfit" | "failed";
  readonly text: string;
}

/** A change that waits for Apply, or was sent. */
export interface Gathered {
  readonly change: Change;
  /** Absent while the server is asked. */
  readonly verdict?: Verdict;
  /** What more is said of it with the other changes of the same VM; absent: nothing. */
  readonly together?: Verdict | undefined;
  readonly outcome?: SentState;
}

/** What is looked at: a VM, one of its NICs, or its free socket. */
export interface Selection {
  readonly unit: string;
  readonly iface?: string;
  readonly isFree?: boolean;
}

/** All that is shown. */
export interface PanelState {
  readonly stage: "opening" | "closed" | "open";
  readonly session?: Session;
  readonly isLive: boolean;
  readonly objects: Objects;
  readonly units: readonly Unit[];
  readonly shownUnits: readonly Unit[];
  readonly jacks: readonly Jack[];
  readonly steps: Steps;
  readonly filter: Filter;
  readonly selection?: Selection | undefined;
  readonly gathered: readonly Gathered[];
  readonly probation: Probation;
  readonly rules: ReadonlyMap<string, Rules>;
  readonly isCreating: boolean;
  readonly stream?: StreamOf | undefined;
  readonly theme: Theme;
  /** For who hears the page. */
  readonly said: string;
}

const FIRST: PanelState = {
  stage: "opening",
  isLive: false,
  objects: NOTHING,
  units: [],
  shownUnits: [],
  jacks: [],
  steps: new Map(),
  filter: NO_FILTER,
  gathered: [],
  probation: NO_PROBATION,
  rules: new Map(),
  isCreating: false,
  theme: readTheme(),
  said: "",
};

/** Holds the state, and tells whoever shows it. */
export class PanelStore {
  state: PanelState = FIRST;
  readonly #units = new Units();
  readonly #listeners = new Set<() => void>();
  #unread: Line[] = [];
  #steps: Steps = new Map();

  /** Changes a part of it. */
  set(part: Partial<PanelState>): void {
    const next = { ...this.state, ...part };
    const isFiltered = "filter" in part || "units" in part;
    this.state = isFiltered ? { ...next, shownUnits: filtered(next.units, next.filter) } : next;
    for (const tell of this.#listeners) tell();
  }

  /** Lines of the watch; those that come within one frame are shown at once. */
  take(lines: readonly Line[]): void {
    const isFirst = this.#unread.length === 0;
    this.#unread.push(...lines);
    this.#noteSteps(lines);
    if (isFirst && lines.length > 0)
      requestAnimationFrame(() => {
        this.#show();
      });
  }

  subscribe(tell: () => void): () => void {
    this.#listeners.add(tell);
    return () => this.#listeners.delete(tell);
  }

  /** Several phases may pass within one frame: each is noted when it comes. */
  #noteSteps(lines: readonly Line[]): void {
    const units = lines.flatMap((line) => {
      if (line.kind !== "applied" || line.of !== "vmis") return [];
      // Lines of this kind have VMIs.
      return [unitOf(keyOf(line.object), { vmi: line.object as VirtualMachineInstance })];
    });
    for (const unit of units) {
      this.#steps = withSteps(this.#steps, [unit], { atMs: nowMs(), isList: false });
    }
  }

  #show(): void {
    performance.mark("panel-update"); // for `npm run perf panel`
    const objects = this.#unread.reduce(withLine, this.state.objects);
    this.#unread = [];
    const units = this.#units.of(objects.vms, objects.vmis);
    const jacks = jacksOf(objects.networks, units);
    const seenAt = { atMs: nowMs(), isList: true };
    const steps = withSteps(this.#steps, units, seenAt);
    this.#steps = steps;
    this.set({ objects, units, jacks, steps });
  }
}

/** The state, for a view that is drawn anew when it changes. */
export function usePanel(store: PanelStore): PanelState {
  const [state, setState] = useState(store.state);
  useEffect(() => {
    setState(store.state);
    return store.subscribe(() => {
      setState(store.state);
    });
  }, [store]);
  return state;
}

/** Whether the user may do something in a namespace; what is not known yet is not offered. */
export function isAllowed({ rules }: PanelState, namespace: string, right: RightName): boolean {
  const known = rules.get(namespace);
  return known !== undefined && may(known, RIGHTS[right]);
}

/** Whether it was sent, and done: it is not sent again. */
export function isSent({ outcome }: Gathered): boolean {
  return outcome !== undefined && !["sending", "failed"].includes(outcome.kind);
}

/** Whether it is on its way to the server. */
export function isSending({ outcome }: Gathered): boolean {
  return outcome?.kind === "sending";
}

/** Whether something is being done about it now: it is sent, or looked at. */
export function isBusy(gathered: Gathered): boolean {
  return isSending(gathered) || gathered.outcome?.kind === "checking";
}

/** The unit of a key. */
export function findUnit({ units }: PanelState, key: string | undefined): Unit | undefined {
  return key === undefined ? undefined : units.find((unit) => unit.key === key);
}
