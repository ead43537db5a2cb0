// SPDX-License-Identifier: Apache-2.0
// The nftables table of forwards. The first write replaces the table, and later writes apply only changes.
import { AppError, isEqual, messageOf, type Clock, type Logger } from "@patchbay/base";
import type { Service } from "@patchbay/api/kubernetes";
import type { Cache, ProcessRunner } from "@patchbay/core/interfaces";
import { parseKey, type EventRecorder } from "@patchbay/kube";
import { halveOnRefusal, runNft, type Refused } from "../host/nft.ts";
import type { ServiceCounters } from "../metrics.ts";
import { limitForwards, type Forward, type UnforwardedService } from "./forwards.ts";
import {
  countElements,
  listEntries,
  onlyRemovals,
  printChanges,
  printProbe,
  printReset,
  printTable,
  type ServiceChange,
  type TableSettings,
} from "./ruleset.ts";

const PORTION_ELEMENTS_MAX = 10_000;
export const REFUSAL_RETRY_MS = 300_000;

interface ForwardTableDeps {
  readonly runner: ProcessRunner;
  readonly clock: Clock;
  readonly log: Logger;
  readonly settings: TableSettings;
  readonly countWrite: ServiceCounters["countWrite"];
}

type ForwardsByService = ReadonlyMap<string, readonly Forward[]>;

interface Refusal {
  readonly reason: string;
  readonly forwards: readonly Forward[];
  readonly retryAtMs: number;
}

function listChanges(
  before: ForwardsByService,
  after: ForwardsByService,
): readonly ServiceChange[] {
  return [...new Set([...before.keys(), ...after.keys()])].flatMap((service) => {
    const [previous = [], current = []] = [before.get(service), after.get(service)];
    if (isEqual(previous, current)) return [];
    return [
      { service, before: previous.flatMap(listEntries), after: current.flatMap(listEntries) },
    ];
  });
}

function divideSmallFirst(
  changes: readonly ServiceChange[],
): readonly (readonly ServiceChange[])[] {
  const sized = changes
    .map((change) => ({ change, size: countElements(change) }))
    .sort((left, right) => left.size - right.size);
  const portions: ServiceChange[][] = [];
  let room = 0;
  for (const { change, size } of sized) {
    if (size > room || portions.length === 0) {
      portions.push([]);
      room = PORTION_ELEMENTS_MAX;
    }
    portions.at(-1)?.push(change);
    room -= size;
  }
  return portions;
}

function refuse(reason: string): AppError {
  return new AppError("SERVICE_RULES_REFUSED", { reason });
}

export function reportUnforwarded(
  recorder: Pick<EventRecorder, "record">,
  services: Pick<Cache<Service>, "find">,
  leftOut: readonly UnforwardedService[],
): void {
  for (const { service: key, part = "this Service", reason } of leftOut) {
    const service = services.find(parseKey(key));
    const message = `connections to ${part} are not forwarded: ${reason}`;
    if (service !== undefined)
      recorder.record(service, { type: "Warning", reason: "ServiceNotForwarded", message });
  }
}

export class ForwardTable {
  readonly #deps: ForwardTableDeps;
  /** Forwards of the last successful write; undefined before the first write and after a failed change. */
  #written: ForwardsByService | undefined;
  readonly #refusals = new Map<string, Refusal>();

  constructor(deps: ForwardTableDeps) {
    this.#deps = deps;
  }

