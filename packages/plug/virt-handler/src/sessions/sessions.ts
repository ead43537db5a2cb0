// SPDX-License-Identifier: Apache-2.0
// Open ways to the launchers of this node: their libvirt and their network namespace.
import type {
  LinkChanges,
  Hypervisor,
  HypervisorConnection,
  HypervisorEvent,
  Launcher,
  LauncherPod,
  Launchers,
  LinkWatch,
  Logger,
  NetnsHandle,
  VhostSockets,
  WatchedLinks,
} from "@patchbay/core/ports";
import { AppError, isAppError } from "@patchbay/core";

/** What the loop is told of one launcher. */
export class Attention {
  readonly #wake: () => void;
  #isWorthLook: (changes: LinkChanges) => boolean = () => true;
  #works = 0;
  /** Not seen yet. */
  #hasEvent = false;
  #changes: LinkChanges[] = [];

  constructor(wake: () => void) {
    this.#wake = wake;
  }

  /** libvirt told of the guest. */
  noteEvent(): void {
    this.#hasEvent = true;
    this.#settle();
  }

  /** The kernel told of links. */
  noteLinks(changes: LinkChanges): void {
    this.#changes.push(changes);
    this.#settle();
  }

  /** A look begins, and sees all that happened until now. */
  look(): void {
    this.#hasEvent = false;
    this.#changes = [];
  }

  /** A look at links alone begins: what libvirt told is still to be seen. */
  lookAtLinks(): void {
    this.#changes = [];
  }

  /** From now on only such changes of links are worth a look. */
  wakeOnlyFor(isWorthLook: (changes: LinkChanges) => boolean): void {
    this.#isWorthLook = isWorthLook;
  }

  /** Somebody works on the launcher, and looks at it: what happens meanwhile wakes at the end at the earliest. */
  async during<T>(work: () => Promise<T>): Promise<T> {
    this.#works += 1;
    try {
      return await work();
    } finally {
      this.#works -= 1;
      this.#settle();
    }
  }

  #settle(): void {
    if (this.#works > 0) return;
    const isNews = this.#hasEvent || this.#changes.some((changes) => this.#isWorthLook(changes));
    this.look();
    if (isNews) this.#wake();
  }
}

/** A launcher whose libvirt answers. Its descriptors are open, and name what they did, while somebody uses it. */
export interface Session {
  readonly launcher: Launcher;
  readonly connection: HypervisorConnection;
  /** A look at the guest and its links begins: what happened until now wakes nobody any more. */
  look(): void;
  /** The same of the links alone. */
  lookAtLinks(): void;
  /** From now on only such changes of links wake the listener. */
  wakeOnlyFor: Attention["wakeOnlyFor"];
  /** From now on what comes and goes at the paths of these sockets wakes the listener, and at no others. */
  watchSockets(paths: readonly string[]): void;
}

/** Whoever works with a launcher. */
export interface Listener {
  /** Something about the launcher may have changed, which nobody has looked at since. */
  readonly wake: () => void;
  /** What libvirt told, for what it tells beside that. */
  readonly hear: (event: HypervisorEvent) => void;
}

/** Opens a session at its first use and keeps it until either end is gone. */
export interface Sessions {
  /**
   * Works with the session of a pod. A session that is lost or closed meanwhile keeps its descriptors until the last
   * `work` with it has ended, since their numbers would be given to the next that is opened. The listener of the first
   * use is told, also of a launcher that comes later.
   * @throws AppError with LAUNCHER_UNREACHABLE, LAUNCHER_NOT_LISTENING, OS_PATH_REFUSED, LIBVIRT_UNREACHABLE,
   *   LIBVIRT_TIMED_OUT, OS_FILE_FAILED; and what `work` throws
   */
  use<T>(pod: LauncherPod, listener: Listener, work: (session: Session) => Promise<T>): Promise<T>;
  /** The network namespace of the pod, while its session is open; to be used at once, since it may end at any time. */
  netnsOf(pod: LauncherPod): NetnsHandle | undefined;
  /** How long the pod's launcher is to be left alone, milliseconds; 0: it may be asked. */
  pauseMs(pod: LauncherPod): number;
  /** Closes what belongs to the pod; what is still used, when its last user is done. */
  close(pod: LauncherPod): void;
  closeAll(): void;
}

