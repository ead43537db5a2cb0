// SPDX-License-Identifier: Apache-2.0
// Backoff for launchers that hang or drop their connections.
import { AppError, isAppError, type Clock } from "@patchbay/base";
import { createStepBackoff, type StepBackoff } from "@patchbay/kube";
import type { LauncherPod, NetnsHandle } from "@patchbay/core/interfaces";
import type { Listener, Session, Sessions } from "./sessions.ts";

/** Range of the backoff. The first delay is short, because libvirt usually restarts quickly. */
const BACKOFF_RANGE = { firstMs: 100, maxMs: 30_000, jitter: 0.2 };
/** Minimum duration of a stable connection, in milliseconds. After a stable connection, the backoff starts at its first delay again. */
const STABLE_CONNECTION_MS = 60_000;
/** Time limit of a call of `work`, in milliseconds. It exceeds the 30 s for which libvirt waits for a busy domain. */
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

  /** Starts a backoff unless one is in progress, because a timeout also ends the connection, and must not count as two failures. */
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

/** The key includes the pod's name. Otherwise, a VMI with the UID of a foreign pod in its status could delay that pod's launcher. */
function toPodKey({ uid, namespace, name }: LauncherPod): string {
  return JSON.stringify([uid, namespace, name]);
}

function toBackoffKey(pod: LauncherPod): { scope: string; name: string; inputs: string } {
  return { scope: toPodKey(pod), name: "session", inputs: "" };
}

export function withBackoff(sessions: Sessions, clock: Clock): Sessions {
  return new BackoffSessions(sessions, clock);
}