  get count(): number {
    return [...(this.#written?.values() ?? [])].reduce((sum, { length }) => sum + length, 0);
  }

  /** Writes the forwards without interrupting connections. Returns the Services that were left out. @throws SERVICE_RULES_REFUSED */
  async write(forwards: readonly Forward[]): Promise<readonly UnforwardedService[]> {
    const { log } = this.#deps;
    const { forwardsByService, leftOut } = limitForwards(forwards);
    const wanted = this.#omitRefused(forwardsByService);
    const written = this.#written;
    this.#written = undefined;
    if (written !== undefined) {
      try {
        this.#written = await this.#change(written, wanted);
      } catch (error) {
        // Replaces the table, because nft rejects changes after another program has changed or deleted the table.
        log.warn("service rules are rewritten completely", { reason: messageOf(error) });
      }
    }
    this.#written ??= await this.#replace(wanted);
    const refused = [...this.#refusals].map(([service, { reason }]) => ({ service, reason }));
    return [...leftOut, ...refused];
  }

  async #change(written: ForwardsByService, wanted: ForwardsByService): Promise<ForwardsByService> {
    const changes = listChanges(written, wanted);
    if (changes.length === 0) return wanted;
    const [stuck] = await this.#applyAll(changes.map(onlyRemovals));
    if (stuck !== undefined) throw refuse(stuck.reason);
    const additions = changes.map((change) => ({ ...change, before: onlyRemovals(change).after }));
    const result = this.#recordRefused(wanted, await this.#applyAll(additions));
    this.#deps.countWrite("changed");
    this.#deps.log.info("services changed", { count: result.size });
    return result;
  }

  async #replace(wanted: ForwardsByService): Promise<ForwardsByService> {
    const [first = [], ...others] = divideSmallFirst(listChanges(new Map(), wanted));
    const refused = [...(await this.#replaceWith(first))];
    for (const portion of others) refused.push(...(await this.#applyPortion(portion)));
    const result = this.#recordRefused(wanted, refused);
    this.#deps.countWrite("whole");
    this.#deps.log.info("services written", { count: result.size });
    return result;
  }

  async #replaceWith(
    changes: readonly ServiceChange[],
  ): Promise<readonly Refused<ServiceChange>[]> {
    const { runner, settings } = this.#deps;
    const check = (part: readonly ServiceChange[]): Promise<string | undefined> =>
      runNft(runner, printTable(settings, part), "check");
    if ((await this.#run(printTable(settings, changes))) === undefined) return [];
    const reason = await check([]);
    if (reason !== undefined) throw refuse(reason);
    const refused = await halveOnRefusal(changes, check);
    const refusedServices = new Set(refused.map(({ item }) => item.service));
    const accepted = changes.filter(({ service }) => !refusedServices.has(service));
    const lastReason = await this.#run(printTable(settings, accepted));
    if (lastReason !== undefined) throw refuse(lastReason);
    return refused;
  }

  async #applyAll(changes: readonly ServiceChange[]): Promise<readonly Refused<ServiceChange>[]> {
    const refused: Refused<ServiceChange>[] = [];
    for (const portion of divideSmallFirst(changes))
      refused.push(...(await this.#applyPortion(portion)));
    return refused;
  }

  #applyPortion(portion: readonly ServiceChange[]): Promise<readonly Refused<ServiceChange>[]> {
    return halveOnRefusal(portion, async (part) => {
      const script = printChanges(this.#deps.settings, part);
      const reason = script === "" ? undefined : await this.#run(script);
      if (reason === undefined) return undefined;
      const damage = await runNft(this.#deps.runner, printProbe(this.#deps.settings));
      if (damage !== undefined) throw refuse(damage);
      const [change] = part;
      return change === undefined || part.length > 1 ? reason : this.#reset(change);
    });
  }

  /** Applies the change of one Service even if another program deleted its elements. If nft refuses the change, removes the Service. */
  async #reset(change: ServiceChange): Promise<string | undefined> {
    const { settings } = this.#deps;
    const reason = await this.#run(printReset(settings, change));
    if (reason === undefined) return undefined;
    const damage = await this.#run(printReset(settings, { ...change, after: [] }));
    if (damage !== undefined) throw refuse(damage);
    return reason;
  }

  async #run(script: string): Promise<string | undefined> {
    const reason = await runNft(this.#deps.runner, script);
    if (reason !== undefined) this.#deps.countWrite("failed");
    return reason;
  }

  #omitRefused(forwardsByService: ForwardsByService): ForwardsByService {
    const wanted = new Map(forwardsByService);
    const nowMs = this.#deps.clock.monotonicMs();
    for (const [service, { forwards, retryAtMs }] of this.#refusals) {
      const isStillRefused = nowMs < retryAtMs && isEqual(wanted.get(service), forwards);
      if (isStillRefused) wanted.delete(service);
      else this.#refusals.delete(service);
    }
    return wanted;
  }

  #recordRefused(
    wanted: ForwardsByService,
    refused: readonly Refused<ServiceChange>[],
  ): ForwardsByService {
    const accepted = new Map(wanted);
    const retryAtMs = this.#deps.clock.monotonicMs() + REFUSAL_RETRY_MS;
    for (const { item, reason } of refused) {
      const forwards = accepted.get(item.service) ?? [];
      this.#refusals.set(item.service, { reason, forwards, retryAtMs });
      accepted.delete(item.service);
      this.#deps.log.warn("service left out", { service: item.service, reason });
    }
    return accepted;
  }
}
