// SPDX-License-Identifier: Apache-2.0
// Sessions with the launchers of this node. A session has a connection to libvirt and a network namespace.
import type {
  LinkChanges,
  Hypervisor,
  HypervisorConnection,
  HypervisorEvent,
  Launcher,
  LauncherPod,
  Launchers,
  LinkWatch,
  NetnsHandle,
  VhostSockets,
  WatchedLinks,
} from "@patchbay/core/interfaces";
import { type Logger, AppError, isAppError } from "@patchbay/base";

/** Filters libvirt and netlink events of one launcher: only relevant changes after the last observation wake the loop. */
export class WakeFilter {
  readonly #wake: () => void;
  #isRelevant: (changes: LinkChanges) => boolean = () => true;
  #activePasses = 0;
  /** Whether a libvirt event happened after the last observation. */
  #hasEvent = false;
  #changes: LinkChanges[] = [];

  constructor(wake: () => void) {
    this.#wake = wake;
  }

  recordEvent(): void {
    this.#hasEvent = true;
    this.#wakeIfNeeded();
  }

  recordLinkChanges(changes: LinkChanges): void {
    this.#changes.push(changes);
    this.#wakeIfNeeded();
  }

  /** Drops recorded events and link changes. Must be called when an observation starts, because the observation includes their effects. */
  markObserved(): void {
    this.#hasEvent = false;
    this.#changes = [];
  }

  /** Drops only recorded link changes. Must be called when an observation of links starts. Recorded libvirt events still wake the loop. */
  markLinksObserved(): void {
    this.#changes = [];
  }

  /** Sets the filter for link changes that wake the loop. */
  wakeOnlyFor(isRelevant: (changes: LinkChanges) => boolean): void {
    this.#isRelevant = isRelevant;
  }

  /** Runs `work`. Postpones wake-ups of the loop until `work` has ended. */
  async delayWakeUps<T>(work: () => Promise<T>): Promise<T> {
    this.#activePasses += 1;
    try {
      return await work();
    } finally {
      this.#activePasses -= 1;
      this.#wakeIfNeeded();
    }
  }

  #wakeIfNeeded(): void {
    if (this.#activePasses > 0) return;
    const isNew = this.#hasEvent || this.#changes.some((changes) => this.#isRelevant(changes));
    this.markObserved();
    if (isNew) this.#wake();
  }
}

/** An open launcher and the connection to its libvirt. */
export interface Session {
  readonly launcher: Launcher;
  readonly connection: HypervisorConnection;
  /** Aborted when the session ends. Callers must then close sockets in the pod's network namespace, because a socket retains it. */
  readonly ended: AbortSignal;
  /** Marks the start of an observation, after which earlier events do not wake the loop. */
  markObserved(): void;
  markLinksObserved(): void;
  wakeOnlyFor: WakeFilter["wakeOnlyFor"];
  /** Replaces the set of watched socket paths. A change of a watched socket wakes the listener. */
  watchSockets(paths: readonly string[]): void;
}

export interface Listener {
  /** Called when the launcher may have changed since the last observation. */
  readonly wake: () => void;
  readonly onEvent: (event: HypervisorEvent) => void;
}

/** Sessions by pod. A session is opened at its first use, and closed when libvirt or the launcher exits. */
export interface Sessions {
  /**
   * Calls `work` with the pod's session, whose descriptors stay open until all calls of `work` have ended. Only the listener of the call
   * that opened the session receives events.
   * @throws AppError with LAUNCHER_UNREACHABLE, LAUNCHER_NOT_LISTENING, OS_PATH_REFUSED, LIBVIRT_UNREACHABLE, LIBVIRT_TIMED_OUT,
   *   OS_FILE_FAILED; and the errors of `work`
   */
  use<T>(pod: LauncherPod, listener: Listener, work: (session: Session) => Promise<T>): Promise<T>;
  /** Returns the pod's network namespace; undefined if no session is open. The session may end at any time, which closes the handle. */
  findNetns(pod: LauncherPod): NetnsHandle | undefined;
  /** Returns the milliseconds until the pod's launcher may be used; 0 if it may be used now. */
  backoffMs(pod: LauncherPod): number;
  /** Ends the pod's session. Its descriptors are closed when all running calls of `use` have ended. */
  close(pod: LauncherPod): void;
  closeAll(): void;
}

