// SPDX-License-Identifier: Apache-2.0
import type { IncomingMessage } from "node:http";
import { connect, type Socket } from "node:net";
import {
  AppError,
  messageOf,
  type Clock,
  type Logger,
  KeyedMutex,
  SharePool,
} from "@patchbay/base";
import type { ContainerRuntime, ExecPrograms } from "@patchbay/core/interfaces";

export interface Upgrade {
  readonly request: IncomingMessage;
  readonly socket: Socket;
  readonly head: Buffer;
}

const CONNECT_TIMEOUT_MS = 5000;

const CLOSE_TIMEOUT_MS = 5000;

function buildRequestHead({ method = "POST", rawHeaders }: IncomingMessage, url: URL): string {
  const lines = [`${method} ${url.pathname}${url.search} HTTP/1.1`, `Host: ${url.host}`];
  for (let index = 0; index < rawHeaders.length; index += 2) {
    const name = rawHeaders[index] ?? "";
    if (name.toLowerCase() !== "host") lines.push(`${name}: ${rawHeaders[index + 1] ?? ""}`);
  }
  return `${lines.join("\r\n")}\r\n\r\n`;
}

function unavailableError(url: URL, reason: string, cause?: unknown): AppError {
  return new AppError("CRI_UNAVAILABLE", { endpoint: url.origin, reason }, { cause });
}

async function connectTo(url: URL): Promise<Socket> {
  if (url.protocol !== "http:") throw unavailableError(url, "its streams are not plain HTTP");
  const { promise, resolve, reject } = Promise.withResolvers<undefined>();
  const host = url.hostname.replace(/^\[|\]$/g, "");
  const remote = connect({ host, port: Number(url.port || "80"), noDelay: true });
  const onTimeout = (): void => {
    reject(unavailableError(url, `no connection within ${String(CONNECT_TIMEOUT_MS)} ms`));
  };
  remote.setTimeout(CONNECT_TIMEOUT_MS, onTimeout);
  remote.once("error", (error) => {
    reject(unavailableError(url, error.message, error));
  });
  remote.once("connect", () => {
    resolve(undefined);
  });
  try {
    await promise;
  } catch (error) {
    remote.destroy();
    throw error;
  }
  remote.setTimeout(0);
  remote.off("timeout", onTimeout);
  return remote;
}

export interface JoinedStream {
  /** Resolves with "ended" when the program exits first, or with "left" when the client disconnects first. */
  readonly closed: Promise<"ended" | "left">;
  close(): void;
}

function connectStreams(client: Socket, remote: Socket, signal: AbortSignal): JoinedStream {
  const { promise: closed, resolve } = Promise.withResolvers<"ended" | "left">();
  const destroy = (): void => {
    client.destroy();
    remote.destroy();
  };
  signal.addEventListener("abort", destroy, { once: true });
  client.pipe(remote);
  remote.pipe(client);
  client.on("error", destroy);
  remote.on("error", destroy);
  remote.on("close", () => {
    resolve("ended");
    // Node.js keeps HTTP sockets half open, so a client that never closes its side needs a deadline.
    client.end();
    client.setTimeout(CLOSE_TIMEOUT_MS, destroy);
  });
  client.on("close", () => {
    resolve("left");
    signal.removeEventListener("abort", destroy);
    remote.destroySoon();
  });
  return { closed, close: destroy };
}

function hasDisconnected(client: Socket): boolean {
  return client.destroyed;
}

/**
 * Connects the client with the runtime. Returns undefined if the client disconnects before the runtime is connected.
 * @throws AppError with CRI_UNAVAILABLE before the client receives a response
 */
export async function joinStream(
  { request, socket, head }: Upgrade,
  target: string,
  signal: AbortSignal,
): Promise<JoinedStream | undefined> {
  if (hasDisconnected(socket)) return undefined;
  const url = new URL(target);
  const remote = await connectTo(url);
  if (hasDisconnected(socket)) {
    remote.destroy(); // The client has already disconnected, so no later close event would end the session.
    return undefined;
  }
  remote.write(buildRequestHead(request, url));
  remote.write(head);
  return connectStreams(socket, remote, signal);
}

export const SESSIONS_MAX = 32;
const ALL_SESSIONS_MAX = 1024;

/** Maximum time from opening the streams until the runtime lists the program. */
const START_TIMEOUT_MS = 10_000;
/** Maximum time from the client's disconnection until the runtime lists the program. */
const LATE_START_MS = 1000;
const POLL_INTERVAL = { firstMs: 10, maxMs: 200 };
const INPUT_END_GRACE_MS = 500;
const KILL_RETRIES = { tries: 20, pauseMs: 1000 };

/** Pattern of the ids of exec programs. Ids of other processes do not match. Source: util.GenerateID of containerd's CRI plugin. */
const EXEC_ID = /^[0-9a-f]{64}$/;

interface SessionDeps {
  readonly programs: ExecPrograms;
  readonly runtime: Pick<ContainerRuntime, "listContainers">;
  readonly clock: Clock;
  readonly log: Logger;
}

/** Runs exec sessions. Starts a container's programs one by one, so that the id that appears next is the id of the started program. */
export class ExecSessions {
  readonly #deps: SessionDeps;
  readonly #signal: AbortSignal;
  readonly #mutex = new KeyedMutex();
  readonly #sessions = new SharePool({ max: ALL_SESSIONS_MAX, share: SESSIONS_MAX });

