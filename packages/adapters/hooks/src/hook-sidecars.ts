// SPDX-License-Identifier: Apache-2.0
// Implements HookSidecars with one child process per sidecar (ADR 0084).
import { AppError, isAppError, messageOf, type Clock } from "@patchbay/base";
import type {
  ChildProcessHandle,
  ChildStarter,
  CloudInitRequest,
  DefineDomainRequest,
  HookInfo,
  HookSidecar,
  HookSidecars,
  LauncherPod,
  ProcessIdentity,
} from "@patchbay/core/interfaces";
import {
  parseCloudInit,
  parseDomainXml,
  parseInfo,
  parseReply,
  SOCKET_TOKEN,
  type HookCall,
  type Reply,
} from "./messages.ts";

interface OpenSocket {
  readonly fd: number;
  close(): void;
}

export interface HookSidecarsOptions {
  readonly starter: ChildStarter;
  readonly clock: Clock;
  /** User to which the child switches to drop its privileges. If unset, the child retains the parent's user and privileges. */
  readonly identity?: ProcessIdentity;
  /** Opens a hook's socket without following links. @throws AppError with OS_FILE_FAILED, OS_PATH_REFUSED */
  readonly openSocket: (pod: LauncherPod, container: string) => OpenSocket;
  /** Time limit of the call Info, in milliseconds. Default: 5000. */
  readonly infoTimeoutMs?: number;
  /** Time limit of every call except Info, in milliseconds. Default: 60 000, as in KubeVirt. */
  readonly callTimeoutMs?: number;
}

const DEFAULT_TIMEOUTS = { infoTimeoutMs: 5000, callTimeoutMs: 60_000 };
/** Time limit for the child to load gRPC and to drop its privileges, in milliseconds. */
const READY_TIMEOUT_MS = 15_000;
/** Milliseconds after a call's deadline until the parent kills a child that has not replied. */
const STUCK_AFTER_MS = 2000;

const childModule = import.meta.url.endsWith(".ts")
  ? new URL("./child.ts", import.meta.url).href
  : new URL("./child.js", import.meta.url).href;

type Settings = HookSidecarsOptions & typeof DEFAULT_TIMEOUTS;

/** gRPC statuses of an unreachable hook. Source: gRPC core, "Status codes and their use in gRPC" */
const UNREACHABLE_STATUSES: readonly string[] = ["UNAVAILABLE", "CANCELLED"];

class ChildSidecar implements HookSidecar {
  readonly #container: string;
  readonly #child: ChildProcessHandle;
  readonly #settings: Settings;
  readonly #pending = new Map<number, (reply: Reply) => void>();
  readonly #end = new AbortController();
  #lastId = 0;

