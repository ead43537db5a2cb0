// SPDX-License-Identifier: Apache-2.0
import { AppError } from "@patchbay/base";
import type {
  AttachTarget,
  ConnectionEnd,
  DeviceTarget,
  DomainInfo,
  GuestFacts,
  GuestInterface,
  GuestSystem,
  GuestTopic,
  HypervisorConnection,
  HypervisorEvent,
  JobStats,
  Migration,
} from "@patchbay/core/interfaces";
import type { FakeHypervisorCall, MemoryDaemon } from "./hypervisor-daemon.ts";

/** Connection to a daemon in memory: calls take effect at once, and events arrive later. */
export class MemoryConnection implements HypervisorConnection {
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

  readDomainXml(name: string, part: DeviceTarget | "moving"): Promise<string> {
    return this.#call("readDomainXml", [name, part], (daemon) =>
      daemon.get(name).xml(part === "config" ? "config" : "live"),
    );
  }

  defineDomain(xml: string): Promise<void> {
    return this.#call("defineDomain", [], (daemon) => {
      daemon.define(xml);
    });
  }

  startDomain(name: string, how: "running" | "paused" = "running"): Promise<void> {
    const args = how === "paused" ? [name, how] : [name];
    return this.#call("startDomain", args, (daemon) => {
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
      else daemon.requestUnplug(name, alias);
    });
  }

  updateDevice(name: string, xml: string, target: DeviceTarget): Promise<void> {
    return this.#call("updateDevice", [name, aliasIn(xml), target], (daemon) => {
      daemon.get(name).update(xml, target);
    });
  }

  readGuestInterfaces(name: string): Promise<readonly GuestInterface[]> {
    return this.#call("readGuestInterfaces", [name], (daemon) => daemon.get(name).queryAgent());
  }

  readGuestSystem(name: string): Promise<GuestSystem> {
    return this.#call("readGuestSystem", [name], (daemon) => {
      const domain = daemon.get(name);
      domain.queryAgent(); // throws if there is no agent
      return domain.system;
    });
  }

  readGuestFacts(name: string, topic: GuestTopic): Promise<GuestFacts> {
    return this.#call("readGuestFacts", [name, topic], (daemon) => {
      const domain = daemon.get(name);
      domain.queryAgent(); // throws if there is no agent
      return domain.facts.get(topic) ?? {};
    });
  }

  migrateDomain(name: string, migration: Migration): Promise<void> {
    return this.#call("migrateDomain", [name, migration.peerUri], (daemon) =>
      daemon.move(name, migration),
    );
  }

  readJob(name: string): Promise<JobStats> {
    return this.#call("readJob", [name], (daemon): JobStats => {
      daemon.get(name);
      const { moveStats } = daemon;
      return daemon.isMoving(name)
        ? { state: "running", move: "out", ...moveStats }
        : { state: "none" };
    });
  }

  abortJob(name: string): Promise<void> {
    return this.#call("abortJob", [name], (daemon) => {
      daemon.get(name);
      daemon.abortMove(name);
    });
  }

  setMaxDowntime(name: string, downtimeMs: number): Promise<void> {
    return this.#call("setMaxDowntime", [name, String(downtimeMs)], (daemon) => {
      daemon.get(name).expectRunning();
    });
  }

  setMaxSpeed(name: string, mibPerSecond: number): Promise<void> {
    return this.#call("setMaxSpeed", [name, String(mibPerSecond)], (daemon) => {
      daemon.get(name);
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

  /** Delivers the event later, as a socket does, and not to removed listeners. */
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
    args: readonly string[],
    effect: (daemon: MemoryDaemon) => T | Promise<T>,
  ): Promise<T> {
    await Promise.resolve();
    if (!this.#daemon.connections.has(this)) {
      throw new AppError("LIBVIRT_CONNECTION_LOST", { message: (await this.closed).reason });
    }
    return this.#daemon.run(call, args, () => effect(this.#daemon));
  }
}

function aliasIn(xml: string): string {
  return /<alias\s+name=["']([^"']*)["']/.exec(xml)?.[1] ?? "";
}