  constructor(deps: SessionDeps, signal: AbortSignal) {
    this.#deps = deps;
    this.#signal = signal;
  }

  isFull(containerId: string): boolean {
    return this.#sessions.findShortage(containerId) !== undefined;
  }

  /** Starts a session whose program is killed when the client disconnects. @throws the error of `openStream` */
  async runSession(
    containerId: string,
    openStream: () => Promise<JoinedStream | undefined>,
  ): Promise<void> {
    this.#sessions.spend(containerId, 1);
    try {
      await this.#mutex.runExclusive(containerId, () =>
        this.#startProgram(containerId, openStream),
      );
    } finally {
      this.#sessions.release(containerId, 1);
    }
  }

  /** Kills exec programs that an earlier node-runtime process started. Their clients lost the connection when that process ended. */
  async killOrphans(): Promise<void> {
    try {
      const containers = await this.#deps.runtime.listContainers();
      const runningContainers = containers.filter(({ state }) => state === "RUNNING");
      await Promise.all(runningContainers.map(({ id }) => this.#killOrphansIn(id)));
    } catch (error) {
      this.#deps.log.warn("started exec programs cannot be found", { reason: messageOf(error) });
    }
  }

  async #killOrphansIn(containerId: string): Promise<void> {
    const ids = (await this.#listPrograms(containerId)) ?? [];
    await this.#killPrograms(
      containerId,
      ids.filter((id) => EXEC_ID.test(id)),
    );
  }

  async #startProgram(
    containerId: string,
    openStream: () => Promise<JoinedStream | undefined>,
  ): Promise<void> {
    const existingIds = await this.#listPrograms(containerId);
    const stream = await openStream();
    if (stream === undefined) return;
    const startedIds =
      existingIds === undefined ? [] : await this.#findStarted(containerId, existingIds, stream);
    this.#sessions.spend(containerId, 1);
    void this.#killAfterDisconnect(containerId, startedIds, stream);
  }

  async #killAfterDisconnect(
    containerId: string,
    startedIds: readonly string[],
    stream: JoinedStream,
  ): Promise<void> {
    const outcome = await stream.closed;
    this.#sessions.release(containerId, 1);
    if (outcome === "left" && startedIds.length > 0)
      await this.#killUntilEnded(containerId, startedIds);
  }

  /** Waits until the runtime lists ids that are not in `existingIds`, and returns these ids. If none appear in time, closes the stream. */
  async #findStarted(
    containerId: string,
    existingIds: readonly string[],
    stream: JoinedStream,
  ): Promise<readonly string[]> {
    const { clock } = this.#deps;
    let closeOutcome: string | undefined;
    let deadlineMs = clock.monotonicMs() + START_TIMEOUT_MS;
    void stream.closed.then((outcome) => {
      closeOutcome = outcome;
      deadlineMs = Math.min(deadlineMs, clock.monotonicMs() + LATE_START_MS);
    });
    for (
      let pauseMs = POLL_INTERVAL.firstMs;
      ;
      pauseMs = Math.min(pauseMs * 2, POLL_INTERVAL.maxMs)
    ) {
      const currentIds = (await this.#listPrograms(containerId)) ?? [];
      const startedIds = currentIds.filter((id) => !existingIds.includes(id));
      if (startedIds.length > 0 || closeOutcome === "ended") return startedIds;
      if (clock.monotonicMs() >= deadlineMs || !(await this.#sleep(pauseMs))) break;
    }
    stream.close();
    return [];
  }

  async #killUntilEnded(containerId: string, startedIds: readonly string[]): Promise<void> {
    if (!(await this.#sleep(INPUT_END_GRACE_MS))) return;
    for (let tries = 0; tries < KILL_RETRIES.tries; tries += 1) {
      const currentIds = await this.#listPrograms(containerId);
      const remainingIds = startedIds.filter((id) => currentIds?.includes(id) !== false);
      if (remainingIds.length === 0) return;
      await this.#killPrograms(containerId, remainingIds);
      this.#deps.log.info("exec program killed because its client disconnected", {
        object: containerId,
      });
      if (!(await this.#sleep(KILL_RETRIES.pauseMs))) return;
    }
    this.#deps.log.warn("exec program does not end", { object: containerId });
  }

  async #killPrograms(containerId: string, ids: readonly string[]): Promise<void> {
    for (const id of ids) {
      try {
        await this.#deps.programs.kill(containerId, id);
      } catch (error) {
        const reason = messageOf(error);
        this.#deps.log.debug("exec program cannot be killed", { object: containerId, reason });
      }
    }
  }

  /** Returns the ids of the container's programs; undefined if the runtime cannot list them. */
  async #listPrograms(containerId: string): Promise<readonly string[] | undefined> {
    try {
      return await this.#deps.programs.list(containerId);
    } catch (error) {
      const reason = messageOf(error);
      this.#deps.log.debug("exec programs cannot be listed", { object: containerId, reason });
      return undefined;
    }
  }

  async #sleep(ms: number): Promise<boolean> {
    try {
      await this.#deps.clock.sleep(ms, this.#signal);
      return true;
    } catch {
      return false;
    }
  }
}
