// SPDX-License-Identifier: Apache-2.0
// Backoff for launchers that hang or drop their connections, independent of what wakes the loop.
import { AppError, isAppError } from "@patchbay/core";
import { createPauses, type Pauses } from "@patchbay/kube";
import type { Clock, LauncherPod, NetnsHandle } from "@patchbay/core/ports";
import type { Listener, Session, Sessions } from "./sessions.ts";

/** The first pause is short, because a restarted libvirt is available again by then. */
const RANGE = { firstMs: 100, maxMs: 30_000, jitter: 0.2 };
/** When a connection lasted this long, its end counts as a first failure. */
const GOOD_MS = 60_000;
/**
 * Time limit for one pass with a session, milliseconds. Longer than one call that waits for a busy domain (30 s) and the calls
 * around it. Stops a libvirt that is slow in every call.
 */
const WORK_MS = 90_000;

class BackoffSessions implements Sessions {
  readonly #sessions: Sessions;
  readonly #clock: Clock;
  readonly #pauses: Pauses<undefined>;
  readonly #known = new WeakSet<Session>();

  constructor(sessions: Sessions, clock: Clock) {
    this.#sessions = sessions;
    this.#clock = clock;
    this.#pauses = createPauses({ clock, range: RANGE });
  }

  async use<T>(
    pod: LauncherPod,
    listener: Listener,
    work: (session: Session) => Promise<T>,
  ): Promise<T> {
    try {
      return await this.#sessions.use(pod, listener, (session) => {
        this.#follow(pod, session);
        return this.#inTime(session, work);
      });
    } catch (error) {
      if (isAppError(error, "LIBVIRT_TIMED_OUT")) this.#backOff(pod);
      throw error;
    }
  }

  netnsOf(pod: LauncherPod): NetnsHandle | undefined {
    return this.#sessions.netnsOf(pod);
  }

  pauseMs(pod: LauncherPod): number {
    return this.#pauses.findHeld(stepOf(pod))?.pauseMs ?? 0;
  }

  close(pod: LauncherPod): void {
    this.#sessions.close(pod);
    this.#pauses.forget(scopeOf(pod));
  }

  closeAll(): void {
    this.#sessions.closeAll();
  }

  #follow(pod: LauncherPod, session: Session): void {
    if (this.#known.has(session)) return;
    this.#known.add(session);
    const openedMs = this.#clock.monotonicMs();
    void session.connection.closed.then(({ by }) => {
      if (by !== "daemon") return;
      if (this.#clock.monotonicMs() - openedMs >= GOOD_MS) this.#pauses.forget(scopeOf(pod));
      this.#backOff(pod);
    });
  }

  /** Backs off once for a timeout together with the end of its connection, which follows. */
  #backOff(pod: LauncherPod): void {
    if (this.pauseMs(pod) > 0) return;
    // Uses one code for all failures, so that a launcher gains nothing by alternating between them.
    this.#pauses.fail(stepOf(pod), { code: "launcher", shown: undefined });
  }

  async #inTime<T>(session: Session, work: (session: Session) => Promise<T>): Promise<T> {
    const done = new AbortController();
    const late = new AbortController();
    this.#clock.sleep(WORK_MS, done.signal).then(
      () => {
        late.abort();
        void session.connection.close(); // makes the pending calls of `work` fail
      },
      () => undefined, // finished in time
    );
    try {
      return await work(session);
    } catch (error) {
      if (!late.signal.aborted) throw error;
      const details = { call: "all calls of one pass", timeoutMs: WORK_MS };
      throw new AppError("LIBVIRT_TIMED_OUT", details, { cause: error });
    } finally {
      done.abort(new Error("done"));
    }
  }
}

/** Includes the name, so that a VMI whose status names the uid of a foreign pod cannot delay that pod's launcher. */
function scopeOf({ uid, namespace, name }: LauncherPod): string {
  return JSON.stringify([uid, namespace, name]);
}

function stepOf(pod: LauncherPod): { scope: string; name: string; circumstances: string } {
  return { scope: scopeOf(pod), name: "session", circumstances: "" };
}

/** Wraps sessions so that launchers that hang or disconnect back off. */
export function withBackoff(sessions: Sessions, clock: Clock): Sessions {
  return new BackoffSessions(sessions, clock);
}
