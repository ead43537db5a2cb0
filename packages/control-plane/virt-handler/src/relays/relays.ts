// SPDX-License-Identifier: Apache-2.0
// Starts relays for migrations. Each relay is a separate process, because it copies gigabytes of untrusted data.
import { AppError } from "@patchbay/base";
import type { ChildProcessHandle, ChildStarter, ProcessIdentity } from "@patchbay/core/interfaces";
import {
  DIRECTORY_TOKEN,
  parseRelayMessage,
  type RelayCommand,
  type Ports,
  type RelayMessage,
  type Channel,
  type RelayOptions,
} from "./protocol.ts";
import { names, type MigrationState } from "@patchbay/api";
import type { ReadIdentity } from "./node-identity.ts";

/** Time limit for the relay process to start and drop its privileges, in milliseconds. */
const READY_TIMEOUT_MS = 15_000;

/** Module of the relay process: TypeScript if this process runs from sources, otherwise the compiled file. */
const childModule = import.meta.url.endsWith(".ts")
  ? new URL("./child.ts", import.meta.url).href
  : new URL("../../dist/relays/child.js", import.meta.url).href;

export interface Relay {
  readonly ports: Ports;
  onMessage(listener: (message: RelayMessage) => void): void;
  /** Reports to the target's node that the guest has left the source. @throws AppError with RELAY_FAILED if the report is not confirmed */
  reportGone(): Promise<void>;
  /** Resolves after the relay process and all its connections have ended, with the reason why the process ended. */
  readonly ended: Promise<string>;
  close(): void;
}

interface RelayDeps {
  readonly starter: ChildStarter;
  readonly user: ProcessIdentity;
}

class RunningRelay implements Relay {
  ports: Ports = {};
  readonly ended: Promise<string>;
  readonly #child: ChildProcessHandle;
  readonly #listeners = new Set<(message: RelayMessage) => void>();

  constructor(child: ChildProcessHandle) {
    this.#child = child;
    this.ended = child.ended;
    child.onMessage((raw) => {
      const message = parseRelayMessage(raw);
      if (message === undefined) child.kill();
      else for (const listener of this.#listeners) listener(message);
    });
  }

  onMessage(listener: (message: RelayMessage) => void): void {
    this.#listeners.add(listener);
  }

  /** Sends a command and waits for one of the given replies. Returns a failure if the process exits first. */
  async request(
    order: RelayCommand,
    replies: readonly RelayMessage["kind"][],
  ): Promise<RelayMessage> {
    const { promise, resolve } = Promise.withResolvers<RelayMessage>();
    const listen = (message: RelayMessage): void => {
      if (replies.includes(message.kind)) resolve(message);
    };
    this.#listeners.add(listen);
    void this.ended.then((reason) => {
      resolve({ kind: "failed", reason });
    });
    this.#child.send(order);
    try {
      return await promise;
    } finally {
      this.#listeners.delete(listen);
    }
  }

  async reportGone(): Promise<void> {
    const message = await this.request({ kind: "reportGone" }, [
      "departureConfirmed",
      "departureUnconfirmed",
    ]);
    if (message.kind !== "departureConfirmed") throw toFailure(message);
  }

  close(): void {
    this.#child.kill();
  }
}

function toFailure(message: RelayMessage): AppError {
  const reason = "reason" in message ? message.reason : message.kind;
  return new AppError("RELAY_FAILED", { reason });
}

/** Starts a relay. Resolves when the relay accepts connections. @throws AppError with RELAY_FAILED, OS_PROGRAM_FAILED, OS_TIMED_OUT */
export async function startRelay(
  order: Exclude<RelayCommand, { kind: "reportGone" }>,
  directoryFd: number,
  { starter, user }: RelayDeps,
): Promise<Relay> {
  const program = {
    module: childModule,
    env: {},
    identity: user,
    readyTimeoutMs: READY_TIMEOUT_MS,
  };
  const child = await starter.start(program);
  const relay = new RunningRelay(child);
  child.sendDescriptor(directoryFd, DIRECTORY_TOKEN);
  const message = await relay.request(order, ["listening", "failed"]);
  if (message.kind !== "listening") {
    relay.close();
    throw toFailure(message);
  }
  relay.ports = message.ports;
  return relay;
}

/**
 * Names of sockets in a launcher's directory. On the source, the relay creates these sockets. On the target, QEMU creates `memory` and
 * `disks`, and the relay uses libvirt's own socket instead of `peer`.
 */
export const SOCKETS = {
  peer: "migration-peer.sock",
  memory: "migration-memory.sock",
  disks: "migration-disks.sock",
} as const;

const GREETING_TIMEOUT_MS = 10_000;

export interface RelayRequest {
  readonly migration: MigrationState;
  readonly disks: number;
  /** Time without traffic after which the libvirt and memory connections are closed, in milliseconds. */
  readonly idleTimeoutMs: number;
  /** Descriptor of the directory with the launcher's sockets. The caller may close the descriptor after the relay has started. */
  readonly directoryFd: number;
}

export interface RelayEndpoint {
  readonly address: string;
  readonly ports: Ports;
}

/** Starts relays. If a start fails, throws AppError with RELAY_FAILED, OS_FILE_FAILED, OS_PROGRAM_FAILED or OS_TIMED_OUT. */
export interface Relays {
  readonly address: string;
  receive(request: RelayRequest): Promise<Relay>;
  send(request: RelayRequest, to: RelayEndpoint): Promise<Relay>;
}

interface NodeRelaysOptions extends RelayDeps {
  readonly identity: ReadIdentity;
  readonly address: string;
}

class NodeRelays implements Relays {
  readonly address: string;
  readonly #options: NodeRelaysOptions;

  constructor(options: NodeRelaysOptions) {
    this.address = options.address;
    this.#options = options;
  }

  async receive(request: RelayRequest): Promise<Relay> {
    const peer = { node: request.migration.sourceNode ?? "", socket: names.LIBVIRT_SOCKET };
    const order = await this.#order(request, peer);
    const wanted = { kind: "receive", order, listenAddress: this.address } as const;
    return startRelay(wanted, request.directoryFd, this.#options);
  }

  async send(request: RelayRequest, to: RelayEndpoint): Promise<Relay> {
    const peer = { node: request.migration.targetNode ?? "", socket: SOCKETS.peer };
    const order = await this.#order(request, peer);
    return startRelay({ kind: "send", order, ...to }, request.directoryFd, this.#options);
  }

  async #order(
    { migration, disks, idleTimeoutMs }: RelayRequest,
    { node, socket }: { readonly node: string; readonly socket: string },
  ): Promise<RelayOptions> {
    const sockets: RelayOptions["sockets"] = { ...SOCKETS, libvirt: socket };
    const connections: Partial<Record<Channel, number>> = { libvirt: 1, memory: 1, disks };
    const { migrationUid = "" } = migration;
    const identity = await this.#options.identity();
    return {
      migrationUid,
      identity,
      peerNode: node,
      connections,
      sockets,
      idleTimeoutMs,
      greetingMs: GREETING_TIMEOUT_MS,
    };
  }
}

export function createRelays(options: NodeRelaysOptions): Relays {
  return new NodeRelays(options);
}
