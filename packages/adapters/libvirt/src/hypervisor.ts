// SPDX-License-Identifier: Apache-2.0
// Implements Hypervisor with one supervised child process per node (ADR 0006). Calls of a connection run one after
// another, have time limits, and fail when the connection is lost.
import { AppError, isAppError, type Clock, messageOf, type Logger } from "@patchbay/base";
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
  ChildProcessHandle,
  ChildStarter,
  Hypervisor,
  HypervisorAddress,
  OpenOptions,
  ProcessIdentity,
} from "@patchbay/core/interfaces";
import { MIGRATE_CALL, toAppError, type FailedCall } from "./errors.ts";
import {
  readGuestRoutes,
  parseGuestAgent,
  parseGuestFacts,
  parseGuestFreeze,
  parseGuestInterfaces,
  parseGuestSystem,
} from "./guest-agent.ts";
import { buildMigrationArguments, parseJob } from "./migration.ts";
import {
  OPEN_CALL,
  parseDomain,
  type NativeError,
  type Reply,
  type Request,
  parseBeat,
  parseReply,
  startHeartbeat,
  type Heartbeat,
} from "./protocol.ts";

interface ConnectionLink {
  readonly id: number;
  readonly clock: Clock;
  readonly callTimeoutMs: number;
  send(request: Request): void;
  /** Called once when the connection is lost or closed. The connection's thread in the child may still run. */
  onLost(): void;
}

type CallAnswer =
  | { readonly kind: "value"; readonly value: unknown }
  | { readonly kind: "error"; readonly error: NativeError }
  | { readonly kind: "lost" }
  | { readonly kind: "late" };

const CALL_WITHOUT_DEADLINE = "migrateDomain";

/** Represents a libvirt connection that the child process holds. After the connection is lost, all calls fail. */
export class LibvirtConnection implements HypervisorConnection {
  readonly closed: Promise<ConnectionEnd>;
  readonly #link: ConnectionLink;
  readonly #resolveClosed: (end: ConnectionEnd) => void;
  readonly #listeners = new Set<(event: HypervisorEvent) => void>();
  readonly #answers = new Map<number, (answer: CallAnswer) => void>();
  #lastCall = OPEN_CALL;
  #previousCall: Promise<unknown> = Promise.resolve();
  #lostReason: string | undefined;

  constructor(link: ConnectionLink) {
    this.#link = link;
    const { promise, resolve } = Promise.withResolvers<ConnectionEnd>();
    this.closed = promise;
    this.#resolveClosed = resolve;
  }

  async open(request: Request, timeoutMs: number): Promise<void> {
    const answer = await this.#request(OPEN_CALL, request, timeoutMs);
    if (answer.kind === "value") return;
    this.abandon("it was never opened");
    if (answer.kind === "late") throw timedOutError("virConnectOpen", timeoutMs);
    const message = answer.kind === "error" ? answer.error.message : "the connection was lost";
    throw new AppError("LIBVIRT_UNREACHABLE", { message });
  }

