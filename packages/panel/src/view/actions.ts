// SPDX-License-Identifier: Apache-2.0
// What happens when a person does something? Nothing is sent to be done before Apply.
import { readRules, send } from "../browser/ask.ts";
import type { Session } from "../browser/session.ts";
import { nextTheme, setTheme } from "../browser/settings.ts";
import {
  asksOf,
  changeId,
  newIfaceName,
  sentenceOf,
  withChange,
  withoutChange,
  type Change,
} from "../model/changes.ts";
import type { Filter } from "../model/filter.ts";
import type { Machine } from "../model/nic/plug.ts";
import { checkable, type PlugChange, type Probation } from "../model/probation.ts";
import { nicChangesOf, togetherAsk, togetherVerdict } from "../model/together.ts";
import type { Unit } from "../model/unit.ts";
import { isRefusal, verdictOf, wordsOf, type Answer } from "../model/verdict.ts";
import { examinePlug } from "./probation.ts";
import {
  findUnit,
  isBusy,
  isSent,
  type Gathered,
  type SentState,
  type PanelStore,
  type Selection,
} from "./state.ts";

/** What can be done with the panel. */
export class Actions {
  readonly #store: PanelStore;
  readonly #session: Session;
  /** Settled when all that is on probation has been looked at. */
  #examined: Promise<void> = Promise.resolve();

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
    if (namespace !== undefined) void this.learnRights(namespace);
  }

  filter(part: Partial<Filter>): void {
    this.#store.set({ filter: { ...this.#store.state.filter, ...part } });
  }

  setCreating(isCreating: boolean): void {
    this.#store.set({ isCreating, selection: undefined });
  }

  openStream(unit: Unit, what: "console" | "vnc"): void {
    const { namespace, name } = unit;
    this.#store.set({ stream: { namespace, name, what } });
  }

  closeStream(): void {
    this.#store.set({ stream: undefined });
  }

  turnTheme(): void {
    const theme = nextTheme(this.#store.state.theme);
    setTheme(theme);
    this.#store.set({ theme });
  }

  /** Asks once what the user may do there. */
  async learnRights(namespace: string): Promise<void> {
    if (this.#store.state.rules.has(namespace)) return;
    const rules = await readRules(this.#session, namespace);
    this.#store.set({ rules: new Map([...this.#store.state.rules, [namespace, rules]]) });
  }

  /** A cable from a free socket, or of a plug, to a jack. */
  connect({ unit: key, iface }: Selection, network: string): void {
    const unit = findUnit(this.#store.state, key);
    if (unit === undefined || network === "pod") return;
    if (iface === undefined) {
      const gathered = this.#store.state.gathered.flatMap(({ change }) =>
        change.kind === "plug" && change.unit.key === key ? [change.iface] : [],
      );
      const taken = [...unit.plugs.map(({ name }) => name), ...gathered];
      void this.gather({ kind: "plug", unit, iface: newIfaceName(network, taken), network });
      return;
    }
    const plug = unit.plugs.find(({ name }) => name === iface);
    if (plug?.network === network) this.drop({ kind: "move", unit, iface, network });
    else void this.gather({ kind: "move", unit, iface, network });
  }

  /** Takes a change in, and asks what would become of it. */
  async gather(change: Change): Promise<void> {
    const changes = withChange(this.#pending(), change);
    this.#keep(changes);
    const kept = changes.find((each) => changeId(each) === changeId(change));
    this.#store.set({ said: `${sentenceOf(change)}: gathered, not sent` });
    if (kept === undefined) return;
    const answers = await this.#sendAll(kept, true);
    const isLive = kept.kind === "create" || (this.#unitOf(kept)?.isLive ?? false);
    this.#note(kept, { verdict: verdictOf(kept, answers, isLive) });
    await this.#judgeTogether(kept);
  }

  drop(change: Change): void {
    this.#keep(withoutChange(this.#pending(), change));
    void this.#judgeTogether(change);
  }

  /** All but what is being done now: what comes of that is still to be told. */
  dropAll(): void {
    this.#store.set({ gathered: this.#store.state.gathered.filter(isBusy) });
  }

  /** Sends what was gathered, one after another; one that fails stops no other. */
  async apply(): Promise<void> {
    const { gathered, probation } = this.#store.state;
    const waiting = gathered.filter((each) => !isSent(each));
    const onProbation: PlugChange[] = [];
    for (const { change, verdict } of waiting) {
      this.#note(change, { outcome: { kind: "sending", text: "" } });
      const answers = await this.#sendAll(change, false);
      const refused = answers.find(isRefusal);
      const text = answers.map(wordsOf).filter(Boolean).join("; ");
      const outcome =
        refused === undefined
          ? ({ kind: "done", text } as const)
          : ({ kind: "failed", text: wordsOf(refused) } as const);
      this.#tell(change, outcome);
      const plug = probation.isOn ? checkable(change, verdict) : undefined;
      if (outcome.kind === "done" && plug !== undefined) onProbation.push(plug);
    }
    const text = "checking whether its frames pass";
    for (const change of onProbation) this.#tell(change, { kind: "checking", text });
    this.#examined = this.#examined.then(() => this.#examine(onProbation, probation.keeps));
    await this.#examined;
  }

  setProbation(part: Partial<Probation>): void {
    this.#store.set({ probation: { ...this.#store.state.probation, ...part } });
  }

  /** One after another, those of other Applies too: a node examines few at a time. */
  async #examine(plugs: readonly PlugChange[], keeps: boolean): Promise<void> {
    const means = { store: this.#store, session: this.#session, keeps };
    for (const change of plugs) this.#tell(change, await examinePlug(change, means));
  }

  #tell(change: Change, outcome: SentState): void {
    this.#note(change, { outcome });
    this.#store.set({ said: `${sentenceOf(change)}: ${outcome.kind}` });
  }

  /** The objects of a change, as they stand now. */
  machineOf(change: Change): Machine {
    if (change.kind === "create") return {};
    const { vms, vmis } = this.#store.state.objects;
    return { vm: vms.get(change.unit.key), vmi: vmis.get(change.unit.key) };
  }

  /** What is said of a VM's changes together stands at the last one. */
  async #judgeTogether(change: Change): Promise<void> {
    if (change.kind === "create") return;
    const own = nicChangesOf(this.#pending(), change.unit.key);
    const ask = togetherAsk(own, this.machineOf(change));
    const answer = ask === undefined ? undefined : await send(this.#session, ask, true);
    // Others were gathered or dropped meanwhile, which asks anew.
    const now = nicChangesOf(this.#pending(), change.unit.key);
    if (now.length !== own.length || now.some((each, index) => each !== own[index])) return;
    const isOwn = (each: Gathered): boolean => own.some((known) => known === each.change);
    const alone = this.#store.state.gathered
      .filter(isOwn)
      .map(({ verdict }) => verdict?.text ?? "");
    for (const each of own) {
      const isLast = each === own.at(-1);
      this.#note(each, { together: isLast && answer ? togetherVerdict(answer, alone) : undefined });
    }
  }

  /** Each, until one is refused. */
  async #sendAll(change: Change, isDryRun: boolean): Promise<readonly Answer[]> {
    const answers: Answer[] = [];
    for (const ask of asksOf(change, this.machineOf(change))) {
      const answer = await send(this.#session, ask, isDryRun);
      answers.push(answer);
      if (isRefusal(answer)) break;
    }
    return answers;
  }

  #unitOf(change: Change): Unit | undefined {
    return change.kind === "create" ? undefined : findUnit(this.#store.state, change.unit.key);
  }

  #pending(): readonly Change[] {
    return this.#store.state.gathered.map(({ change }) => change);
  }

  #keep(changes: readonly Change[]): void {
    const { gathered } = this.#store.state;
    const known = (change: Change): Gathered =>
      gathered.find((each) => each.change === change) ?? { change };
    this.#store.set({ gathered: changes.map(known) });
  }

  #note(change: Change, more: Partial<Gathered>): void {
    const { gathered } = this.#store.state;
    this.#store.set({
      gathered: gathered.map((each) => (each.change === change ? { ...each, ...more } : each)),
    });
  }
}
