// SPDX-License-Identifier: Apache-2.0
// Ends the program of a session whose client has left. CRI starts it without a name, so that one starts at a time in each
// container: what is there afterwards and was not before is its own.
import { messageOf } from "@patchbay/core";
import type { Clock, ContainerRuntime, ExecPrograms, Logger } from "@patchbay/core/ports";
import { KeyedMutex } from "@patchbay/core/keyed-mutex";
import type { JoinedStream } from "./exec.ts";

/** Sessions of one container at a time, those that are to begin too; a kubelet has no bound. */
export const SESSIONS_MAX = 32;

/** How long a client may take to ask for its streams, without which no program begins, milliseconds. */
const BEGIN_MS = 10_000;
/** How long a program may still begin whose client has left already, milliseconds. */
const LATE_MS = 1000;
/** Between two looks for a program that begins, milliseconds: at first, and at most. */
const LOOK = { firstMs: 10, maxMs: 200 };
/** How long a program may take to see that its input has ended, milliseconds. */
const GRACE_MS = 500;
/** How often a program is ended, until it is gone, and between two times, milliseconds. */
const END = { tries: 20, pauseMs: 1000 };

/** How CRI names programs, which others that are started in a container are not. Source: containerd CRI, util.GenerateID. */
const ID = /^[0-9a-f]{64}$/;

/** What sessions need. */
export interface SessionDeps {
  readonly programs: ExecPrograms;
  readonly runtime: Pick<ContainerRuntime, "listContainers">;
  readonly clock: Clock;
  readonly log: Logger;
}

/** Sessions of exec of one node. */
export class ExecSessions {
  readonly #deps: SessionDeps;
  readonly #signal: AbortSignal;
  readonly #mutex = new KeyedMutex();
  /** By id of the container. */
  readonly #counts = new Map<string, number>();

  constructor(deps: SessionDeps, signal: AbortSignal) {
    this.#deps = deps;
    this.#signal = signal;
  }

  /** Whether the container has as many as it may have. */
  isFull(containerId: string): boolean {
    return (this.#counts.get(containerId) ?? 0) >= SESSIONS_MAX;
  }

  /** Opens a stream of exec when it is its turn, and ends what it has started when its client leaves. Throws what `open` throws. */
  async begin(containerId: string, open: () => Promise<JoinedStream | undefined>): Promise<void> {
    this.#count(containerId, 1);
    try {
      await this.#mutex.runExclusive(containerId, () => this.#begin(containerId, open));
    } finally {
      this.#count(containerId, -1);
    }
  }

  /** Programs of a process before this one, whose clients have left with it. */
  async endLeft(): Promise<void> {
    try {
      const containers = await this.#deps.runtime.listContainers();
      const running = containers.filter(({ state }) => state === "RUNNING");
      await Promise.all(running.map(({ id }) => this.#endLeftIn(id)));
    } catch (error) {
      this.#deps.log.warn("cannot look for programs of exec", { reason: messageOf(error) });
    }
  }

  async #endLeftIn(containerId: string): Promise<void> {
    const ids = (await this.#list(containerId)) ?? [];
    await this.#kill(
      containerId,
      ids.filter((id) => ID.test(id)),
    );
  }

  /** Ends with the begin of the program; what comes after that goes on by itself. */
  async #begin(containerId: string, open: () => Promise<JoinedStream | undefined>): Promise<void> {
    const before = await this.#list(containerId);
    const stream = await open();
    if (stream === undefined) return;
    const own = before === undefined ? [] : await this.#findNew(containerId, before, stream);
    this.#count(containerId, 1);
    void this.#follow(containerId, own, stream);
  }

  async #follow(containerId: string, own: readonly string[], stream: JoinedStream): Promise<void> {
    const end = await stream.over;
    this.#count(containerId, -1);
    if (end === "left" && own.length > 0) await this.#end(containerId, own);
  }

  /**
   * What has begun. A program of execSync that begins at the same moment may be among them: probes are short, and what is
   * over by the time that the client leaves is not ended.
   */
  async #findNew(
    containerId: string,
    before: readonly string[],
    stream: JoinedStream,
  ): Promise<readonly string[]> {
    const { clock } = this.#deps;
    let end: string | undefined;
    let deadlineMs = clock.monotonicMs() + BEGIN_MS;
    void stream.over.then((how) => {
      end = how;
      deadlineMs = Math.min(deadlineMs, clock.monotonicMs() + LATE_MS);
    });
    for (let pauseMs = LOOK.firstMs; ; pauseMs = Math.min(pauseMs * 2, LOOK.maxMs)) {
      const now = (await this.#list(containerId)) ?? [];
      const own = now.filter((id) => !before.includes(id));
      if (own.length > 0 || end === "ended") return own;
      if (clock.monotonicMs() >= deadlineMs || !(await this.#slept(pauseMs))) break;
    }
    stream.close();
    return [];
  }

  async #end(containerId: string, own: readonly string[]): Promise<void> {
    if (!(await this.#slept(GRACE_MS))) return;
    for (let tries = 0; tries < END.tries; tries += 1) {
      const there = await this.#list(containerId);
      const left = own.filter((id) => there?.includes(id) !== false);
      if (left.length === 0) return;
      await this.#kill(containerId, left);
      this.#deps.log.info("program ended: its client has left", { object: containerId });
      if (!(await this.#slept(END.pauseMs))) return;
    }
    this.#deps.log.warn("program of exec does not end", { object: containerId });
  }

  async #kill(containerId: string, ids: readonly string[]): Promise<void> {
    for (const id of ids) {
      try {
        await this.#deps.programs.kill(containerId, id);
      } catch (error) {
        const reason = messageOf(error);
        this.#deps.log.debug("program of exec cannot be ended", { object: containerId, reason });
      }
    }
  }

  /** Undefined: the runtime does not tell, now or ever. */
  async #list(containerId: string): Promise<readonly string[] | undefined> {
    try {
      return await this.#deps.programs.list(containerId);
    } catch (error) {
      const reason = messageOf(error);
      this.#deps.log.debug("programs of exec cannot be listed", { object: containerId, reason });
      return undefined;
    }
  }

  #count(containerId: string, change: number): void {
    const count = (this.#counts.get(containerId) ?? 0) + change;
    if (count > 0) this.#counts.set(containerId, count);
    else this.#counts.delete(containerId);
  }

  /** Whether nobody aborted meanwhile. */
  async #slept(ms: number): Promise<boolean> {
    try {
      await this.#deps.clock.sleep(ms, this.#signal);
      return true;
    } catch {
      return false;
    }
  }
}
