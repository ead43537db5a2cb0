// SPDX-License-Identifier: Apache-2.0
import { messageOf, type Clock, type Logger } from "@patchbay/base";

import { LoopWatch } from "@patchbay/kube";

/** Checks a dependency of the service: resolves with undefined if it works, otherwise with the problem. */
type Check = () => Promise<string | undefined>;

export interface Health {
  /** Adds a loop, which must process its first listing before the service is ready, and must never get stuck. */
  watchLoop(name: string, limitMs?: number): LoopWatch;
  /** The service is not ready while the check finds a problem. The check has its own deadline. */
  addCheck(check: Check): void;
  /** Adds a line to `/readyz`, which anyone may read. */
  addNote(note: () => string): void;
  /** Version of the KubeVirt object in use, for `/healthz` at the metrics port. */
  reportConfig(version: () => string): void;
}

export class DaemonHealth implements Health {
  readonly #clock: Clock;
  readonly #log: Logger;
  readonly #loops: LoopWatch[] = [];
  readonly #checks: Check[] = [];
  readonly #notes: (() => string)[] = [];
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

  reportConfig(version: () => string): void {
    this.#configVersion = version;
  }

  /** Undefined if the service does not use a KubeVirt object. */
  configVersion(): string | undefined {
    return this.#configVersion?.();
  }

  notes(): readonly string[] {
    return this.#notes.map((note) => note());
  }

  ready(): void {
    this.#hasStarted = true;
  }

  /** `/healthz`: no loop is stuck. */
  isLive(): boolean {
    const standstill = this.#loops.flatMap((loop) => loop.findStandstill() ?? []).at(0);
    this.#logOnce(
      "a loop is stuck",
      standstill === undefined ? undefined : `${standstill.loop} ${standstill.key}`,
    );
    return standstill === undefined;
  }

  /** `/readyz`: the service has started, its loops have processed their first listings, and its dependencies work. */
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
 * Response of /healthz as KubeVirt's services give it, for clients that wait until all services know a changed
 * KubeVirt object. The version is "" if there is no object. Source: KubeVirt pkg/healthz
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
