// SPDX-License-Identifier: Apache-2.0
// Launchers in memory.
import { AppError } from "@patchbay/base";
import type { Launcher, LauncherPod, Launchers, NetnsHandle } from "@patchbay/core/interfaces";

/** {@link Launchers} in memory, and the hands of the pods. */
export interface FakeLaunchers extends Launchers {
  /** The pod's launcher listens; in place of the one before. */
  start(pod: LauncherPod, at: Pick<Launcher, "socketFd" | "netns" | "sidecars">): void;
  /** The launcher's process dies; its socket stays. */
  kill(podUid: string): void;
  /** The pod's directory is removed. */
  take(podUid: string): void;
  /** How many launchers were opened and not closed. */
  readonly openCount: number;
  /** How many watch. */
  readonly watchCount: number;
}

/** How far the number of the launcher's directory is from that of its socket. */
const DIRECTORY = 100_000;

interface Running {
  readonly pod: LauncherPod;
  readonly socketFd: number;
  readonly netns: NetnsHandle;
  readonly sidecars?: readonly string[];
  readonly end: PromiseWithResolvers<undefined>;
  isListening: boolean;
}

class MemoryLaunchers implements FakeLaunchers {
  readonly #running = new Map<string, Running>();
  readonly #open = new Set<Launcher>();
  readonly #watches = new Set<{ readonly uid: string; readonly changed: () => void }>();

  get openCount(): number {
    return this.#open.size;
  }

  get watchCount(): number {
    return this.#watches.size;
  }

  start(pod: LauncherPod, at: Pick<Launcher, "socketFd" | "netns" | "sidecars">): void {
    const end = Promise.withResolvers<undefined>();
    this.#running.set(pod.uid, { pod, ...at, end, isListening: true });
    this.#notify(pod.uid);
  }

  kill(podUid: string): void {
    const running = this.#running.get(podUid);
    if (running === undefined) return;
    running.isListening = false;
    running.end.resolve(undefined);
  }

  take(podUid: string): void {
    this.kill(podUid);
    this.#running.delete(podUid);
    this.#notify(podUid);
  }

  open(pod: LauncherPod): Promise<Launcher> {
    return new Promise((resolve) => {
      resolve(this.#find(pod));
    });
  }

  watch({ uid }: LauncherPod, changed: () => void, signal: AbortSignal): void {
    const watch = { uid, changed };
    this.#watches.add(watch);
    signal.addEventListener("abort", () => this.#watches.delete(watch), { once: true });
  }

  #find({ uid, namespace, name }: LauncherPod): Launcher {
    const vmi = `pod ${uid}`;
    const running = this.#running.get(uid);
    if (running === undefined) {
      throw new AppError("LAUNCHER_UNREACHABLE", { vmi, reason: "there is no socket" });
    }
    const { pod, socketFd, netns, sidecars, end, isListening } = running;
    if (pod.namespace !== namespace || pod.name !== name) {
      throw new AppError("OS_PATH_REFUSED", { path: uid, reason: "it is another pod's" });
    }
    if (!isListening) {
      throw new AppError("LAUNCHER_NOT_LISTENING", { vmi, reason: "nobody listens" });
    }
    const close = (): void => void this.#open.delete(launcher);
    const shown = sidecars === undefined ? {} : { sidecars };
    const launcher = {
      socketFd,
      directoryFd: socketFd + DIRECTORY,
      netns,
      ...shown,
      ended: end.promise,
      close,
    };
    this.#open.add(launcher);
    return launcher;
  }

  #notify(podUid: string): void {
    for (const { uid, changed } of this.#watches) if (uid === podUid) changed();
  }
}

/** A node without any launcher. */
export function createFakeLaunchers(): FakeLaunchers {
  return new MemoryLaunchers();
}
