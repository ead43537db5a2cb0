// SPDX-License-Identifier: Apache-2.0
import { messageOf, type Clock, type Logger } from "@patchbay/base";

import { LoopWatch } from "@patchbay/kube";

/** Check of a dependency. Resolves with undefined if the dependency works, otherwise with the problem. */
type Check = () => Promise<string | undefined>;

export interface Health {
  /** Adds a loop. The service is not ready before the loop has processed its first listing. `/healthz` fails while the loop is stuck. */
  watchLoop(name: string, limitMs?: number): LoopWatch;
  /** Adds a check, which must limit its own duration. The service is not ready while the check finds a problem. */
  addCheck(check: Check): void;
  /** Adds a line to `/readyz`. The line must contain no secrets, because everyone may read `/readyz`. */
  addNote(note: () => string): void;
  /** Adds a line to `/healthz`, which everyone may read. The line does not change the status. */
  addLiveNote(note: () => string): void;
  /** Makes `/healthz` at the metrics port report the version of the KubeVirt object that the service uses. */
  reportConfig(version: () => string): void;
}

export class DaemonHealth implements Health {
  readonly #clock: Clock;
  readonly #log: Logger;
  readonly #loops: LoopWatch[] = [];
  readonly #checks: Check[] = [];
  readonly #notes: (() => string)[] = [];
  readonly #liveNotes: (() => string)[] = [];
  #configVersion: (() => string) | undefined;
  #hasStarted = false;
  readonly #loggedReasons = new Map<string, string>();

  constructor({ clock, log }: { readonly clock: Clock; readonly log: Logger }) {
    this.#clock = clock;
    this.#log = log;
  }

  watchLoop(name: string, limitMs?: number): LoopWatch {
    const loop = new LoopWatch(name, this.#clock, limitMs);
    this.#loops.push(loop);
    return loop;
  }

  addCheck(check: Check): void {
    this.#checks.push(check);
  }

  addNote(note: () => string): void {
    this.#notes.push(note);
  }

  addLiveNote(note: () => string): void {
    this.#liveNotes.push(note);
  }

  reportConfig(version: () => string): void {
    this.#configVersion = version;
  }

  /** Returns the version of the KubeVirt object in use; undefined if the service uses none. */
  configVersion(): string | undefined {
    return this.#configVersion?.();
  }

  liveNotes(): readonly string[] {
    return this.#liveNotes.map((note) => note());
  }

  notes(): readonly string[] {
    return this.#notes.map((note) => note());
  }

  ready(): void {
    this.#hasStarted = true;
  }

  isLive(): boolean {
    const stuckKey = this.#loops.flatMap((loop) => loop.findStuckPass() ?? []).at(0);
    this.#logOnce(
      "a loop is stuck",
      stuckKey === undefined ? undefined : `${stuckKey.loop} ${stuckKey.key}`,
    );
    return stuckKey === undefined;
  }

  /** Returns whether the service has started, its loops have processed their first listings, and its dependencies work. */
  async isReady(): Promise<boolean> {
    if (!this.#hasStarted || !this.#loops.every((loop) => loop.isStarted())) return false;
    const problems = await Promise.all(this.#checks.map((check) => check().catch(messageOf)));
    const problem = problems.find((found) => found !== undefined);
    this.#logOnce("the service is not ready for its work", problem);
    return problem === undefined;
  }

  #logOnce(message: string, reason: string | undefined): void {
    if (reason !== undefined && this.#loggedReasons.get(message) !== reason) {
      this.#log.error(message, { reason });
    }
    this.#loggedReasons.set(message, reason ?? "");
  }
}

/**
 * Response to /healthz with the version of the KubeVirt object in use, so that clients can wait until all services use a
 * changed object. The version is empty if there is no KubeVirt object. Source: pkg/healthz of KubeVirt.
 */
interface ConfigHealth {
  readonly code: 200 | 500;
  readonly body: {
    readonly apiserver: { readonly connectivity: "ok" | "failed" };
    readonly "config-resource-version": string;
  };
}

export function configHealth(isLive: boolean, version: string): ConfigHealth {
  const connectivity = isLive ? "ok" : "failed";
  const body = { apiserver: { connectivity }, "config-resource-version": version } as const;
  return { code: isLive ? 200 : 500, body };
}