type OpenedLauncher = Pick<Session, "launcher" | "connection">;

class SharedSession implements Session {
  readonly launcher: Launcher;
  readonly connection: HypervisorConnection;
  readonly #wakeFilter: WakeFilter;
  readonly #ended = new AbortController();
  readonly #links: WatchedLinks;
  readonly #vhostSockets: VhostSockets;
  readonly #watchedSockets = new Map<string, AbortController>();
  #users = 0;

  /** @throws AppError with OS_FILE_FAILED. After such an error, the caller must close the launcher and the connection. */
  constructor(
    { launcher, connection }: OpenedLauncher,
    { linkWatch, vhostSockets }: Pick<SessionsOptions, "linkWatch" | "vhostSockets">,
    listener: Listener,
  ) {
    this.launcher = launcher;
    this.connection = connection;
    this.#vhostSockets = vhostSockets;
    this.#wakeFilter = new WakeFilter(listener.wake);
    this.#links = linkWatch.watch(
      launcher.netns,
      (changes) => {
        this.#wakeFilter.recordLinkChanges(changes);
      },
      this.#ended.signal,
    );
    connection.onEvent((event) => {
      listener.onEvent(event);
      this.#wakeFilter.recordEvent();
    });
  }

  get ended(): AbortSignal {
    return this.#ended.signal;
  }

  markObserved(): void {
    this.#links.discardEvents();
    this.#wakeFilter.markObserved();
  }

  markLinksObserved(): void {
    this.#links.discardEvents();
    this.#wakeFilter.markLinksObserved();
  }

  wakeOnlyFor(isRelevant: Parameters<WakeFilter["wakeOnlyFor"]>[0]): void {
    this.#wakeFilter.wakeOnlyFor(isRelevant);
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
        this.#wakeFilter.recordEvent();
      };
      const signal = AbortSignal.any([this.#ended.signal, watch.signal]);
      this.#vhostSockets.watch(path, changed, signal);
      this.#watchedSockets.set(path, watch);
    }
  }

  /** @throws AppError with LAUNCHER_UNREACHABLE when the session has ended */
  async use<T>(pod: LauncherPod, work: (session: Session) => Promise<T>): Promise<T> {
    if (this.#ended.signal.aborted) {
      const reason = "its session was closed meanwhile";
      throw new AppError("LAUNCHER_UNREACHABLE", { vmi: `pod ${pod.uid}`, reason });
    }
    this.#users += 1;
    try {
      return await this.#wakeFilter.delayWakeUps(() => work(this));
    } finally {
      this.#users -= 1;
      this.#closeUnused();
    }
  }

  /** Closes the connection, so that pending calls fail. Returns false if the session has already ended. */
  end(): boolean {
    if (this.#ended.signal.aborted) return false;
    this.#ended.abort(new Error("the session is over"));
    void this.connection.close();
    this.#closeUnused();
    return true;
  }

  #closeUnused(): void {
    if (this.#ended.signal.aborted && this.#users === 0) this.launcher.close();
  }
}

interface PodEntry {
  readonly pod: LauncherPod;
  /** Session that is open or being opened; undefined while the launcher has no session. */
  session: Promise<SharedSession> | undefined;
  opened: SharedSession | undefined;
  /** Controller of the watch that waits for the launcher's start; undefined when the session is open. */
  watch: AbortController | undefined;
  /** Number of consecutive timeouts of libvirt. */
  timeouts: number;
}

/** Time limit of the first attempt to connect, in milliseconds. Each timeout doubles the limit, because libvirt may need 8 s to start. */
const FIRST_OPEN_TIMEOUT_MS = 5000;
const MAX_OPEN_TIMEOUT_MS = 30_000;