  constructor(container: string, child: ChildProcessHandle, settings: Settings) {
    this.#container = container;
    this.#child = child;
    this.#settings = settings;
    child.onMessage((message) => {
      const reply = parseReply(message);
      if (reply === undefined) child.kill();
      else this.#resolve(reply);
    });
    void child.ended.then((reason) => {
      this.#end.abort(new Error(reason));
      for (const id of this.#pending.keys()) {
        this.#resolve({
          id,
          failure: { status: "UNAVAILABLE", reason: "the calling process has ended" },
        });
      }
    });
  }

  async info(): Promise<HookInfo> {
    const answer = await this.#call({ method: "Info" }, this.#settings.infoTimeoutMs);
    return parseInfo(answer) ?? this.#invalidAnswer("Info");
  }

  async onDefineDomain(request: DefineDomainRequest): Promise<string> {
    const call = { method: "OnDefineDomain", ...request } as const;
    const answer = await this.#call(call, this.#settings.callTimeoutMs);
    return parseDomainXml(answer) ?? this.#invalidAnswer("OnDefineDomain");
  }

  async preCloudInitIso(request: CloudInitRequest): ReturnType<HookSidecar["preCloudInitIso"]> {
    const call = { method: "PreCloudInitIso", ...request } as const;
    const answer = await this.#call(call, this.#settings.callTimeoutMs);
    return parseCloudInit(answer) ?? this.#invalidAnswer("PreCloudInitIso");
  }

  async shutdown(): Promise<void> {
    await this.#call({ method: "Shutdown" }, this.#settings.callTimeoutMs);
  }

  async close(): Promise<void> {
    this.#child.kill();
    await this.#child.ended;
  }

  #invalidAnswer(call: string): never {
    const reason = "its reply is malformed";
    throw new AppError("HOOK_FAILED", { hook: this.#container, call, reason });
  }

  #resolve(reply: Reply): void {
    const resolve = this.#pending.get(reply.id);
    this.#pending.delete(reply.id);
    resolve?.(reply);
  }

  async #call(call: HookCall, timeoutMs: number): Promise<object> {
    const reply = await this.#send(call, timeoutMs);
    if ("answer" in reply) return reply.answer;
    const { status, reason } = reply.failure;
    const hook = this.#container;
    if (status === "DEADLINE_EXCEEDED") {
      throw new AppError("HOOK_TIMED_OUT", { hook, call: call.method, timeoutMs });
    }
    if (UNREACHABLE_STATUSES.includes(status))
      throw new AppError("HOOK_UNREACHABLE", { hook, reason });
    throw new AppError("HOOK_FAILED", { hook, call: call.method, reason: `${status}: ${reason}` });
  }

  async #send(call: HookCall, timeoutMs: number): Promise<Reply> {
    const { clock } = this.#settings;
    this.#lastId += 1;
    const id = this.#lastId;
    const { promise, resolve } = Promise.withResolvers<Reply>();
    if (this.#end.signal.aborted) {
      return { id, failure: { status: "UNAVAILABLE", reason: "the calling process has ended" } };
    }
    this.#pending.set(id, resolve);
    this.#child.send({ id, call, deadline: clock.now() + timeoutMs });
    const replied = new AbortController();
    // A hostile hook can delay the child's own timers, so the parent measures the deadline too.
    const timeout = clock.sleep(timeoutMs + STUCK_AFTER_MS, replied.signal).then(
      (): Reply => ({ id, failure: { status: "DEADLINE_EXCEEDED", reason: "" } }),
      () => promise,
    );
    try {
      const reply = await Promise.race([promise, timeout]);
      if (this.#pending.delete(id)) this.#child.kill();
      return reply;
    } finally {
      replied.abort(new Error("it has answered"));
    }
  }
}

/** Errno names which mean that the sidecar has not created its socket yet. Other errors, such as EMFILE, are rethrown unchanged. */
const MISSING_ERRNOS: readonly unknown[] = ["ENOENT", "ENOTDIR"];

/** @throws AppError with HOOK_UNREACHABLE if the socket does not exist, otherwise with OS_FILE_FAILED or OS_PATH_REFUSED */
function openHookSocket(pod: LauncherPod, container: string, settings: Settings): OpenSocket {
  try {
    return settings.openSocket(pod, container);
  } catch (error) {
    const isMissing =
      isAppError(error, "OS_FILE_FAILED") && MISSING_ERRNOS.includes(error.details["errno"]);
    if (!isMissing) throw error;
    const reason = `it has no socket: ${messageOf(error)}`;
    throw new AppError("HOOK_UNREACHABLE", { hook: container, reason }, { cause: error });
  }
}

export function createHookSidecars(options: HookSidecarsOptions): HookSidecars {
  const settings = { ...DEFAULT_TIMEOUTS, ...options };
  const { starter, identity } = options;
  return {
    connect: async (pod, container) => {
      const socket = openHookSocket(pod, container, settings);
      try {
        const child = await starter.start({
          module: childModule,
          env: { LC_ALL: "C" },
          readyTimeoutMs: READY_TIMEOUT_MS,
          ...(identity === undefined ? {} : { identity }),
        });
        child.sendDescriptor(socket.fd, SOCKET_TOKEN);
        return new ChildSidecar(container, child, settings);
      } finally {
        socket.close();
      }
    },
  };
}
