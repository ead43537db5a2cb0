// SPDX-License-Identifier: Apache-2.0
// Launchers in memory.
import { AppError } from "@patchbay/base";
import type { Launcher, LauncherPod, Launchers, NetnsHandle } from "@patchbay/core/interfaces";

export interface FakeLaunchers extends Launchers {
  /** Starts the pod's launcher, replacing the previous one. */
  start(pod: LauncherPod, handle: Pick<Launcher, "socketFd" | "netns" | "sidecars">): void;
  /** Kills the launcher's process; its socket remains. */
  kill(podUid: string): void;
  /** Kills the launcher and removes the pod's directory. */
  take(podUid: string): void;
  readonly openCount: number;
  readonly watchCount: number;
}

/** Difference between the descriptors of a launcher's directory and of its socket. */
const DIRECTORY_FD_OFFSET = 100_000;

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
  readonly #watches = new Set<{ readonly uid: string; readonly onChange: () => void }>();

  get openCount(): number {
    return this.#open.size;
  }

  get watchCount(): number {
    return this.#watches.size;
  }

  start(pod: LauncherPod, handle: Pick<Launcher, "socketFd" | "netns" | "sidecars">): void {
    const end = Promise.withResolvers<undefined>();
    this.#running.set(pod.uid, { pod, ...handle, end, isListening: true });
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

  watch({ uid }: LauncherPod, onChange: () => void, signal: AbortSignal): void {
    const watch = { uid, onChange };
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
    const launcher = {
      socketFd,
      directoryFd: socketFd + DIRECTORY_FD_OFFSET,
      netns,
      ...(sidecars === undefined ? {} : { sidecars }),
      ended: end.promise,
      close,
    };
    this.#open.add(launcher);
    return launcher;
  }

  #notify(podUid: string): void {
    for (const { uid, onChange } of this.#watches) if (uid === podUid) onChange();
  }
}

export function createFakeLaunchers(): FakeLaunchers {
  return new MemoryLaunchers();
}
