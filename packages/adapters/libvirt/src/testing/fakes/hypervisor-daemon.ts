// SPDX-License-Identifier: Apache-2.0
// One daemon in memory: its domains, what was asked of it, and the moves between it and others.
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
 * What a guest does when it is asked to give a device up: `grant` at once, `hold` until it is told to grant,
 * `refuse` with an event, `lose` the request as firmware does.
 */
export type UnplugPolicy = "grant" | "hold" | "refuse" | "lose";

/** Calls of {@link HypervisorConnection} that can be made to fail. */
export type FakeHypervisorCall = Exclude<
  keyof HypervisorConnection,
  "closed" | "close" | "onEvent"
>;

/** How a move ends. */
type EndOfMove = "over" | "broken before" | "broken after" | "stranded";

/** A daemon in memory. */
export interface FakeDaemon {
  /** What its guests do; `grant` at first. */
  unplugPolicy: UnplugPolicy;
  /** What is told of moves from here that go on; no figures at first. */
  moveStats: Partial<JobStats>;
  /** What a daemon that lies makes of the definitions that it sends along; nothing at first. */
  forge: (xml: string) => string;
  /** Whether moves from here wait for `endMove`; they do not at first. */
  holdsMoves: boolean;
  /**
   * Ends a move that waits: the domain goes over, or the way to the other daemon breaks, before the domain has gone over or after,
   * when it is there as well, paused; or this daemon dies in that moment, and finds it paused in both places.
   */
  endMove(name: string, how: EndOfMove): void;
  /** All memory of a domain on its way has been gone through so many times. */
  iterate(name: string, iteration: number): void;
  /** All calls in order, as `attachDevice NAME ALIAS live`. */
  readonly calls: readonly string[];
  /** The next such call throws; with `half` it has its effect all the same. */
  failNext(call: FakeHypervisorCall, error: unknown, half?: "half"): void;
  /** Every such call (with `target`: on that target, also together with the other) throws, without an effect, until the error is undefined. */
  failAlways(call: FakeHypervisorCall, error: unknown, target?: DeviceTarget): void;
  /** The guest carries out every unplug that it holds. */
  grantUnplugs(name: string): void;
  /** The agent of a running guest, by what it tells of the guest's NICs; undefined: it ends. */
  setAgent(name: string, interfaces: readonly GuestInterface[] | undefined): void;
  /** What the agent tells of the guest's system; nothing at first. */
  setGuestSystem(name: string, system: GuestSystem): void;
  /** What it tells of another topic; nothing at first. */
  setGuestFacts(name: string, topic: GuestTopic, facts: GuestFacts): void;
  /** The guest ends by itself, or its process dies. */
  endDomain(name: string, how: "stopped" | "crashed"): void;
  /** XML as `readDomainXml` gives it; undefined when there is no such domain. */
  readXml(name: string, target: DeviceTarget): string | undefined;
  /** Connections end; new ones are possible at once. Domains stay, as those of a daemon that is started again. */
  dropConnections(reason: string): void;
  /** Connections end, and none is possible until `start`. */
  stop(): void;
  start(): void;
}

/** A domain on its way. */
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

/** Source: libvirt virDomainEventStoppedDetailType. */
const STOPPED_DETAILS = { stopped: 0, crashed: 2, migrated: 3 };

/** Who is told of events, and of the end. */
interface Listener {
  emit(event: HypervisorEvent): void;
  lose(end: ConnectionEnd): void;
}

/** A daemon in memory, as its connections see it. */
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

  /** @param findPeer - the daemon that is found at a URI */
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

  /** Runs a call as the next test asked for it. */
  run<T>(call: FakeHypervisorCall, args: readonly string[], effect: () => T): T {
    this.calls.push([call, ...args].join(" "));
    const failure = this.#failures.get(call);
    this.#failures.delete(call);
    const broken = this.#broken.get(call);
    const isHit =
      broken?.target === undefined || args.includes(broken.target) || args.includes("both");
    if (broken !== undefined && isHit) throw broken.error;
    if (failure === undefined) return effect();
    if (failure.isHalf) effect();
    throw failure.error;
  }

  /** Sends a domain away; resolves when it is there. */
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

  /** A domain comes from another daemon, and stands still. */
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
