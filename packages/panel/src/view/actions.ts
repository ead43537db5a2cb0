// SPDX-License-Identifier: Apache-2.0
import type { DoctorReport } from "@patchbay/core/doctor";
import { readRules, readDoctorReport, send } from "../browser/request.ts";
import type { Session } from "../browser/session.ts";
import { nextTheme, setTheme } from "../browser/settings.ts";
import { nowMs, sleep } from "../browser/timing.ts";
import {
  toRequests,
  type Change,
  changeId,
  newIfaceName,
  describeChange,
  addChange,
  removeChange,
} from "../model/changes.ts";
import { listNicChanges, combinedRequest, combinedVerdict } from "../model/commands.ts";
import type { Filter } from "../model/filter.ts";
import { withVmAsOwner } from "../model/new-vm.ts";
import type { VmObjects } from "../model/nic/plug.ts";
import {
  findCheckableChange,
  describeFault,
  isInUse,
  type PlugChange,
  type PlugCheck,
  findReasonToStay,
} from "../model/probation.ts";
import type { Unit } from "../model/unit.ts";
import { type Answer, isRefusal, toVerdict, printMessage } from "../model/verdict.ts";
import {
  findUnit,
  type PendingChange,
  isBusy,
  isSent,
  type PanelState,
  type PanelStore,
  type Selection,
  type SentState,
} from "./state.ts";

const IN_USE_TIMEOUT_MS = 60_000;
/** Time for the guest to start using the plugged interface, in milliseconds. Lost frames do not count during this time. */
const GRACE_MS = 15_000;
const CHECK_INTERVAL_MS = 2_000;

interface CheckOptions {
  readonly store: PanelStore;
  readonly session: Session;
  readonly keepsFaulty: boolean;
}

function waitUntilInUse(store: PanelStore, { unit, iface }: PlugChange): Promise<boolean> {
  const isPlugInUse = (): boolean => isInUse(findUnit(store.state, unit.key), iface);
  return new Promise((resolve) => {
    const end = (isInTime: boolean): void => {
      unsubscribe();
      resolve(isInTime);
    };
    const unsubscribe = store.subscribe(() => {
      if (isPlugInUse()) end(true);
    });
    if (isPlugInUse()) end(true);
    else
      void sleep(IN_USE_TIMEOUT_MS).then(() => {
        end(false);
      });
  });
}

/** Repeats the check until frames pass, or until GRACE_MS is over. Returns the last report. */
async function checkUntilPassing(
  session: Session,
  { unit, iface }: PlugChange,
): Promise<DoctorReport | { readonly refused: string }> {
  const untilMs = nowMs() + GRACE_MS;
  for (;;) {
    const report = await readDoctorReport(session, unit, iface);
    const isPassing = !("refused" in report) && describeFault(report) === undefined;
    if (isPassing || nowMs() >= untilMs) return report;
    await sleep(CHECK_INTERVAL_MS);
  }
}

async function unplug(session: Session, { unit, iface }: PlugChange): Promise<string> {
  for (const request of toRequests({ kind: "pull", unit, iface }, {})) {
    const answer = await send(session, request, false);
    if (isRefusal(answer)) return `it could not be unplugged again: ${printMessage(answer)}`;
  }
  return "it is unplugged again";
}

/**
 * Checks a plugged interface. If frames do not pass, unplugs the interface unless findReasonToStay returns a reason. Does not unplug an
 * interface that cannot be checked.
 */
async function examinePlug(
  change: PlugChange,
  { store, session, keepsFaulty }: CheckOptions,
): Promise<SentState> {
  const notChecked = "left plugged, not checked";
  if (!(await waitUntilInUse(store, change))) {
    return { kind: "done", text: `it was not in use within a minute: ${notChecked}` };
  }
  const report = await checkUntilPassing(session, change);
  if ("refused" in report) return { kind: "done", text: `${notChecked}: ${report.refused}` };
  const fault = describeFault(report);
  if (fault === undefined) return { kind: "done", text: "it is in use, and no hop is dead" };
  const consequence = findReasonToStay(report, keepsFaulty) ?? (await unplug(session, change));
  return { kind: "unfit", text: `${fault}; ${consequence}` };
}

