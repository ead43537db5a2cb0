// SPDX-License-Identifier: Apache-2.0
// Open ways to the launchers of this node: their libvirt and their network namespace.
import type {
  Hypervisor,
  HypervisorConnection,
  Launcher,
  Launchers,
  Logger,
} from "@patchbay/ports";

/** A launcher whose libvirt answers. */
export interface Session {
  readonly launcher: Launcher;
  readonly connection: HypervisorConnection;
}

/** Opens a session at its first use and keeps it until either end is gone. */
export interface Sessions {
  /**
   * `wake` is called whenever something about the launcher may have changed, also when it comes later.
   * @throws AppError with LAUNCHER_UNREACHABLE, LAUNCHER_NOT_LISTENING, OS_PATH_REFUSED, LIBVIRT_UNREACHABLE, LIBVIRT_TIMED_OUT
   */
  open(podUid: string, wake: () => void): Promise<Session>;
  /** Closes what belongs to the pod. */
  close(podUid: string): void;
  closeAll(): void;
}

interface Entry {
  session: Session | undefined;
  /** Ends the watch for a launcher that is not there yet. */
  watch: AbortController | undefined;
}

interface SessionsOptions {
  readonly launchers: Launchers;
  readonly hypervisor: Hypervisor;
  readonly log: Logger;
}

class LauncherSessions implements Sessions {
  readonly #options: SessionsOptions;
  readonly #entries = new Map<string, Entry>();

  constructor(options: SessionsOptions) {
    this.#options = options;
  }

  async open(podUid: string, wake: () => void): Promise<Session> {
    const entry = this.#entryOf(podUid);
    if (entry.session !== undefined) return entry.session;
    this.#awaitLauncher(podUid, entry, wake);
    const session = await this.#connect(podUid);
    entry.watch?.abort();
    entry.watch = undefined;
    entry.session = session;
    this.#follow(podUid, session, wake);
    this.#options.log.info("opened session", { uid: podUid });
    return session;
  }

  close(podUid: string): void {
    const entry = this.#entries.get(podUid);
    entry?.watch?.abort();
    if (entry?.session !== undefined) this.#drop(podUid, entry.session, "the pod is not needed");
    this.#entries.delete(podUid);
  }

  closeAll(): void {
    for (const podUid of [...this.#entries.keys()]) this.close(podUid);
  }

  #entryOf(podUid: string): Entry {
    const entry = this.#entries.get(podUid) ?? { session: undefined, watch: undefined };
    this.#entries.set(podUid, entry);
    return entry;
  }

  /** The socket comes later, or again: inotify tells. */
  #awaitLauncher(podUid: string, entry: Entry, wake: () => void): void {
    if (entry.watch !== undefined) return;
    entry.watch = new AbortController();
    this.#options.launchers.watch(podUid, wake, entry.watch.signal);
  }

  async #connect(podUid: string): Promise<Session> {
    const launcher = await this.#options.launchers.open(podUid);
    try {
      const address = { kind: "socket", fd: launcher.socketFd } as const;
      return { launcher, connection: await this.#options.hypervisor.open(address) };
    } catch (error) {
      launcher.close();
      throw error;
    }
  }

  #follow(podUid: string, session: Session, wake: () => void): void {
    const lose = (reason: string): void => {
      this.#drop(podUid, session, reason);
      wake();
    };
    session.connection.onEvent(wake);
    void session.connection.closed.then(lose);
    void session.launcher.ended.then(() => {
      lose("the process behind the socket ended");
    });
  }

  #drop(podUid: string, session: Session, reason: string): void {
    const entry = this.#entries.get(podUid);
    if (entry?.session !== session) return;
    entry.session = undefined;
    this.#options.log.info("closed session", { uid: podUid, reason });
    session.launcher.close();
    void session.connection.close();
  }
}

/** Sessions over the given adapters. */
export function createSessions(options: SessionsOptions): Sessions {
  return new LauncherSessions(options);
}
