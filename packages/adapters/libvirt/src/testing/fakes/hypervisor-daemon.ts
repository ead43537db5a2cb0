// SPDX-License-Identifier: Apache-2.0
// A daemon in memory: its domains, its recorded calls, and migrations to other daemons.
import { AppError } from "@patchbay/base";
import type {
  ConnectionEnd,
  DeviceTarget,
  GuestFacts,
  GuestInterface,
  GuestSystem,
  GuestTopic,
  HypervisorConnection,
  HypervisorEvent,
  JobStats,
  Migration,
} from "@patchbay/core/interfaces";
import { FakeDomain, parseName } from "./hypervisor-domain.ts";

/**
 * Reaction of a guest to an unplug: `grant` at once, `hold` until `grantUnplugs`, `refuse` with an event, or `lose` the
 * request as firmware does.
 */
export type UnplugPolicy = "grant" | "hold" | "refuse" | "lose";

/** Calls of {@link HypervisorConnection} that can be made to fail. */
export type FakeHypervisorCall = Exclude<
  keyof HypervisorConnection,
  "closed" | "close" | "onEvent"
>;

type EndOfMove = "over" | "broken before" | "broken after" | "stranded";

export interface FakeDaemon {
  pauseDomain(name: string): void;
  /** Pauses the domain, as error policy `stop` does after a disk error. */
  failDisk(name: string): void;
  /** Reaction of the daemon's guests to unplugs, initially `grant`. */
  unplugPolicy: UnplugPolicy;
  /** Statistics of running migrations from this daemon, initially none. */
  moveStats: Partial<JobStats>;
  /** Changes the XML that the daemon sends in a migration, as a malicious daemon does. Initially returns it unchanged. */
  forge: (xml: string) => string;
  /** Whether migrations from this daemon wait for `endMove`; initially false. */
  holdsMoves: boolean;
  /**
   * Ends a waiting migration. With `over` it succeeds. With `broken before` and `broken after` the connection breaks
   * before or after the target has the domain, paused. With `stranded` the domain is also paused on this daemon.
   */
  endMove(name: string, how: EndOfMove): void;
  /** Emits an event that all memory of a migrating domain was copied `iteration` times. */
  iterate(name: string, iteration: number): void;
  /** All calls in order, for example `attachDevice NAME ALIAS live`. */
  readonly calls: readonly string[];
  /** Makes the next such call fail. With `half`, it still takes effect. */
  failNext(call: FakeHypervisorCall, error: unknown, half?: "half"): void;
  /** Makes all such calls fail without effect, only those for `target` if it is set, until the error is undefined. */
  failAlways(call: FakeHypervisorCall, error: unknown, target?: DeviceTarget): void;
  /** Completes all unplugs that the guest holds. */
  grantUnplugs(name: string): void;
  /** Connects a guest agent that reports these NICs; undefined disconnects it. */
  setAgent(name: string, interfaces: readonly GuestInterface[] | undefined): void;
  /** Sets the system that the agent reports, initially none. */
  setGuestSystem(name: string, system: GuestSystem): void;
  /** Sets the facts that the agent reports about another topic, initially none. */
  setGuestFacts(name: string, topic: GuestTopic, facts: GuestFacts): void;
  /** Ends the guest, by itself or because its process dies. */
  endDomain(name: string, how: "stopped" | "crashed"): void;
  /** Returns the XML, like `readDomainXml`; undefined if there is no such domain. */
  readXml(name: string, target: DeviceTarget): string | undefined;
  /** Ends all connections, as a restart of the daemon does. Domains remain, and new connections are possible at once. */
  dropConnections(reason: string): void;
  /** Ends all connections, and refuses new ones until `start`. */
  stop(): void;
  start(): void;
}

/** A migration in progress. */
interface Move {
  readonly finish: () => void;
  readonly resolve: (value: undefined) => void;
  readonly reject: (error: AppError) => void;
}

interface Failure {
  readonly error: unknown;
  readonly isHalf: boolean;
}

interface Broken {
  readonly error: unknown;
  readonly target: DeviceTarget | undefined;
}

/** Details of stop events. Source: libvirt virDomainEventStoppedDetailType */
const STOPPED_DETAILS = { stopped: 0, crashed: 2, migrated: 3 };

/** Receiver of events, and of the end of the connection. */
interface Listener {
  emit(event: HypervisorEvent): void;
  lose(end: ConnectionEnd): void;
}

/** A daemon in memory, with the methods that its connections call. */
export class MemoryDaemon implements FakeDaemon {
  unplugPolicy: UnplugPolicy = "grant";
  holdsMoves = false;
  forge = (xml: string): string => xml;
  moveStats: Partial<JobStats> = {};
  isRunning = true;
  readonly calls: string[] = [];
  readonly connections = new Set<Listener>();
  readonly #domains = new Map<string, FakeDomain>();
  readonly #failures = new Map<FakeHypervisorCall, Failure>();
  readonly #broken = new Map<FakeHypervisorCall, Broken>();
  readonly #moves = new Map<string, Move>();
  readonly #findPeer: (uri: string) => MemoryDaemon | undefined;

  constructor(findPeer: (uri: string) => MemoryDaemon | undefined) {
    this.#findPeer = findPeer;
  }

  failNext(call: FakeHypervisorCall, error: unknown, half?: "half"): void {
    this.#failures.set(call, { error, isHalf: half === "half" });
  }

  failAlways(call: FakeHypervisorCall, error: unknown, target?: DeviceTarget): void {
    if (error === undefined) this.#broken.delete(call);
    else this.#broken.set(call, { error, target });
  }

