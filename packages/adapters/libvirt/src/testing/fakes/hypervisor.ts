// SPDX-License-Identifier: Apache-2.0
// libvirt in memory: daemons by address, connections with events, and guests that grant, hold, refuse or lose unplugs.
import { AppError } from "@patchbay/core";
import type {
  ConnectionEnd,
  AttachTarget,
  DeviceTarget,
  DomainInfo,
  GuestFacts,
  GuestInterface,
  GuestSystem,
  GuestTopic,
  Hypervisor,
  HypervisorAddress,
  HypervisorConnection,
  HypervisorEvent,
} from "@patchbay/core/ports";
import { FakeDomain, nameOf } from "./hypervisor-domain.ts";

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

/** A daemon in memory. */
export interface FakeDaemon {
  /** What its guests do; `grant` at first. */
  unplugPolicy: UnplugPolicy;
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
  xmlOf(name: string, target: DeviceTarget): string | undefined;
  /** Connections end; new ones are possible at once. Domains stay, as those of a daemon that is started again. */
  dropConnections(reason: string): void;
  /** Connections end, and none is possible until `start`. */
  stop(): void;
  start(): void;
}

/** A {@link Hypervisor} in memory. */
export interface FakeHypervisor extends Hypervisor {
  /** The daemon at an address; it is made, and runs, when it was not there. Opening an address without one fails. */
  daemonAt(address: HypervisorAddress): FakeDaemon;
}

/** Makes a hypervisor without daemons. */
export function createFakeHypervisor(): FakeHypervisor {
  return new MemoryHypervisor();
}

/** Source: libvirt virDomainEventStoppedDetailType. */
const STOPPED_DETAILS = { stopped: 0, crashed: 2 };

class MemoryHypervisor implements FakeHypervisor {
  readonly #daemons = new Map<string, MemoryDaemon>();

  daemonAt(address: HypervisorAddress): MemoryDaemon {
    const key = keyOf(address);
    const daemon = this.#daemons.get(key) ?? new MemoryDaemon();
    this.#daemons.set(key, daemon);
    return daemon;
  }

  async open(address: HypervisorAddress): Promise<HypervisorConnection> {
    await Promise.resolve();
    const daemon = this.#daemons.get(keyOf(address));
    if (daemon?.isRunning !== true) {
      throw new AppError("LIBVIRT_UNREACHABLE", { message: `nobody listens at ${keyOf(address)}` });
    }
    const connection = new MemoryConnection(daemon);
    daemon.connections.add(connection);
    return connection;
  }

  async close(): Promise<void> {
    await Promise.resolve();
    for (const daemon of this.#daemons.values()) daemon.dropConnections("closed");
  }
}

function keyOf(address: HypervisorAddress): string {
  return address.kind === "uri" ? address.uri : `descriptor ${String(address.fd)}`;
}

interface Failure {
  readonly error: unknown;
  readonly isHalf: boolean;
}

interface Broken {
  readonly error: unknown;
  readonly target: DeviceTarget | undefined;
}

class MemoryDaemon implements FakeDaemon {
  unplugPolicy: UnplugPolicy = "grant";
  isRunning = true;
  readonly calls: string[] = [];
  readonly connections = new Set<MemoryConnection>();
  readonly #domains = new Map<string, FakeDomain>();
  readonly #failures = new Map<FakeHypervisorCall, Failure>();
  readonly #broken = new Map<FakeHypervisorCall, Broken>();

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

  endDomain(name: string, how: "stopped" | "crashed"): void {
    if (this.#domains.get(name)?.stop(how) !== true) return;
    const detail = STOPPED_DETAILS[how];
    this.emit({ kind: "lifecycle", domain: name, event: "stopped", detail });
  }

  xmlOf(name: string, target: DeviceTarget): string | undefined {
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
    const name = nameOf(xml);
    const domain = this.#domains.get(name);
    if (domain === undefined) this.#domains.set(name, new FakeDomain(xml, this.#newUuid()));
    else domain.redefine(xml);
    this.emit({ kind: "lifecycle", domain: name, event: "defined", detail: 0 });
  }

  #newUuid(): string {
    return `00000000-0000-4000-8000-${String(this.#domains.size + 1).padStart(12, "0")}`;
  }

  askUnplug(name: string, alias: string): void {
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
  run<T>(call: FakeHypervisorCall, words: readonly string[], effect: () => T): T {
    this.calls.push([call, ...words].join(" "));
    const failure = this.#failures.get(call);
    this.#failures.delete(call);
    const broken = this.#broken.get(call);
    const isHit =
      broken?.target === undefined || words.includes(broken.target) || words.includes("both");
    if (broken !== undefined && isHit) throw broken.error;
    if (failure === undefined) return effect();
    if (failure.isHalf) effect();
    throw failure.error;
  }

  emit(event: HypervisorEvent): void {
    for (const connection of this.connections) connection.emit(event);
  }
}

class MemoryConnection implements HypervisorConnection {
  readonly closed: Promise<ConnectionEnd>;
  readonly #daemon: MemoryDaemon;
  readonly #resolveClosed: (end: ConnectionEnd) => void;
  readonly #listeners = new Set<(event: HypervisorEvent) => void>();

