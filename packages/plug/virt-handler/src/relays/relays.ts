// SPDX-License-Identifier: Apache-2.0
// One relay for one migration on one of its nodes, in a process of its own: it copies gigabytes that launchers and networks made.
import { AppError } from "@patchbay/core";
import type { ChildProcessHandle, ChildStarter, ProcessIdentity } from "@patchbay/core/ports";
import { DIRECTORY_TOKEN, parseWord, type Order, type Ports, type Word } from "./words.ts";

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
export interface RelayDeps {
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
