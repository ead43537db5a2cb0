// SPDX-License-Identifier: Apache-2.0
// Launchers that hang or drop their connections are left alone for a time that grows, whatever wakes the loop for them.
import { AppError, isAppError } from "@patchbay/core";
import { createPauses, type Pauses } from "@patchbay/kube";
import type { Clock, LauncherPod, NetnsHandle } from "@patchbay/core/ports";
import type { Listener, Session, Sessions } from "./sessions.ts";

/** The first pause is short: a libvirt that was started anew is back by then. */
const RANGE = { firstMs: 100, maxMs: 30_000, jitter: 0.2 };
/** A connection that lasted so long was a good one: its end is a first one. */
const GOOD_MS = 60_000;
/**
 * How long one may work with a session, milliseconds. Longer than one call that waits for a busy domain (30 s) and what
 * comes before and after it; a libvirt that takes its time for each call is given up here.
 */
const WORK_MS = 90_000;

/** Sessions whose launchers are left alone after they failed. */
class BackoffSessions implements Sessions {
  readonly #sessions: Sessions;
  readonly #clock: Clock;
  /** By pod. */
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

  /** Once for a call that was late and the end of its connection, which follows. */
  #backOff(pod: LauncherPod): void {
    if (this.pauseMs(pod) > 0) return;
    // One code for all: a launcher that hangs and hangs up by turns gains nothing by it.
    this.#pauses.fail(stepOf(pod), { code: "launcher", shown: undefined });
  }

  async #inTime<T>(session: Session, work: (session: Session) => Promise<T>): Promise<T> {
    const done = new AbortController();
    const late = new AbortController();
    this.#clock.sleep(WORK_MS, done.signal).then(
      () => {
        late.abort();
        void session.connection.close(); // what the work waits for fails
      },
      () => undefined, // done in time
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

/** Nobody pays for whoever names the uid of a pod that is not its own. */
function scopeOf({ uid, namespace, name }: LauncherPod): string {
  return JSON.stringify([uid, namespace, name]);
}

function stepOf(pod: LauncherPod): { scope: string; name: string; circumstances: string } {
  return { scope: scopeOf(pod), name: "session", circumstances: "" };
}

/** The same sessions; launchers that hang or hang up are to be left alone for a while. */
export function withBackoff(sessions: Sessions, clock: Clock): Sessions {
  return new BackoffSessions(sessions, clock);
}