  grantUnplugs(name: string): void {
    for (const alias of this.#domains.get(name)?.takeHeld() ?? []) {
      this.emit({ kind: "deviceRemoved", domain: name, alias });
    }
  }

  setAgent(name: string, interfaces: readonly GuestInterface[] | undefined): void {
    this.get(name).setAgent(interfaces);
    const kind = interfaces === undefined ? "agentDisconnected" : "agentConnected";
    this.emit({ kind, domain: name });
  }

  setGuestSystem(name: string, system: GuestSystem): void {
    this.get(name).system = system;
  }

  setGuestFacts(name: string, topic: GuestTopic, facts: GuestFacts): void {
    this.get(name).facts.set(topic, facts);
  }

  endDomain(name: string, how: "stopped" | "crashed" | "migrated"): void {
    if (this.#domains.get(name)?.stop(how) !== true) return;
    const detail = STOPPED_DETAILS[how];
    this.emit({ kind: "lifecycle", domain: name, event: "stopped", detail });
  }

  readXml(name: string, target: DeviceTarget): string | undefined {
    return this.#domains.get(name)?.xml(target);
  }

  dropConnections(reason: string): void {
    for (const connection of [...this.connections]) connection.lose({ reason, by: "daemon" });
  }

  stop(): void {
    this.isRunning = false;
    this.dropConnections("libvirt closed it");
  }

  start(): void {
    this.isRunning = true;
  }

  find(name: string): FakeDomain | undefined {
    return this.#domains.get(name);
  }

  get(name: string): FakeDomain {
    const domain = this.#domains.get(name);
    if (domain === undefined) throw new AppError("LIBVIRT_NO_DOMAIN", { domain: name });
    return domain;
  }

  define(xml: string): void {
    const name = parseName(xml);
    const domain = this.#domains.get(name);
    if (domain === undefined) this.#domains.set(name, new FakeDomain(xml, this.#newUuid()));
    else domain.redefine(xml);
    this.emit({ kind: "lifecycle", domain: name, event: "defined", detail: 0 });
  }

  #newUuid(): string {
    return `00000000-0000-4000-8000-${String(this.#domains.size + 1).padStart(12, "0")}`;
  }

  requestUnplug(name: string, alias: string): void {
    const domain = this.get(name);
    domain.hold(alias);
    if (this.unplugPolicy === "grant") {
      this.grantUnplugs(name);
    } else if (this.unplugPolicy !== "hold") {
      domain.release(alias);
      if (this.unplugPolicy === "refuse") {
        this.emit({ kind: "deviceRemovalFailed", domain: name, alias });
      }
    }
  }

  /** Records and runs a call, or fails as `failNext` and `failAlways` specified. */
  run<T>(call: FakeHypervisorCall, args: readonly string[], effect: () => T): T {
    this.calls.push([call, ...args].join(" "));
    const failure = this.#failures.get(call);
    this.#failures.delete(call);
    const broken = this.#broken.get(call);
    const isAffected =
      broken?.target === undefined || args.includes(broken.target) || args.includes("both");
    if (broken !== undefined && isAffected) throw broken.error;
    if (failure === undefined) return effect();
    if (failure.isHalf) effect();
    throw failure.error;
  }

  /** Migrates a domain, and resolves when the migration has ended. */
  move(name: string, migration: Migration): Promise<void> {
    const domain = this.get(name);
    domain.expectRunning();
    const target = this.#findPeer(migration.peerUri);
    if (target === undefined) throw peerLost("nobody listens there");
    const twin = domain.twinFor(migration, this.forge);
    const { promise, resolve, reject } = Promise.withResolvers<undefined>();
    this.#moves.set(name, {
      finish: () => {
        target.receive(name, twin);
      },
      resolve,
      reject,
    });
    if (!this.holdsMoves) this.endMove(name, "over");
    return promise;
  }

  pauseDomain(name: string): void {
    this.get(name).setPaused(true);
  }

  failDisk(name: string): void {
    this.get(name).failDisk();
    this.emit({ kind: "lifecycle", domain: name, event: "suspended", detail: 2 });
  }

  endMove(name: string, how: EndOfMove): void {
    const move = this.#takeMove(name);
    if (how === "stranded") this.get(name).strand();
    if (how !== "broken before") move?.finish();
    if (how !== "over") {
      move?.reject(peerLost("the connection was closed"));
      return;
    }
    this.endDomain(name, "migrated");
    this.emit({ kind: "jobCompleted", domain: name, downtimeMs: 0 });
    move?.resolve(undefined);
  }

  iterate(domain: string, iteration: number): void {
    this.emit({ kind: "migrationIteration", domain, iteration });
  }

  abortMove(name: string): void {
    const message = "operation aborted: migration out job: canceled by client";
    const call = "virDomainMigrateToURI3";
    this.#takeMove(name)?.reject(new AppError("LIBVIRT_JOB_ABORTED", { call, message }));
  }

  isMoving(name: string): boolean {
    return this.#moves.has(name);
  }

  receive(name: string, twin: FakeDomain): void {
    this.#domains.set(name, twin);
    this.emit({ kind: "lifecycle", domain: name, event: "started", detail: 1 });
  }

  #takeMove(name: string): Move | undefined {
    const move = this.#moves.get(name);
    this.#moves.delete(name);
    return move;
  }

  emit(event: HypervisorEvent): void {
    for (const connection of this.connections) connection.emit(event);
  }
}

function peerLost(message: string): AppError {
  return new AppError("LIBVIRT_PEER_LOST", { call: "virDomainMigrateToURI3", message });
}
