// SPDX-License-Identifier: Apache-2.0
// Implements Hypervisor with one supervised child process per node (ADR 0006).
import { AppError, messageOf, type Clock, type Logger } from "@patchbay/base";
import type {
  ChildProcessHandle,
  ChildStarter,
  Hypervisor,
  HypervisorAddress,
  HypervisorConnection,
  OpenOptions,
  ProcessIdentity,
} from "@patchbay/core/interfaces";
import { LibvirtConnection } from "./connection.ts";
import { type Beat, parseBeat, parseReply, type Request } from "./protocol.ts";

/** Delay before the second consecutive restart, milliseconds; then doubled. The first restart is immediate. */
const RESTART_DELAY_MS = 500;
/** Longest delay, because all VMs of the node wait. */
const RESTART_DELAY_MAX_MS = 30_000;
/** A child that lived this long was healthy, so its end counts as the first. */
const HEALTHY_LIFETIME_MS = 60_000;

/** Backoff of restarts, because a guest could otherwise make the child restart endlessly. */
export class RestartBackoff {
  #failures = 0;

  /** The child has ended or failed to start after `livedMs`. */
  recordEnd(livedMs: number): void {
    this.#failures = livedMs >= HEALTHY_LIFETIME_MS ? 1 : this.#failures + 1;
  }

  get delayMs(): number {
    if (this.#failures < 2) return 0;
    return Math.min(RESTART_DELAY_MAX_MS, RESTART_DELAY_MS * 2 ** Math.min(this.#failures - 2, 30));
  }
}

/** Unanswered heartbeats; one may be late because this process was busy. */
const MISSED_HEARTBEATS_MAX = 2;

interface HeartbeatOptions {
  readonly clock: Clock;
  /** Milliseconds between heartbeats; also the longest standstill of libvirt's event loop. */
  readonly beatMs: number;
  /** Aborted when the child has ended. */
  readonly signal: AbortSignal;
  send(): void;
  /** Called once with the reason; then the checks end. */
  onSilent(reason: string): void;
}

export interface Heartbeat {
  accept(beat: Beat): void;
}

/** Detects a child that is stuck in JavaScript or in libvirt, because neither ends by itself. */
export function startHeartbeat(options: HeartbeatOptions): Heartbeat {
  const { clock, beatMs, signal } = options;
  let missed = 0;
  let failure: string | undefined;
  const beat = async (): Promise<void> => {
    while (missed < MISSED_HEARTBEATS_MAX && failure === undefined) {
      options.send();
      missed += 1;
      await clock.sleep(beatMs, signal);
    }
    options.onSilent(failure ?? "it no longer answers");
  };
  beat().catch(() => undefined); // the child has ended
  return {
    accept({ eventLoopAgeMs }): void {
      missed = 0;
      if (eventLoopAgeMs > beatMs) failure = "its libvirt event loop stands still";
    },
  };
}

/** Times are in milliseconds. */
export interface HypervisorOptions {
  readonly starter: ChildStarter;
  readonly clock: Clock;
  readonly logger: Logger;
  /** User of the child, without capabilities: that of the launchers. Unset for the parent's. */
  readonly identity?: ProcessIdentity;
  /** Deadline of each call. Default 40 000, because libvirt abandons a busy domain after 30 s. */
  readonly callTimeoutMs?: number;
  /** Deadline of opening. Default 30 000, because a new daemon first probes QEMU, which took 8 s in a measurement. */
  readonly openTimeoutMs?: number;
  /** Stuck connections before the child is replaced. Default 4. */
  readonly stuckMax?: number;
  /** Time after which an abandoned connection counts as stuck. Default 30 000, because libvirt notices silence after 20 s. */
  readonly stuckAfterMs?: number;
  /** Time between heartbeats; a child that misses two is replaced. Default 5000. */
  readonly beatMs?: number;
}

const DEFAULTS = {
  callTimeoutMs: 40_000,
  openTimeoutMs: 30_000,
  stuckMax: 4,
  stuckAfterMs: 30_000,
  beatMs: 5000,
};

/** Deadline for the child to load libvirt and drop its privileges. */
const READY_TIMEOUT_MS = 15_000;

/** Prevents libvirt from reading configuration and from starting a daemon. */
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

/** Starts the child at the first `open`, and after it died at the next one. */
export function createHypervisor(options: HypervisorOptions): Hypervisor {
  return new LibvirtHypervisor({ ...DEFAULTS, ...options });
}

interface Child {
  readonly process: ChildProcessHandle;
  readonly connections: Map<number, LibvirtConnection>;
  /** Abandoned by the parent, but not ended in the child. */
  readonly ending: Set<number>;
  /** Those of `ending` that are stuck in libvirt. */
  readonly stuck: Set<number>;
  /** Aborted when the child has ended. */
  readonly end: AbortController;
  readonly startedMs: number;
}

class LibvirtHypervisor implements Hypervisor {
  readonly #options: HypervisorOptions & typeof DEFAULTS;
  /** The child for new connections. */
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
      () => undefined, // the child has ended, and the connection with it
    );
  }

  #addStuck(child: Child, id: number): void {
    child.stuck.add(id);
    if (child.stuck.size > this.#options.stuckMax) {
      this.#replace(child, "too many connections hang");
    }
  }

  /** The next open starts another child. */
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
    const heart = this.#startHeartbeat(child);
    child.process.onMessage((message) => {
      const beat = parseBeat(message);
      if (beat === undefined) this.#accept(child, message);
      else heart.accept(beat);
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
      connection.lose(`the libvirt child ended: ${reason}`, "client");
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
