// SPDX-License-Identifier: Apache-2.0
// Backoff for launchers that hang or drop their connections.
import { AppError, isAppError, type Clock } from "@patchbay/base";
import { createStepBackoff, type StepBackoff } from "@patchbay/kube";
import type { LauncherPod, NetnsHandle } from "@patchbay/core/interfaces";
import type { Listener, Session, Sessions } from "./sessions.ts";

/** Range of the backoff. The first delay is short, because libvirt usually restarts quickly. */
const BACKOFF_RANGE = { firstMs: 100, maxMs: 30_000, jitter: 0.2 };
/** Minimum duration of a stable connection, in milliseconds. Stable connections reset the backoff. */
const STABLE_CONNECTION_MS = 60_000;
/** Time limit of `work` in milliseconds, longer than libvirt's 30 s wait for busy domains. */
const PASS_TIMEOUT_MS = 90_000;

class BackoffSessions implements Sessions {
  readonly #sessions: Sessions;
  readonly #clock: Clock;
  readonly #stepBackoff: StepBackoff<undefined>;
  readonly #watchedSessions = new WeakSet<Session>();

  constructor(sessions: Sessions, clock: Clock) {
    this.#sessions = sessions;
    this.#clock = clock;
    this.#stepBackoff = createStepBackoff({ clock, range: BACKOFF_RANGE });
  }

  async use<T>(
    pod: LauncherPod,
    listener: Listener,
    work: (session: Session) => Promise<T>,
  ): Promise<T> {
    try {
      return await this.#sessions.use(pod, listener, (session) => {
        this.#watchConnection(pod, session);
        return this.#withTimeout(session, work);
      });
    } catch (error) {
      if (isAppError(error, "LIBVIRT_TIMED_OUT")) this.#backOff(pod);
      throw error;
    }
  }

  findNetns(pod: LauncherPod): NetnsHandle | undefined {
    return this.#sessions.findNetns(pod);
  }

  backoffMs(pod: LauncherPod): number {
    return this.#stepBackoff.findDelay(toBackoffKey(pod))?.pauseMs ?? 0;
  }

  close(pod: LauncherPod): void {
    this.#sessions.close(pod);
    this.#stepBackoff.forget(toPodKey(pod));
  }

  closeAll(): void {
    this.#sessions.closeAll();
  }

  #watchConnection(pod: LauncherPod, session: Session): void {
    if (this.#watchedSessions.has(session)) return;
    this.#watchedSessions.add(session);
    const openedMs = this.#clock.monotonicMs();
    void session.connection.closed.then(({ by }) => {
      if (by !== "daemon") return;
      if (this.#clock.monotonicMs() - openedMs >= STABLE_CONNECTION_MS)
        this.#stepBackoff.forget(toPodKey(pod));
      this.#backOff(pod);
    });
  }

  /** Ignores failures during a backoff, because a timeout also ends the connection and counts only once. */
  #backOff(pod: LauncherPod): void {
    if (this.backoffMs(pod) > 0) return;
    // All failures have the same code, because a different code would reset the backoff.
    this.#stepBackoff.fail(toBackoffKey(pod), { code: "launcher", summary: undefined });
  }

  async #withTimeout<T>(session: Session, work: (session: Session) => Promise<T>): Promise<T> {
    const done = new AbortController();
    const deadline = new AbortController();
    this.#clock.sleep(PASS_TIMEOUT_MS, done.signal).then(
      () => {
        deadline.abort();
        void session.connection.close(); // Makes the pending calls of `work` fail.
      },
      () => undefined, // `work` ended in time
    );
    try {
      return await work(session);
    } catch (error) {
      if (!deadline.signal.aborted) throw error;
      const details = { call: "all calls of one pass", timeoutMs: PASS_TIMEOUT_MS };
      throw new AppError("LIBVIRT_TIMED_OUT", details, { cause: error });
    } finally {
      done.abort(new Error("done"));
    }
  }
}

/** The key includes names, because a VMI with another pod's UID could otherwise delay that launcher. */
function toPodKey({ uid, namespace, name }: LauncherPod): string {
  return JSON.stringify([uid, namespace, name]);
}

function toBackoffKey(pod: LauncherPod): { scope: string; name: string; inputs: string } {
  return { scope: toPodKey(pod), name: "session", inputs: "" };
}

export function withBackoff(sessions: Sessions, clock: Clock): Sessions {
  return new BackoffSessions(sessions, clock);
}