export class Actions {
  readonly #store: PanelStore;
  readonly #session: Session;
  /** Settles when all plug checks that were started so far have ended. */
  #examination: Promise<void> = Promise.resolve();

  constructor(store: PanelStore, session: Session) {
    this.#store = store;
    this.#session = session;
  }

  get session(): Session {
    return this.#session;
  }

  select(selection: Selection | undefined): void {
    this.#store.set({ selection, isCreating: false });
    const namespace = selection?.unit.split("/")[0];
    if (namespace !== undefined) void this.loadRights(namespace);
  }

  filter(part: Partial<Filter>): void {
    this.#store.set({ filter: { ...this.#store.state.filter, ...part } });
  }

  setCreating(isCreating: boolean): void {
    this.#store.set({ isCreating, selection: undefined });
  }

  openStream(unit: Unit, streamKind: "console" | "vnc"): void {
    const { namespace, name } = unit;
    this.#store.set({ stream: { namespace, name, streamKind } });
  }

  closeStream(): void {
    this.#store.set({ stream: undefined });
  }

  switchTheme(): void {
    const theme = nextTheme(this.#store.state.theme);
    setTheme(theme);
    this.#store.set({ theme });
  }

  async loadRights(namespace: string): Promise<void> {
    if (this.#store.state.rules.has(namespace)) return;
    const rules = await readRules(this.#session, namespace);
    this.#store.set({ rules: new Map([...this.#store.state.rules, [namespace, rules]]) });
  }

  connect({ unit: key, iface }: Selection, network: string): void {
    const unit = findUnit(this.#store.state, key);
    if (unit === undefined || network === "pod") return;
    if (iface === undefined) {
      const newIfaceNames = this.#store.state.pendingChanges.flatMap(({ change }) =>
        change.kind === "plug" && change.unit.key === key ? [change.iface] : [],
      );
      const usedNames = [...unit.plugs.map(({ name }) => name), ...newIfaceNames];
      void this.addChange({ kind: "plug", unit, iface: newIfaceName(network, usedNames), network });
      return;
    }
    const plug = unit.plugs.find(({ name }) => name === iface);
    if (plug?.network === network) this.drop({ kind: "move", unit, iface, network });
    else void this.addChange({ kind: "move", unit, iface, network });
  }

  async addChange(change: Change): Promise<void> {
    const changes = addChange(this.#pending(), change);
    this.#setPending(changes);
    const pending = changes.find((each) => changeId(each) === changeId(change));
    this.#store.set({ announcement: `${describeChange(change)}: gathered, not sent` });
    if (pending === undefined) return;
    const answers = await this.#sendAll(pending, true);
    const isLive = pending.kind === "create" || (this.#unitOf(pending)?.isLive ?? false);
    this.#update(pending, { verdict: toVerdict(pending, answers, isLive) });
    await this.#updateCombinedVerdict(pending);
  }

  drop(change: Change): void {
    this.#setPending(removeChange(this.#pending(), change));
    void this.#updateCombinedVerdict(change);
  }

  dropAll(): void {
    this.#store.set({ pendingChanges: this.#store.state.pendingChanges.filter(isBusy) });
  }

  /** Sends the pending changes in order. A failure does not prevent later changes. */
  async apply(): Promise<void> {
    const { pendingChanges, plugCheck } = this.#store.state;
    const waiting = pendingChanges.filter((each) => !isSent(each));
    const plugsToCheck: PlugChange[] = [];
    for (const { change, verdict } of waiting) {
      this.#update(change, { outcome: { kind: "sending", text: "" } });
      const answers = await this.#sendChecked(change);
      const refused = answers.find(isRefusal);
      const text = answers.map(printMessage).filter(Boolean).join("; ");
      const outcome =
        refused === undefined
          ? ({ kind: "done", text } as const)
          : ({ kind: "failed", text: printMessage(refused) } as const);
      this.#setOutcome(change, outcome);
      const plug = plugCheck.isOn ? findCheckableChange(change, verdict) : undefined;
      if (outcome.kind === "done" && plug !== undefined) plugsToCheck.push(plug);
    }
    const text = "checking whether its frames pass";
    for (const change of plugsToCheck) this.#setOutcome(change, { kind: "checking", text });
    this.#examination = this.#examination.then(() =>
      this.#examine(plugsToCheck, plugCheck.keepsFaulty),
    );
    await this.#examination;
  }

  setPlugCheck(part: Partial<PlugCheck>): void {
    this.#store.set({ plugCheck: { ...this.#store.state.plugCheck, ...part } });
  }

  /** Checks the plugs one after another, because a node examines only a few NICs at the same time. */
  async #examine(plugs: readonly PlugChange[], keepsFaulty: boolean): Promise<void> {
    const options = { store: this.#store, session: this.#session, keepsFaulty };
    for (const change of plugs) this.#setOutcome(change, await examinePlug(change, options));
  }

  #setOutcome(change: Change, outcome: SentState): void {
    this.#update(change, { outcome });
    this.#store.set({ announcement: `${describeChange(change)}: ${outcome.kind}` });
  }

  findVmObjects(change: Change): VmObjects {
    if (change.kind === "create") return {};
    const { vms, vmis } = this.#store.state.objects;
    return { vm: vms.get(change.unit.key), vmi: vmis.get(change.unit.key) };
  }

  /** Checks all pending NIC changes of a VM in one dry run. The verdict is shown at the last of these changes. */
  async #updateCombinedVerdict(change: Change): Promise<void> {
    if (change.kind === "create") return;
    const nicChanges = listNicChanges(this.#pending(), change.unit.key);
    const request = combinedRequest(nicChanges, this.findVmObjects(change));
    const answer = request === undefined ? undefined : await send(this.#session, request, true);
    // Discards the answer if the list of pending changes has changed, because the new list has its own dry run.
    const currentChanges = listNicChanges(this.#pending(), change.unit.key);
    if (
      currentChanges.length !== nicChanges.length ||
      currentChanges.some((each, index) => each !== nicChanges[index])
    )
      return;
    const isOwn = (each: PendingChange): boolean => nicChanges.some((own) => own === each.change);
    const singleVerdicts = this.#store.state.pendingChanges
      .filter(isOwn)
      .flatMap(({ verdict }) => verdict ?? []);
    for (const each of nicChanges) {
      const isLast = each === nicChanges.at(-1);
      this.#update(each, {
        combinedVerdict: isLast && answer ? combinedVerdict(answer, singleVerdicts) : undefined,
      });
    }
  }

  /** Sends the requests of a change until one is refused. */
  async #sendAll(change: Change, isDryRun: boolean): Promise<readonly Answer[]> {
    const answers: Answer[] = [];
    for (const request of toRequests(change, this.findVmObjects(change))) {
      const bodies = answers.map(({ text }) => text);
      const body = isDryRun ? request.body : withVmAsOwner(request.body, bodies);
      const answer = await send(this.#session, { ...request, body }, isDryRun);
      answers.push(answer);
      if (isRefusal(answer)) break;
    }
    return answers;
  }

  /** Sends the change. For a new VM, first sends dry runs of all its objects, so that none is created if one of them is rejected. */
  async #sendChecked(change: Change): Promise<readonly Answer[]> {
    const answers = change.kind === "create" ? await this.#sendAll(change, true) : [];
    return answers.some(isRefusal) ? answers : this.#sendAll(change, false);
  }

  #unitOf(change: Change): Unit | undefined {
    return change.kind === "create" ? undefined : findUnit(this.#store.state, change.unit.key);
  }

  #pending(): readonly Change[] {
    return this.#store.state.pendingChanges.map(({ change }) => change);
  }

  #setPending(changes: readonly Change[]): void {
    const { pendingChanges } = this.#store.state;
    const findPending = (change: Change): PendingChange =>
      pendingChanges.find((each) => each.change === change) ?? { change };
    this.#store.set({ pendingChanges: changes.map(findPending) });
  }

  #update(change: Change, more: Partial<PendingChange>): void {
    const { pendingChanges } = this.#store.state;
    this.#store.set({
      pendingChanges: pendingChanges.map((each) =>
        each.change === change ? { ...each, ...more } : each,
      ),
    });
  }
}

export interface ViewProps {
  readonly state: PanelState;
  readonly actions: Actions;
}