/** The key includes the pod's name. Otherwise, a VMI with the UID of a foreign pod in its status could use that pod's session. */
function toPodKey({ uid, namespace, name }: LauncherPod): string {
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
  readonly #entries = new Map<string, PodEntry>();

  constructor(options: SessionsOptions) {
    this.#options = options;
  }

  async use<T>(
    pod: LauncherPod,
    listener: Listener,
    work: (session: Session) => Promise<T>,
  ): Promise<T> {
    const entry = this.#ensureEntry(pod);
    entry.session ??= this.#begin(pod, entry, listener);
    const session = await entry.session;
    return session.use(pod, work);
  }

  findNetns(pod: LauncherPod): NetnsHandle | undefined {
    return this.#entries.get(toPodKey(pod))?.opened?.launcher.netns;
  }

  backoffMs(): number {
    return 0;
  }

  close(pod: LauncherPod): void {
    const entry = this.#entries.get(toPodKey(pod));
    if (entry === undefined) return;
    this.#entries.delete(toPodKey(pod));
    entry.watch?.abort();
    entry.session?.then(
      (session) => {
        this.#end(pod, session, "the pod is not needed");
      },
      () => undefined, // the callers that wait for the session receive the error
    );
  }

  closeAll(): void {
    for (const { pod } of [...this.#entries.values()]) this.close(pod);
  }

  #ensureEntry(pod: LauncherPod): PodEntry {
    const entry = this.#entries.get(toPodKey(pod)) ?? {
      pod,
      session: undefined,
      opened: undefined,
      watch: undefined,
      timeouts: 0,
    };
    this.#entries.set(toPodKey(pod), entry);
    return entry;
  }

  #begin(pod: LauncherPod, entry: PodEntry, listener: Listener): Promise<SharedSession> {
    const opening = this.#open(pod, entry, listener);
    opening.then(
      () => (entry.timeouts = 0),
      (error: unknown) => {
        entry.session = undefined;
        if (isAppError(error, "LIBVIRT_TIMED_OUT")) entry.timeouts += 1;
      },
    );
    return opening;
  }

  async #open(pod: LauncherPod, entry: PodEntry, listener: Listener): Promise<SharedSession> {
    this.#awaitLauncher(pod, entry, listener.wake);
    const session = this.#share(await this.#connect(pod, entry), listener);
    entry.watch?.abort();
    entry.watch = undefined;
    this.#options.log.info("opened session", { uid: pod.uid });
    this.#watchEnd(pod, { entry, session }, listener.wake);
    entry.opened = session;
    return session;
  }

  #share(opened: OpenedLauncher, listener: Listener): SharedSession {
    try {
      return new SharedSession(opened, this.#options, listener);
    } catch (error) {
      void opened.connection.close();
      opened.launcher.close();
      throw error;
    }
  }

  #awaitLauncher(pod: LauncherPod, entry: PodEntry, wake: () => void): void {
    if (entry.watch !== undefined) return;
    entry.watch = new AbortController();
    this.#options.launchers.watch(pod, wake, entry.watch.signal);
  }

  async #connect(pod: LauncherPod, { timeouts }: PodEntry): Promise<OpenedLauncher> {
    const launcher = await this.#options.launchers.open(pod);
    try {
      const address = { kind: "socket", fd: launcher.socketFd } as const;
      const timeoutMs = Math.min(
        MAX_OPEN_TIMEOUT_MS,
        FIRST_OPEN_TIMEOUT_MS * 2 ** Math.min(timeouts, 10),
      );
      const connection = await this.#options.hypervisor.open(address, { timeoutMs });
      return { launcher, connection };
    } catch (error) {
      launcher.close();
      throw error;
    }
  }

  #watchEnd(
    pod: LauncherPod,
    { entry, session }: { readonly entry: PodEntry; readonly session: SharedSession },
    wake: () => void,
  ): void {
    const onEnd = (reason: string): void => {
      if (!this.#end(pod, session, reason)) return;
      entry.session = undefined;
      entry.opened = undefined;
      wake();
    };
    void session.connection.closed.then(({ reason }) => {
      onEnd(reason);
    });
    void session.launcher.ended.then(() => {
      onEnd("the process behind the socket ended");
    });
  }

  /** Ends the session. Returns false if the session has already ended. */
  #end(pod: LauncherPod, session: SharedSession, reason: string): boolean {
    if (!session.end()) return false;
    this.#options.log.info("closed session", { uid: pod.uid, reason });
    return true;
  }
}

export function createSessions(options: SessionsOptions): Sessions {
  return new LauncherSessions(options);
}
