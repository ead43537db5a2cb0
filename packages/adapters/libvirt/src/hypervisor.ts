// SPDX-License-Identifier: Apache-2.0
// The port, over one supervised child for the node (ADR 0006): starts it, replaces it, and keeps connections apart.
import { AppError, messageOf } from "@patchbay/core";
import type {
  ChildProcessHandle,
  ChildStarter,
  Clock,
  Hypervisor,
  HypervisorAddress,
  HypervisorConnection,
  Logger,
  OpenOptions,
  ProcessIdentity,
} from "@patchbay/core/ports";
import { LibvirtConnection } from "./connection.ts";
import { watchHeart, type Heart } from "./heartbeat.ts";
import { parseBeat, parseReply, type Request } from "./protocol.ts";
import { Restarts } from "./restarts.ts";

/** How the child is started, and for how long what is waited for; times are in milliseconds. */
export interface HypervisorOptions {
  readonly starter: ChildStarter;
  readonly clock: Clock;
  readonly logger: Logger;
  /** Whom the child becomes, without any capability: the user of the launchers. Absent: as the parent. */
  readonly identity?: ProcessIdentity;
  /** Deadline of each call. Default 40 000: libvirt itself gives up a busy domain after 30 s. */
  readonly callTimeoutMs?: number;
  /** Deadline of opening. Default 30 000: a new daemon probes QEMU first, 8 s measured. */
  readonly openTimeoutMs?: number;
  /** How many connections may hang in libvirt before the child is replaced. Default 4. */
  readonly stuckMax?: number;
  /** So long after it was given up a connection counts as hanging. Default 30 000: libvirt notices silence after 20 s. */
  readonly stuckAfterMs?: number;
  /** Time between two questions whether the child lives; one that is silent for two of them is replaced. Default 5000. */
  readonly beatMs?: number;
}

const DEFAULTS = {
  callTimeoutMs: 40_000,
  openTimeoutMs: 30_000,
  stuckMax: 4,
  stuckAfterMs: 30_000,
  beatMs: 5000,
};

/** How long the child may take to load libvirt and drop its privileges. */
const READY_TIMEOUT_MS = 15_000;

/** No configuration of anybody is read, no daemon is started. */
const CHILD_ENV = {
  HOME: "/nonexistent",
  XDG_CACHE_HOME: "/nonexistent",
  XDG_CONFIG_HOME: "/nonexistent",
  XDG_RUNTIME_DIR: "/nonexistent",
  LIBVIRT_AUTOSTART: "0",
  LC_ALL: "C",
};

/** From sources the child runs sources too. */
const childModule = import.meta.url.endsWith(".ts")
  ? new URL("./child.ts", import.meta.url).href
  : new URL("./child.js", import.meta.url).href;

/** libvirt in a child process that is started at the first `open`, and again at the next one after it died. */
export function createHypervisor(options: HypervisorOptions): Hypervisor {
  return new LibvirtHypervisor({ ...DEFAULTS, ...options });
}

/** A child and what runs in it. */
interface Child {
  readonly process: ChildProcessHandle;
  readonly connections: Map<number, LibvirtConnection>;
  /** Given up by us, while the child's half has not ended. */
  readonly ending: Set<number>;
  /** Those of `ending` that hang in libvirt. */
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
  readonly #restarts = new Restarts();
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
    await connection.open(requestFor(address, id, child.process), timeoutMs);
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
        this.#giveUp(child, id);
      },
    });
    child.connections.set(id, connection);
    return connection;
  }

  #giveUp(child: Child, id: number): void {
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
      this.#discard(child, "too many connections hang");
    }
  }

  /** Kills a child; the next open starts another. */
  #discard(child: Child, reason: string): void {
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
      return Promise.reject(unreachable("the hypervisor is closed"));
    this.#child ??= this.#startChild();
    return this.#child;
  }

  async #startChild(): Promise<Child> {
    const { clock, logger } = this.#options;
    const { pauseMs } = this.#restarts;
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
      this.#restarts.noteEnd(clock.monotonicMs() - startedMs);
      throw unreachable(messageOf(error), error);
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
    const heart = this.#watchHeart(child);
    child.process.onMessage((message) => {
      const beat = parseBeat(message);
      if (beat === undefined) this.#accept(child, message);
      else heart.accept(beat);
    });
    void child.process.ended.then((reason) => {
      this.#end(child, reason);
    });
  }

  #watchHeart(child: Child): Heart {
    const { clock, beatMs } = this.#options;
    return watchHeart({
      clock,
      beatMs,
      signal: child.end.signal,
      ask: () => {
        child.process.send({ kind: "beat" });
      },
      onSilent: (reason) => {
        this.#discard(child, reason);
      },
    });
  }

  #accept(child: Child, message: unknown): void {
    const reply = parseReply(message);
    if (reply === undefined) {
      this.#discard(child, "it broke the protocol");
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
    this.#restarts.noteEnd(this.#options.clock.monotonicMs() - child.startedMs);
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

function requestFor(address: HypervisorAddress, id: number, process: ChildProcessHandle): Request {
  if (address.kind === "uri") return { kind: "open", connection: id, uri: address.uri };
  process.sendDescriptor(address.fd, id);
  return { kind: "openSocket", connection: id };
}

function unreachable(message: string, cause?: unknown): AppError {
  return new AppError("LIBVIRT_UNREACHABLE", { message }, { cause });
}