/** A launcher that was found, and whose libvirt answers. */
type Reached = Pick<Session, "launcher" | "connection">;

/** A session and those who work with it. */
class SharedSession implements Session {
  readonly launcher: Launcher;
  readonly connection: HypervisorConnection;
  readonly #attention: Attention;
  readonly #over = new AbortController();
  readonly #links: WatchedLinks;
  readonly #vhostSockets: VhostSockets;
  /** By path: what ends the watch. */
  readonly #watchedSockets = new Map<string, AbortController>();
  #users = 0;

  /** @throws AppError with OS_FILE_FAILED; nothing is closed then */
  constructor(
    { launcher, connection }: Reached,
    { linkWatch, vhostSockets }: Pick<SessionsOptions, "linkWatch" | "vhostSockets">,
    listener: Listener,
  ) {
    this.launcher = launcher;
    this.connection = connection;
    this.#vhostSockets = vhostSockets;
    this.#attention = new Attention(listener.wake);
    this.#links = linkWatch.watch(
      launcher.netns,
      (changes) => {
        this.#attention.noteLinks(changes);
      },
      this.#over.signal,
    );
    connection.onEvent((event) => {
      listener.hear(event);
      this.#attention.noteEvent();
    });
  }

  look(): void {
    this.#links.catchUp();
    this.#attention.look();
  }

  lookAtLinks(): void {
    this.#links.catchUp();
    this.#attention.lookAtLinks();
  }

  wakeOnlyFor(isWorthLook: Parameters<Attention["wakeOnlyFor"]>[0]): void {
    this.#attention.wakeOnlyFor(isWorthLook);
  }

  watchSockets(paths: readonly string[]): void {
    for (const [path, watch] of [...this.#watchedSockets]) {
      if (paths.includes(path)) continue;
      watch.abort();
      this.#watchedSockets.delete(path);
    }
    for (const path of paths) {
      if (this.#watchedSockets.has(path)) continue;
      const watch = new AbortController();
      const changed = (): void => {
        this.#attention.noteEvent();
      };
      const signal = AbortSignal.any([this.#over.signal, watch.signal]);
      this.#vhostSockets.watch(path, changed, signal);
      this.#watchedSockets.set(path, watch);
    }
  }

  /** @throws AppError with LAUNCHER_UNREACHABLE when it has ended */
  async use<T>(pod: LauncherPod, work: (session: Session) => Promise<T>): Promise<T> {
    if (this.#over.signal.aborted) {
      const reason = "its session was closed meanwhile";
      throw new AppError("LAUNCHER_UNREACHABLE", { vmi: `pod ${pod.uid}`, reason });
    }
    this.#users += 1;
    try {
      return await this.#attention.during(() => work(this));
    } finally {
      this.#users -= 1;
      this.#closeUnused();
    }
  }

  /** Ends the connection at once, so that whoever works with it soon hears. False when it had ended. */
  end(): boolean {
    if (this.#over.signal.aborted) return false;
    this.#over.abort(new Error("the session is over"));
    void this.connection.close();
    this.#closeUnused();
    return true;
  }

  #closeUnused(): void {
    if (this.#over.signal.aborted && this.#users === 0) this.launcher.close();
  }
}

/** What there is of one pod, until it is closed. */
interface Entry {
  readonly pod: LauncherPod;
  /** Absent while no launcher answers; one attempt at a time. */
  session: Promise<SharedSession> | undefined;
  /** The same, once it is open. */
  opened: SharedSession | undefined;
  /** Ends the watch for a launcher that is not there yet. */
  watch: AbortController | undefined;
  /** How often in a row libvirt did not answer in time. */
  late: number;
}

/**
 * How long libvirt may take to answer at first, milliseconds. It probes QEMU when it is new, 8 s measured: that goes on
 * between the attempts, the next of which waits twice as long.
 */
const OPEN_FIRST_MS = 5000;
/** And at most. */
const OPEN_LONGEST_MS = 30_000;

/** Whoever names the uid of a pod that is not its own has no part in that pod's session. */
function idOf({ uid, namespace, name }: LauncherPod): string {
  return JSON.stringify([uid, namespace, name]);
}

interface SessionsOptions {
  readonly launchers: Launchers;
  readonly linkWatch: LinkWatch;
  readonly vhostSockets: VhostSockets;
  readonly hypervisor: Hypervisor;
  readonly log: Logger;
}

class LauncherSessions implements Sessions {
  readonly #options: SessionsOptions;
  readonly #entries = new Map<string, Entry>();

  constructor(options: SessionsOptions) {
    this.#options = options;
  }

  async use<T>(
    pod: LauncherPod,
    listener: Listener,
    work: (session: Session) => Promise<T>,
  ): Promise<T> {
    const entry = this.#entryOf(pod);
    entry.session ??= this.#begin(pod, entry, listener);
    const session = await entry.session;
    return session.use(pod, work);
  }

  netnsOf(pod: LauncherPod): NetnsHandle | undefined {
    return this.#entries.get(idOf(pod))?.opened?.launcher.netns;
  }

  pauseMs(): number {
    return 0;
  }

  close(pod: LauncherPod): void {
    const entry = this.#entries.get(idOf(pod));
    if (entry === undefined) return;
    this.#entries.delete(idOf(pod));
    entry.watch?.abort();
    entry.session?.then(
      (session) => {
        this.#end(pod, session, "the pod is not needed");
      },
      () => undefined, // told to those who wait for it
    );
  }

  closeAll(): void {
    for (const { pod } of [...this.#entries.values()]) this.close(pod);
  }

  #entryOf(pod: LauncherPod): Entry {
    const entry = this.#entries.get(idOf(pod)) ?? {
      pod,
      session: undefined,
      opened: undefined,
      watch: undefined,
      late: 0,
    };
    this.#entries.set(idOf(pod), entry);
    return entry;
  }

  #begin(pod: LauncherPod, entry: Entry, listener: Listener): Promise<SharedSession> {
    const opening = this.#open(pod, entry, listener);
    opening.then(
      () => (entry.late = 0),
      (error: unknown) => {
        entry.session = undefined;
        if (isAppError(error, "LIBVIRT_TIMED_OUT")) entry.late += 1;
      },
    );
    return opening;
  }

  async #open(pod: LauncherPod, entry: Entry, listener: Listener): Promise<SharedSession> {
    this.#awaitLauncher(pod, entry, listener.wake);
    const session = this.#share(await this.#connect(pod, entry), listener);
    entry.watch?.abort();
    entry.watch = undefined;
    this.#options.log.info("opened session", { uid: pod.uid });
    this.#follow(pod, { entry, session }, listener.wake);
    entry.opened = session;
    return session;
  }

  #share(reached: Reached, listener: Listener): SharedSession {
    try {
      return new SharedSession(reached, this.#options, listener);
    } catch (error) {
      void reached.connection.close();
      reached.launcher.close();
      throw error;
    }
  }

  /** The socket comes later, or again: inotify tells. */
  #awaitLauncher(pod: LauncherPod, entry: Entry, wake: () => void): void {
    if (entry.watch !== undefined) return;
    entry.watch = new AbortController();
    this.#options.launchers.watch(pod, wake, entry.watch.signal);
  }

  async #connect(pod: LauncherPod, { late }: Entry): Promise<Reached> {
    const launcher = await this.#options.launchers.open(pod);
    try {
      const address = { kind: "socket", fd: launcher.socketFd } as const;
      const timeoutMs = Math.min(OPEN_LONGEST_MS, OPEN_FIRST_MS * 2 ** Math.min(late, 10));
      const connection = await this.#options.hypervisor.open(address, { timeoutMs });
      return { launcher, connection };
    } catch (error) {
      launcher.close();
      throw error;
    }
  }

  #follow(
    pod: LauncherPod,
    { entry, session }: { readonly entry: Entry; readonly session: SharedSession },
    wake: () => void,
  ): void {
    const lose = (reason: string): void => {
      if (!this.#end(pod, session, reason)) return;
      entry.session = undefined;
      entry.opened = undefined;
      wake();
    };
    void session.connection.closed.then(({ reason }) => {
      lose(reason);
    });
    void session.launcher.ended.then(() => {
      lose("the process behind the socket ended");
    });
  }

  /** False when it had ended. */
  #end(pod: LauncherPod, session: SharedSession, reason: string): boolean {
    if (!session.end()) return false;
    this.#options.log.info("closed session", { uid: pod.uid, reason });
    return true;
  }
}

/** Sessions, none of which is open yet. */
export function createSessions(options: SessionsOptions): Sessions {
  return new LauncherSessions(options);
}
