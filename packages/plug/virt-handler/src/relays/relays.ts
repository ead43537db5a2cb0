// SPDX-License-Identifier: Apache-2.0
// One relay for one migration on one of its nodes, in a process of its own: it copies gigabytes that launchers and networks made.
import { AppError } from "@patchbay/core";
import type { ChildProcessHandle, ChildStarter, ProcessIdentity } from "@patchbay/core/ports";
import {
  DIRECTORY_TOKEN,
  parseWord,
  type Order,
  type Ports,
  type Word,
  type Channel,
  type RelayOrder,
} from "./protocol.ts";
import { names, type MigrationState } from "@patchbay/api";
import type { ReadIdentity } from "./node-identity.ts";

/** How long it may take to start and to drop privileges, milliseconds. */
const READY_TIMEOUT_MS = 15_000;

/** From sources the child runs sources too. */
const childModule = import.meta.url.endsWith(".ts")
  ? new URL("./child.ts", import.meta.url).href
  : new URL("./child.js", import.meta.url).href;

/** A relay that runs. */
export interface Relay {
  /** Where it listens; of one that sends, those of the other node. */
  readonly ports: Ports;
  /** Calls `listener` for each word that comes from now on. */
  onWord(listener: (word: Word) => void): void;
  /**
   * Of one that sends: the other node knows then that the guest is off here. May be repeated.
   * @throws AppError with RELAY_FAILED when it does not
   */
  tellGone(): Promise<void>;
  /** Resolves with the reason when its process has ended, and all that it carried with it. */
  readonly ended: Promise<string>;
  close(): void;
}

/** What a relay is started with. */
interface RelayDeps {
  readonly starter: ChildStarter;
  /** Whom it becomes: the launchers' user. */
  readonly user: ProcessIdentity;
}

class RunningRelay implements Relay {
  ports: Ports = {};
  readonly ended: Promise<string>;
  readonly #child: ChildProcessHandle;
  readonly #listeners = new Set<(word: Word) => void>();

  constructor(child: ChildProcessHandle) {
    this.#child = child;
    this.ended = child.ended;
    child.onMessage((message) => {
      const word = parseWord(message);
      if (word === undefined) child.kill();
      else for (const listener of this.#listeners) listener(word);
    });
  }

  onWord(listener: (word: Word) => void): void {
    this.#listeners.add(listener);
  }

  /** Says something, and waits for one of these words; the end of the process is a failure as well. */
  async ask(order: Order, answers: readonly Word["kind"][]): Promise<Word> {
    const { promise, resolve } = Promise.withResolvers<Word>();
    const listen = (word: Word): void => {
      if (answers.includes(word.kind)) resolve(word);
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

  async tellGone(): Promise<void> {
    const word = await this.ask({ kind: "tellGone" }, ["heard", "unheard"]);
    if (word.kind !== "heard") throw failed(word);
  }

  close(): void {
    this.#child.kill();
  }
}

function failed(word: Word): AppError {
  const reason = "reason" in word ? word.reason : word.kind;
  return new AppError("RELAY_FAILED", { reason });
}

/**
 * Starts one; it is ready when it can be connected to. `directoryFd` is the directory of the launcher's sockets.
 * @throws AppError with RELAY_FAILED, OS_PROGRAM_FAILED, OS_TIMED_OUT
 */
export async function startRelay(
  order: Exclude<Order, { kind: "tellGone" }>,
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
  const word = await relay.ask(order, ["listening", "failed"]);
  if (word.kind !== "listening") {
    relay.close();
    throw failed(word);
  }
  relay.ports = word.ports;
  return relay;
}

/** The sockets of a migration in a launcher's directory: at the source the relay's own, at the target its QEMU's. */
export const SOCKETS = {
  peer: "migration-peer.sock",
  memory: "migration-memory.sock",
  disks: "migration-disks.sock",
} as const;

/** How long whoever connects may take to say who it is, milliseconds. */
const GREETING_MS = 10_000;

/** What a relay is for. */
export interface RelayRequest {
  readonly migration: MigrationState;
  /** How many disks are copied along. */
  readonly disks: number;
  /** For so long nothing may come or go where the guest's memory goes, milliseconds. */
  readonly silenceMs: number;
  /** The directory of the launcher's sockets; may be closed afterwards. */
  readonly directoryFd: number;
}

/** Where another node's relay listens. */
export interface RelayPlace {
  readonly address: string;
  readonly ports: Ports;
}

/** Starts relays. All throw AppError with RELAY_FAILED, OS_FILE_FAILED, OS_PROGRAM_FAILED, OS_TIMED_OUT. */
export interface Relays {
  /** Where those listen that this node starts. */
  readonly address: string;
  /** Of the node that a guest comes to. */
  receive(request: RelayRequest): Promise<Relay>;
  /** Of the node that it leaves. */
  send(request: RelayRequest, to: RelayPlace): Promise<Relay>;
}

/** What they are started with. */
interface OwnRelaysOptions extends RelayDeps {
  readonly identity: ReadIdentity;
  readonly address: string;
}

class OwnRelays implements Relays {
  readonly address: string;
  readonly #options: OwnRelaysOptions;

  constructor(options: OwnRelaysOptions) {
    this.address = options.address;
    this.#options = options;
  }

  async receive(request: RelayRequest): Promise<Relay> {
    const peer = { node: request.migration.sourceNode ?? "", socket: names.LIBVIRT_SOCKET };
    const order = await this.#order(request, peer);
    const wanted = { kind: "receive", order, listenAddress: this.address } as const;
    return startRelay(wanted, request.directoryFd, this.#options);
  }

  async send(request: RelayRequest, to: RelayPlace): Promise<Relay> {
    const peer = { node: request.migration.targetNode ?? "", socket: SOCKETS.peer };
    const order = await this.#order(request, peer);
    return startRelay({ kind: "send", order, ...to }, request.directoryFd, this.#options);
  }

  async #order(
    { migration, disks, silenceMs }: RelayRequest,
    { node, socket }: { readonly node: string; readonly socket: string },
  ): Promise<RelayOrder> {
    const sockets: RelayOrder["sockets"] = { ...SOCKETS, libvirt: socket };
    const connections: Partial<Record<Channel, number>> = { libvirt: 1, memory: 1, disks };
    const { migrationUid = "" } = migration;
    const identity = await this.#options.identity();
    return {
      migrationUid,
      identity,
      peerNode: node,
      connections,
      sockets,
      silenceMs,
      greetingMs: GREETING_MS,
    };
  }
}

/** The relays of this node. */
export function createRelays(options: OwnRelaysOptions): Relays {
  return new OwnRelays(options);
}