  constructor(daemon: MemoryDaemon) {
    this.#daemon = daemon;
    const { promise, resolve } = Promise.withResolvers<ConnectionEnd>();
    this.closed = promise;
    this.#resolveClosed = resolve;
  }

  findDomain(name: string): Promise<DomainInfo | undefined> {
    return this.#call("findDomain", [name], (daemon) => daemon.find(name)?.info(name));
  }

  readDomainXml(name: string, target: DeviceTarget): Promise<string> {
    return this.#call("readDomainXml", [name, target], (daemon) => daemon.get(name).xml(target));
  }

  defineDomain(xml: string): Promise<void> {
    return this.#call("defineDomain", [], (daemon) => {
      daemon.define(xml);
    });
  }

  startDomain(name: string, how: "running" | "paused" = "running"): Promise<void> {
    const words = how === "paused" ? [name, how] : [name];
    return this.#call("startDomain", words, (daemon) => {
      if (!daemon.get(name).start(how)) return;
      daemon.emit({ kind: "lifecycle", domain: name, event: "started", detail: 0 });
    });
  }

  suspendDomain(name: string): Promise<void> {
    return this.#call("suspendDomain", [name], (daemon) => {
      if (!daemon.get(name).setPaused(true)) return;
      daemon.emit({ kind: "lifecycle", domain: name, event: "suspended", detail: 0 });
    });
  }

  resumeDomain(name: string): Promise<void> {
    return this.#call("resumeDomain", [name], (daemon) => {
      if (!daemon.get(name).setPaused(false)) return;
      daemon.emit({ kind: "lifecycle", domain: name, event: "resumed", detail: 0 });
    });
  }

  rebootDomain(name: string): Promise<void> {
    return this.#call("rebootDomain", [name], (daemon) => {
      daemon.get(name).expectRunning();
    });
  }

  resetDomain(name: string): Promise<void> {
    return this.#call("resetDomain", [name], (daemon) => {
      daemon.get(name).expectRunning();
    });
  }

  shutdownDomain(name: string): Promise<void> {
    return this.#call("shutdownDomain", [name], (daemon) => {
      daemon.get(name);
      daemon.endDomain(name, "stopped");
    });
  }

  destroyDomain(name: string): Promise<void> {
    return this.#call("destroyDomain", [name], (daemon) => {
      daemon.get(name);
      daemon.endDomain(name, "stopped");
    });
  }

  attachDevice(name: string, xml: string, target: AttachTarget): Promise<void> {
    return this.#call("attachDevice", [name, aliasIn(xml), target], (daemon) => {
      daemon.get(name).attach(xml, target);
      if (target === "config") return;
      daemon.emit({ kind: "deviceAdded", domain: name, alias: aliasIn(xml) });
    });
  }

  detachDevice(name: string, alias: string, target: DeviceTarget): Promise<void> {
    return this.#call("detachDevice", [name, alias, target], (daemon) => {
      daemon.get(name).expectDevice(alias, target);
      if (target === "config") daemon.get(name).remove(alias, target);
      else daemon.askUnplug(name, alias);
    });
  }

  updateDevice(name: string, xml: string, target: DeviceTarget): Promise<void> {
    return this.#call("updateDevice", [name, aliasIn(xml), target], (daemon) => {
      daemon.get(name).update(xml, target);
    });
  }

  readGuestInterfaces(name: string): Promise<readonly GuestInterface[]> {
    return this.#call("readGuestInterfaces", [name], (daemon) => daemon.get(name).askAgent());
  }

  readGuestSystem(name: string): Promise<GuestSystem> {
    return this.#call("readGuestSystem", [name], (daemon) => {
      const domain = daemon.get(name);
      domain.askAgent(); // which refuses where there is none
      return domain.system;
    });
  }

  readGuestFacts(name: string, topic: GuestTopic): Promise<GuestFacts> {
    return this.#call("readGuestFacts", [name, topic], (daemon) => {
      const domain = daemon.get(name);
      domain.askAgent(); // which refuses where there is none
      return domain.facts.get(topic) ?? {};
    });
  }

  onEvent(listener: (event: HypervisorEvent) => void): () => void {
    this.#listeners.add(listener);
    return () => {
      this.#listeners.delete(listener);
    };
  }

  async close(): Promise<void> {
    await Promise.resolve();
    this.lose({ reason: "closed", by: "us" });
  }

  /** Events come later, as over a socket, and not to those who have gone. */
  emit(event: HypervisorEvent): void {
    queueMicrotask(() => {
      for (const listener of this.#listeners) listener(event);
    });
  }

  lose(end: ConnectionEnd): void {
    this.#daemon.connections.delete(this);
    this.#listeners.clear();
    this.#resolveClosed(end);
  }

  async #call<T>(
    call: FakeHypervisorCall,
    words: readonly string[],
    effect: (daemon: MemoryDaemon) => T,
  ): Promise<T> {
    await Promise.resolve();
    if (!this.#daemon.connections.has(this)) {
      throw new AppError("LIBVIRT_CONNECTION_LOST", { message: (await this.closed).reason });
    }
    return this.#daemon.run(call, words, () => effect(this.#daemon));
  }
}

function aliasIn(xml: string): string {
  return /<alias\s+name=["']([^"']*)["']/.exec(xml)?.[1] ?? "";
}
