// SPDX-License-Identifier: Apache-2.0
// The port: each sidecar is spoken to by a child of its own, which lives as long as it is asked. ADR 0084.
import { AppError, messageOf } from "@patchbay/core/errors";
import type {
  ChildProcessHandle,
  ChildStarter,
  Clock,
  CloudInitRequest,
  DefineDomainRequest,
  HookInfo,
  HookSidecar,
  HookSidecars,
  LauncherPod,
  ProcessIdentity,
} from "@patchbay/core/ports";
import {
  parseCloudInit,
  parseDomainXml,
  parseInfo,
  parseReply,
  SOCKET_TOKEN,
  type HookCall,
  type Reply,
} from "./messages.ts";

/** A socket's inode that is open (O_PATH). */
interface OpenSocket {
  readonly fd: number;
  close(): void;
}

/** What {@link createHookSidecars} needs. */
export interface HookSidecarsOptions {
  readonly starter: ChildStarter;
  readonly clock: Clock;
  /** Whom the child becomes, without any capability: the user of the launchers. Absent: as the parent. */
  readonly identity?: ProcessIdentity;
  /**
   * The only socket in the volume of that sidecar, through no link.
   * @throws AppError with OS_FILE_FAILED when there is none, OS_PATH_REFUSED
   */
  readonly openSocket: (pod: LauncherPod, container: string) => OpenSocket;
  /** How long a hook may take to say what it is, milliseconds. Default 5000. */
  readonly infoTimeoutMs?: number;
  /** How long a hook may take to answer. Default 60 000, as KubeVirt's. */
  readonly callTimeoutMs?: number;
}

const DEFAULTS = { infoTimeoutMs: 5000, callTimeoutMs: 60_000 };
/** How long the child may take to load gRPC and drop its privileges, milliseconds. */
const READY_TIMEOUT_MS = 15_000;
/** So long after a call's deadline the child is taken for one that hangs, milliseconds. */
const GRACE_MS = 2000;

/** From sources the child runs sources too. */
const childModule = import.meta.url.endsWith(".ts")
  ? new URL("./child.ts", import.meta.url).href
  : new URL("./child.js", import.meta.url).href;

type Settings = HookSidecarsOptions & typeof DEFAULTS;

/** gRPC's statuses of a hook that is away. Source: gRPC core, "Status codes and their use in gRPC". */
const AWAY: readonly string[] = ["UNAVAILABLE", "CANCELLED"];

class ChildSidecar implements HookSidecar {
  readonly #container: string;
  readonly #child: ChildProcessHandle;
  readonly #settings: Settings;
  readonly #waiting = new Map<number, (reply: Reply) => void>();
  readonly #end = new AbortController();
  #lastId = 0;

  constructor(container: string, child: ChildProcessHandle, settings: Settings) {
    this.#container = container;
    this.#child = child;
    this.#settings = settings;
    child.onMessage((message) => {
      const reply = parseReply(message);
      if (reply === undefined) child.kill();
      else this.#take(reply);
    });
    void child.ended.then((reason) => {
      this.#end.abort(new Error(reason));
      for (const id of this.#waiting.keys()) {
        this.#take({ id, failure: { status: "UNAVAILABLE", reason: "what asks it has ended" } });
      }
    });
  }

  async info(): Promise<HookInfo> {
    const answer = await this.#call({ method: "Info" }, this.#settings.infoTimeoutMs);
    return parseInfo(answer) ?? this.#unreadable("Info");
  }

  async onDefineDomain(request: DefineDomainRequest): Promise<string> {
    const call = { method: "OnDefineDomain", ...request } as const;
    const answer = await this.#call(call, this.#settings.callTimeoutMs);
    return parseDomainXml(answer) ?? this.#unreadable("OnDefineDomain");
  }

  async preCloudInitIso(request: CloudInitRequest): ReturnType<HookSidecar["preCloudInitIso"]> {
    const call = { method: "PreCloudInitIso", ...request } as const;
    const answer = await this.#call(call, this.#settings.callTimeoutMs);
    return parseCloudInit(answer) ?? this.#unreadable("PreCloudInitIso");
  }

  async shutdown(): Promise<void> {
    await this.#call({ method: "Shutdown" }, this.#settings.callTimeoutMs);
  }

  async close(): Promise<void> {
    this.#child.kill();
    await this.#child.ended;
  }

  #unreadable(call: string): never {
    const reason = "it answers nothing that can be read";
    throw new AppError("HOOK_FAILED", { hook: this.#container, call, reason });
  }

  #take(reply: Reply): void {
    const resolve = this.#waiting.get(reply.id);
    this.#waiting.delete(reply.id);
    resolve?.(reply);
  }

  async #call(call: HookCall, timeoutMs: number): Promise<object> {
    const reply = await this.#ask(call, timeoutMs);
    if ("answer" in reply) return reply.answer;
    const { status, reason } = reply.failure;
    const hook = this.#container;
    if (status === "DEADLINE_EXCEEDED") {
      throw new AppError("HOOK_TIMED_OUT", { hook, call: call.method, timeoutMs });
    }
    if (AWAY.includes(status)) throw new AppError("HOOK_UNREACHABLE", { hook, reason });
    throw new AppError("HOOK_FAILED", { hook, call: call.method, reason: `${status}: ${reason}` });
  }

  async #ask(call: HookCall, timeoutMs: number): Promise<Reply> {
    const { clock } = this.#settings;
    this.#lastId += 1;
    const id = this.#lastId;
    const { promise, resolve } = Promise.withResolvers<Reply>();
    if (this.#end.signal.aborted) {
      return { id, failure: { status: "UNAVAILABLE", reason: "what asks it has ended" } };
    }
    this.#waiting.set(id, resolve);
    this.#child.send({ id, call, deadline: clock.now() + timeoutMs });
    const over = new AbortController();
    // A child that its hook keeps busy does not see its own deadline.
    const late = clock.sleep(timeoutMs + GRACE_MS, over.signal).then(
      (): Reply => ({ id, failure: { status: "DEADLINE_EXCEEDED", reason: "" } }),
      () => promise,
    );
    try {
      const reply = await Promise.race([promise, late]);
      if (this.#waiting.delete(id)) this.#child.kill();
      return reply;
    } finally {
      over.abort(new Error("it has answered"));
    }
  }
}

/** A hook that has no socket yet is away, as one that does not listen. */
function openSocketOf(pod: LauncherPod, container: string, settings: Settings): OpenSocket {
  try {
    return settings.openSocket(pod, container);
  } catch (error) {
    const isMissing = error instanceof AppError && error.code === "OS_FILE_FAILED";
    if (!isMissing) throw error;
    const reason = `it has no socket: ${messageOf(error)}`;
    throw new AppError("HOOK_UNREACHABLE", { hook: container, reason }, { cause: error });
  }
}

/** Hooks through children, each of which is started for one conversation. */
export function createHookSidecars(options: HookSidecarsOptions): HookSidecars {
  const settings = { ...DEFAULTS, ...options };
  const { starter, identity } = options;
  return {
    connect: async (pod, container) => {
      const socket = openSocketOf(pod, container, settings);
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
