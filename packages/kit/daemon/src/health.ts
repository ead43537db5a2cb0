// SPDX-License-Identifier: Apache-2.0
// Does the service live, and does it do its work? Judged when somebody asks, so that at rest nothing runs.
import { messageOf } from "@patchbay/core";
import { LoopWatch } from "@patchbay/kube";
import type { Clock, Logger } from "@patchbay/core/ports";

/** What something that the work rests on says of itself: undefined when it is well, else what is wrong. */
export type Check = () => Promise<string | undefined>;

/** What the parts of a service tell of themselves. */
export interface Health {
  /** A loop of the service: it must act on its first listing before the service is ready, and never stand still. */
  watchLoop(name: string, limitMs?: number): LoopWatch;
  /** While it finds a problem, the service is not ready. It has a deadline of its own. */
  addCheck(check: Check): void;
  /** A line for whoever asks `/readyz`, who may be anybody. */
  addNote(note: () => string): void;
  /** By which version of the KubeVirt object the service goes; for whoever asks `/healthz` where metrics are. */
  tellConfig(version: () => string): void;
}

/** What those who ask are told; why, the log says. */
export class DaemonHealth implements Health {
  readonly #clock: Clock;
  readonly #log: Logger;
  readonly #loops: LoopWatch[] = [];
  readonly #checks: Check[] = [];
  readonly #notes: (() => string)[] = [];
  #configVersion: (() => string) | undefined;
  #hasStarted = false;
  /** What was logged last, which is not logged again. */
  readonly #told = new Map<string, string>();

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

  tellConfig(version: () => string): void {
    this.#configVersion = version;
  }

  /** Undefined: the service goes by no KubeVirt object. */
  configVersion(): string | undefined {
    return this.#configVersion?.();
  }

  /** What its parts say of themselves, a line each. */
  notes(): readonly string[] {
    return this.#notes.map((note) => note());
  }

  /** The service has started. */
  ready(): void {
    this.#hasStarted = true;
  }

  /** `/healthz`: no loop stands still. */
  isLive(): boolean {
    const still = this.#loops.flatMap((loop) => loop.findStandstill() ?? []).at(0);
    this.#tell(
      "a loop stands still",
      still === undefined ? undefined : `${still.loop} ${still.key}`,
    );
    return still === undefined;
  }

  /** `/readyz`: it has started, its loops have acted on their first listings, and what they rest on is well. */
  async isReady(): Promise<boolean> {
    if (!this.#hasStarted || !this.#loops.every((loop) => loop.isUnderWay())) return false;
    const problems = await Promise.all(this.#checks.map((check) => check().catch(messageOf)));
    const problem = problems.find((found) => found !== undefined);
    this.#tell("the service is not ready for its work", problem);
    return problem === undefined;
  }

  /** Once for each that is new. */
  #tell(message: string, reason: string | undefined): void {
    if (reason !== undefined && this.#told.get(message) !== reason) {
      this.#log.error(message, { reason });
    }
    this.#told.set(message, reason ?? "");
  }
}
