// SPDX-License-Identifier: Apache-2.0
import type { VirtualMachineInstance } from "@patchbay/api";
import { useEffect, useState } from "preact/hooks";
import { nowMs } from "../browser/timing.ts";
import type { Session } from "../browser/session.ts";
import { readTheme, type Theme } from "../browser/settings.ts";
import type { StreamTarget } from "../browser/streams.ts";
import type { Change } from "../model/changes.ts";
import { NO_FILTER, filterUnits, type Filter } from "../model/filter.ts";
import { listJacks, type Jack } from "../model/jacks.ts";
import {
  isListed,
  keyOf,
  NO_OBJECTS,
  withLine,
  type Line,
  type Objects,
} from "../model/objects.ts";
import { NO_PLUG_CHECK, type PlugCheck } from "../model/probation.ts";
import { RIGHTS, hasRight, type RightName, type Rules } from "../model/rights.ts";
import { withSteps, type Steps } from "../model/nic/steps.ts";
import { toUnit, UnitCache, type Unit } from "../model/unit.ts";
import type { Verdict } from "../model/verdict.ts";

/** Progress of a sent change. `checking`: the plug was applied and is being checked. `unfit`: the check found that frames do not pass. */
export interface SentState {
  readonly kind: "sending" | "checking" | "done" | "unfit" | "failed";
  readonly text: string;
}

export interface PendingChange {
  readonly change: Change;
  /** Verdict of the dry run; unset while the dry run is in progress. */
  readonly verdict?: Verdict;
  /** Verdict of the combined dry run of the VM's NIC changes. Set only at the last of these changes, and only if it has new messages. */
  readonly combinedVerdict?: Verdict | undefined;
  readonly outcome?: SentState;
}

/** Selection of a VM, one of its NICs, or its free socket. */
export interface Selection {
  readonly unit: string;
  readonly iface?: string;
  readonly isFree?: boolean;
}

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
  readonly pendingChanges: readonly PendingChange[];
  readonly plugCheck: PlugCheck;
  readonly rules: ReadonlyMap<string, Rules>;
  readonly isCreating: boolean;
  readonly stream?: StreamTarget | undefined;
  readonly theme: Theme;
  readonly announcement: string;
}

const INITIAL_STATE: PanelState = {
  stage: "opening",
  isLive: false,
  objects: NO_OBJECTS,
  units: [],
  shownUnits: [],
  jacks: [],
  steps: new Map(),
  filter: NO_FILTER,
  pendingChanges: [],
  plugCheck: NO_PLUG_CHECK,
  rules: new Map(),
  isCreating: false,
  theme: readTheme(),
  announcement: "",
};

export class PanelStore {
  state: PanelState = INITIAL_STATE;
  readonly #units = new UnitCache();
  readonly #listeners = new Set<() => void>();
  #unread: Line[] = [];
  #steps: Steps = new Map();

  set(part: Partial<PanelState>): void {
    const next = { ...this.state, ...part };
    const isFiltered = "filter" in part || "units" in part;
    this.state = isFiltered ? { ...next, shownUnits: filterUnits(next.units, next.filter) } : next;
    for (const notify of this.#listeners) notify();
  }

  /** Adds lines of the change stream. Lines that arrive within one animation frame are rendered together. */
  addLines(lines: readonly Line[]): void {
    const isFirst = this.#unread.length === 0;
    this.#unread.push(...lines);
    this.#recordSteps(lines);
    if (isFirst && lines.length > 0)
      requestAnimationFrame(() => {
        this.#show();
      });
  }

  subscribe(notify: () => void): () => void {
    this.#listeners.add(notify);
    return () => this.#listeners.delete(notify);
  }

  /** Records the NIC phases of each update, because a NIC can pass through several phases within one animation frame. */
  #recordSteps(lines: readonly Line[]): void {
    const units = lines.flatMap((line) => {
      if (line.kind !== "applied" || line.of !== "vmis") return [];
      // The cast is safe, because `line.of` is `vmis`.
      return [toUnit(keyOf(line.object), { vmi: line.object as VirtualMachineInstance })];
    });
    for (const unit of units) {
      this.#steps = withSteps(this.#steps, [unit], { atMs: nowMs(), isList: false });
    }
  }

  #show(): void {
    performance.mark("panel-update");
    const objects = this.#unread.reduce(withLine, this.state.objects);
    this.#unread = [];
    if (!isListed(objects)) {
      this.set({ objects });
      return;
    }
    const units = this.#units.list(objects.vms, objects.vmis);
    const jacks = listJacks(objects.networks, units);
    const stepTime = { atMs: nowMs(), isList: true };
    const steps = withSteps(this.#steps, units, stepTime);
    this.#steps = steps;
    this.set({ objects, units, jacks, steps });
  }
}

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

/** Returns whether the user has the right. Returns false until the rights of the namespace are read. */
export function isAllowed({ rules }: PanelState, namespace: string, right: RightName): boolean {
  const known = rules.get(namespace);
  return known !== undefined && hasRight(known, RIGHTS[right]);
}

/** Returns whether the change was sent and applied. The panel does not send such a change again. */
export function isSent({ outcome }: PendingChange): boolean {
  return outcome !== undefined && !["sending", "failed"].includes(outcome.kind);
}

export function isSending({ outcome }: PendingChange): boolean {
  return outcome?.kind === "sending";
}

export function isBusy(pendingChange: PendingChange): boolean {
  return isSending(pendingChange) || pendingChange.outcome?.kind === "checking";
}

export function findUnit({ units }: PanelState, key: string | undefined): Unit | undefined {
  return key === undefined ? undefined : units.find((unit) => unit.key === key);
}