  accept(reply: Reply): void {
    switch (reply.kind) {
      case "result":
        this.#answers.get(reply.call)?.({ kind: "value", value: reply.value });
        return;
      case "failed":
        this.#answers.get(reply.call)?.({ kind: "error", error: reply.error });
        return;
      case "event":
        if (this.#lostReason !== undefined) return;
        for (const listener of this.#listeners) listener(reply.event);
        return;
      case "lost":
        this.abandon(reply.reason);
        return;
      case "ended":
        this.abandon("it has ended");
    }
  }

  abandon(reason: string, by: ConnectionEnd["by"] = "daemon"): void {
    if (this.#lostReason !== undefined) return;
    this.#lostReason = reason;
    for (const answer of this.#answers.values()) answer({ kind: "lost" });
    this.#listeners.clear();
    this.#link.send({ kind: "close", connection: this.#link.id });
    this.#resolveClosed({ reason, by });
    this.#link.onLost();
  }

  async findDomain(name: string): Promise<DomainInfo | undefined> {
    const value = await this.#run("findDomain", [name], { call: "virDomainLookupByName" });
    return parseDomain(value);
  }

  async readDomainXml(name: string, part: DeviceTarget | "moving"): Promise<string> {
    const call = { call: "virDomainGetXMLDesc", domain: name };
    const xml = await this.#run("readDomainXml", [name, part], call);
    return typeof xml === "string" ? xml : "";
  }

  async defineDomain(xml: string): Promise<void> {
    await this.#run("defineDomain", [xml], { call: "virDomainDefineXMLFlags" });
  }

  async startDomain(name: string, initialState: "running" | "paused" = "running"): Promise<void> {
    const call = { call: "virDomainCreateWithFlags", domain: name };
    await this.#run("startDomain", [name, initialState], call);
  }

  async shutdownDomain(name: string): Promise<void> {
    await this.#run("shutdownDomain", [name], { call: "virDomainShutdown", domain: name });
  }

  async destroyDomain(name: string): Promise<void> {
    await this.#run("destroyDomain", [name], { call: "virDomainDestroy", domain: name });
  }

  async suspendDomain(name: string): Promise<void> {
    await this.#run("suspendDomain", [name], { call: "virDomainSuspend", domain: name });
  }

  async resumeDomain(name: string): Promise<void> {
    await this.#run("resumeDomain", [name], { call: "virDomainResume", domain: name });
  }

  async rebootDomain(name: string): Promise<void> {
    await this.#run("rebootDomain", [name], { call: "virDomainReboot", domain: name });
  }

  async resetDomain(name: string): Promise<void> {
    await this.#run("resetDomain", [name], { call: "virDomainReset", domain: name });
  }

  async attachDevice(name: string, xml: string, target: AttachTarget): Promise<void> {
    const call = { call: "virDomainAttachDeviceFlags", domain: name, ...findAlias(xml) };
    await this.#run("attachDevice", [name, xml, target], call);
  }

  async detachDevice(name: string, alias: string, target: DeviceTarget): Promise<void> {
    const call = { call: "virDomainDetachDeviceAlias", domain: name, device: alias };
    await this.#run("detachDevice", [name, alias, target], call);
  }

  async updateDevice(name: string, xml: string, target: DeviceTarget): Promise<void> {
    const call = { call: "virDomainUpdateDeviceFlags", domain: name, ...findAlias(xml) };
    await this.#run("updateDevice", [name, xml, target], call);
  }

  async readGuestInterfaces(name: string): Promise<readonly GuestInterface[]> {
    const call = { call: "virDomainInterfaceAddresses", domain: name };
    return parseGuestInterfaces(await this.#run("readGuestInterfaces", [name], call));
  }

  async readGuestSystem(name: string): Promise<GuestSystem> {
    const call = { call: "virDomainGetGuestInfo", domain: name };
    return parseGuestSystem(await this.#run("readGuestInfo", [name, "system"], call));
  }

  async readGuestFacts(name: string, topic: GuestTopic): Promise<GuestFacts> {
    const failedCall = { call: "virDomainQemuAgentCommand", domain: name };
    if (topic === "routes") {
      return readGuestRoutes((command, file) =>
        file === undefined
          ? this.#run("askGuestAgent", [name, command], failedCall)
          : this.#run("askAboutGuestFile", [name, command, file], failedCall),
      );
    }
    if (topic === "agent" || topic === "freeze") {
      const parse = topic === "agent" ? parseGuestAgent : parseGuestFreeze;
      return parse(await this.#run("askGuestAgent", [name, topic], failedCall));
    }
    const call = { call: "virDomainGetGuestInfo", domain: name };
    return parseGuestFacts(await this.#run("readGuestInfo", [name, topic], call));
  }

  async migrateDomain(name: string, migration: Migration): Promise<void> {
    const call = { call: MIGRATE_CALL, domain: name };
    await this.#run("migrateDomain", buildMigrationArguments(name, migration), call);
  }

  async readJob(name: string): Promise<JobStats> {
    const call = { call: "virDomainGetJobStats", domain: name };
    return parseJob(await this.#run("readJob", [name], call));
  }

  async abortJob(name: string): Promise<void> {
    await this.#run("abortJob", [name], { call: "virDomainAbortJob", domain: name });
  }

  async setMaxDowntime(name: string, downtimeMs: number): Promise<void> {
    const call = { call: "virDomainMigrateSetMaxDowntime", domain: name };
    await this.#run("setMaxDowntime", [name, String(downtimeMs)], call);
  }

  async setMaxSpeed(name: string, mibPerSecond: number): Promise<void> {
    const call = { call: "virDomainMigrateSetMaxSpeed", domain: name };
    await this.#run("setMaxSpeed", [name, String(mibPerSecond)], call);
  }

  onEvent(listener: (event: HypervisorEvent) => void): () => void {
    this.#listeners.add(listener);
    return () => {
      this.#listeners.delete(listener);
    };
  }

  close(): Promise<void> {
    this.abandon("closed", "us");
    return Promise.resolve();
  }

  /** Runs a call after all previous calls of the connection have succeeded or failed. */
  #run(operation: string, args: readonly string[], failed: FailedCall): Promise<unknown> {
    const result = this.#previousCall.then(() => this.#call(operation, args, failed));
    this.#previousCall = result.catch(() => undefined);
    return result;
  }

  async #call(operation: string, args: readonly string[], failed: FailedCall): Promise<unknown> {
    this.#lastCall += 1;
    const { id: connection, callTimeoutMs } = this.#link;
    const call = this.#lastCall;
    const request = { kind: "call", connection, call, operation, arguments: args } as const;
    const timeoutMs = operation === CALL_WITHOUT_DEADLINE ? undefined : callTimeoutMs;
    const answer = await this.#request(call, request, timeoutMs);
    switch (answer.kind) {
      case "value":
        return answer.value;
      case "late":
        this.abandon(`no answer to ${failed.call}`);
        throw timedOutError(failed.call, callTimeoutMs);
      case "lost":
        throw this.#lostError();
      case "error": {
        const error = toAppError(answer.error, failed);
        if (isAppError(error, "LIBVIRT_CONNECTION_LOST")) this.abandon(answer.error.message);
        throw error;
      }
    }
  }

  async #request(
    call: number,
    request: Request,
    timeoutMs: number | undefined,
  ): Promise<CallAnswer> {
    if (this.#lostReason !== undefined) return { kind: "lost" };
    const { promise, resolve } = Promise.withResolvers<CallAnswer>();
    const deadline = new AbortController();
    this.#answers.set(call, resolve);
    if (timeoutMs !== undefined) {
      this.#link.clock.sleep(timeoutMs, deadline.signal).then(
        () => {
          resolve({ kind: "late" });
        },
        () => undefined,
      );
    }
    try {
      this.#link.send(request);
      return await promise;
    } finally {
      this.#answers.delete(call);
      deadline.abort(new Error("answered"));
    }
  }

  #lostError(): AppError {
    return new AppError("LIBVIRT_CONNECTION_LOST", { message: this.#lostReason ?? "unknown" });
  }
}

function findAlias(xml: string): Pick<FailedCall, "device"> {
  const device = /<alias\s+name=["']([^"']*)["']/.exec(xml)?.[1];
  return device === undefined ? {} : { device };
}

function timedOutError(call: string, timeoutMs: number): AppError {
  return new AppError("LIBVIRT_TIMED_OUT", { call, timeoutMs });
}

/** Delay before the second consecutive restart, in milliseconds. Each further restart doubles the delay. */
const RESTART_DELAY_MS = 500;
/** Maximum delay before the child is restarted, in milliseconds. During this delay, no VM of the node can be managed. */
const RESTART_DELAY_MAX_MS = 30_000;
/** If a child lived at least this long, in milliseconds, its end restarts the failure count at 1. */
const HEALTHY_LIFETIME_MS = 60_000;

/** Delays restarts of the child, because a hostile guest could crash the child repeatedly. */
export class RestartBackoff {
  #failures = 0;

  recordEnd(livedMs: number): void {
    this.#failures = livedMs >= HEALTHY_LIFETIME_MS ? 1 : this.#failures + 1;
  }

  get delayMs(): number {
    if (this.#failures < 2) return 0;
    return Math.min(RESTART_DELAY_MAX_MS, RESTART_DELAY_MS * 2 ** Math.min(this.#failures - 2, 30));
  }
}

export interface HypervisorOptions {
  readonly starter: ChildStarter;
  readonly clock: Clock;
  readonly logger: Logger;
  /** User to which the child switches to drop its privileges. If unset, the child retains the parent's user and privileges. */
  readonly identity?: ProcessIdentity;
  /** Time limit of each call, in milliseconds. Default: 40 000, above the 30 s that libvirt waits for a busy domain. */
  readonly callTimeoutMs?: number;
  /** Time limit of `open`, in milliseconds. Default: 30 000, because a new daemon may need 8 s to probe QEMU. */
  readonly openTimeoutMs?: number;
  /** Maximum number of stuck connections of a child. If more connections are stuck, the child is replaced. Default: 4. */
  readonly stuckMax?: number;
  /** Milliseconds until an abandoned connection counts as stuck. Default: 30 000, because libvirt detects a dead peer only after 20 s. */
  readonly stuckAfterMs?: number;
  /** Interval of heartbeats, in milliseconds. Default: 5000. A child that misses two heartbeats is replaced. */
  readonly beatMs?: number;
}

const DEFAULTS = {
  callTimeoutMs: 40_000,
  openTimeoutMs: 30_000,
  stuckMax: 4,
  stuckAfterMs: 30_000,
  beatMs: 5000,
};

/** Time limit for the child to load libvirt and to drop its privileges, in milliseconds. */
const READY_TIMEOUT_MS = 15_000;

/** Environment that prevents libvirt from reading configuration files and from starting a daemon. */
const CHILD_ENV = {
  HOME: "/nonexistent",
  XDG_CACHE_HOME: "/nonexistent",
  XDG_CONFIG_HOME: "/nonexistent",
  XDG_RUNTIME_DIR: "/nonexistent",
  LIBVIRT_AUTOSTART: "0",
  LC_ALL: "C",
};

const childModule = import.meta.url.endsWith(".ts")
  ? new URL("./child.ts", import.meta.url).href
  : new URL("./child.js", import.meta.url).href;

/** Creates a hypervisor. `open` starts a child process if none is running. */
export function createHypervisor(options: HypervisorOptions): Hypervisor {
  return new LibvirtHypervisor({ ...DEFAULTS, ...options });
}

interface Child {
  readonly process: ChildProcessHandle;
  readonly connections: Map<number, LibvirtConnection>;
  /** IDs of abandoned connections whose threads have not ended. */
  readonly ending: Set<number>;
  /** IDs of abandoned connections whose threads are stuck in libvirt. */
  readonly stuck: Set<number>;
  readonly end: AbortController;
  readonly startedMs: number;
}

class LibvirtHypervisor implements Hypervisor {
  readonly #options: HypervisorOptions & typeof DEFAULTS;
  /** Child process for new connections. If undefined, the next `open` starts a child. */
  #child: Promise<Child> | undefined;
  #current: Child | undefined;
  #lastConnection = 0;
  readonly #restarts = new RestartBackoff();
  readonly #closing = new AbortController();

  constructor(options: HypervisorOptions & typeof DEFAULTS) {
    this.#options = options;
  }

  async open(
    address: HypervisorAddress,
    { timeoutMs = this.#options.openTimeoutMs }: OpenOptions = {},
  ): Promise<HypervisorConnection> {
    const child = await this.#getChild();
    this.#lastConnection += 1;
    const id = this.#lastConnection;
    const connection = this.#connect(child, id);
    await connection.open(openRequest(address, id, child.process), timeoutMs);
    return connection;
  }

  async close(): Promise<void> {
    this.#closing.abort(new Error("the hypervisor is closed"));
    const child = await this.#child?.catch(() => undefined);
    child?.process.kill();
    await child?.process.ended;
  }

  #connect(child: Child, id: number): LibvirtConnection {
    const connection = new LibvirtConnection({
      id,
      clock: this.#options.clock,
      callTimeoutMs: this.#options.callTimeoutMs,
      send: (request) => {
        child.process.send(request);
      },
      onLost: () => {
        this.#abandon(child, id);
      },
    });
    child.connections.set(id, connection);
    return connection;
  }

  #abandon(child: Child, id: number): void {
    if (!child.connections.delete(id)) return;
    child.ending.add(id);
    this.#options.clock.sleep(this.#options.stuckAfterMs, child.end.signal).then(
      () => {
        if (child.ending.has(id)) this.#addStuck(child, id);
      },
      () => undefined, // The child has ended.
    );
  }

  #addStuck(child: Child, id: number): void {
    child.stuck.add(id);
    if (child.stuck.size > this.#options.stuckMax) {
      this.#replace(child, "too many connections hang");
    }
  }

  #replace(child: Child, reason: string): void {
    this.#options.logger.warn("replacing the libvirt child", { reason });
    this.#forget(child);
    child.process.kill();
  }

  #forget(child: Child): void {
    if (this.#current !== child) return;
    this.#current = undefined;
    this.#child = undefined;
  }

  #getChild(): Promise<Child> {
    if (this.#closing.signal.aborted)
      return Promise.reject(unreachableError("the hypervisor is closed"));
    this.#child ??= this.#startChild();
    return this.#child;
  }

  async #startChild(): Promise<Child> {
    const { clock, logger } = this.#options;
    const { delayMs: pauseMs } = this.#restarts;
    let startedMs = clock.monotonicMs();
    try {
      if (pauseMs > 0) {
        logger.warn("the libvirt child dies too often", { pauseMs });
        await clock.sleep(pauseMs, this.#closing.signal);
        startedMs = clock.monotonicMs();
      }
      const process = await this.#spawn();
      const child: Child = {
        process,
        connections: new Map(),
        ending: new Set(),
        stuck: new Set(),
        end: new AbortController(),
        startedMs,
      };
      this.#current = child;
      this.#supervise(child);
      logger.info("started the libvirt child", { pid: process.pid });
      return child;
    } catch (error) {
      this.#child = undefined;
      this.#restarts.recordEnd(clock.monotonicMs() - startedMs);
      throw unreachableError(messageOf(error), error);
    }
  }

  #spawn(): Promise<ChildProcessHandle> {
    const { identity, starter } = this.#options;
    return starter.start({
      module: childModule,
      env: CHILD_ENV,
      readyTimeoutMs: READY_TIMEOUT_MS,
      ...(identity === undefined ? {} : { identity }),
    });
  }

  #supervise(child: Child): void {
    const heartbeat = this.#startHeartbeat(child);
    child.process.onMessage((message) => {
      const beat = parseBeat(message);
      if (beat === undefined) this.#accept(child, message);
      else heartbeat.accept(beat);
    });
    void child.process.ended.then((reason) => {
      this.#end(child, reason);
    });
  }

  #startHeartbeat(child: Child): Heartbeat {
    const { clock, beatMs } = this.#options;
    return startHeartbeat({
      clock,
      beatMs,
      signal: child.end.signal,
      send: () => {
        child.process.send({ kind: "beat" });
      },
      onSilent: (reason) => {
        this.#replace(child, reason);
      },
    });
  }

  #accept(child: Child, message: unknown): void {
    const reply = parseReply(message);
    if (reply === undefined) {
      this.#replace(child, "it broke the protocol");
      return;
    }
    child.connections.get(reply.connection)?.accept(reply);
    if (reply.kind !== "ended") return;
    child.ending.delete(reply.connection);
    child.stuck.delete(reply.connection);
  }

  #end(child: Child, reason: string): void {
    this.#forget(child);
    child.end.abort(new Error("the child ended"));
    this.#restarts.recordEnd(this.#options.clock.monotonicMs() - child.startedMs);
    if (!this.#closing.signal.aborted) {
      this.#options.logger.warn("the libvirt child ended", { reason });
    }
    const connections = [...child.connections.values()];
    child.connections.clear();
    for (const connection of connections) {
      connection.abandon(`the libvirt child ended: ${reason}`, "client");
    }
  }
}

function openRequest(address: HypervisorAddress, id: number, process: ChildProcessHandle): Request {
  if (address.kind === "uri") return { kind: "open", connection: id, uri: address.uri };
  process.sendDescriptor(address.fd, id);
  return { kind: "openSocket", connection: id };
}

function unreachableError(message: string, cause?: unknown): AppError {
  return new AppError("LIBVIRT_UNREACHABLE", { message }, { cause });
}
