// SPDX-License-Identifier: Apache-2.0
// Sockets and directories of vhost-user in memory.
import { AppError } from "@patchbay/base";
import type { ObservedSocket, VhostSocket } from "@patchbay/core/nics";
import type { VhostDirectories, VhostSockets } from "@patchbay/core/interfaces";

export interface FakeSocketFile {
  readonly kind: "socket" | "file" | "link";
  readonly uid: number;
}

export interface FakeVhostSockets extends VhostSockets {
  /** Creates a file, replacing an existing one. */
  put(path: string, file?: FakeSocketFile): void;
  take(path: string): void;
  /** Returns the target of the launcher's link for the NIC. */
  findLink(podUid: string, podInterfaceName: string): string | undefined;
}

const LAUNCHER_UID = 107;

interface Entry extends FakeSocketFile {
  readonly id: number;
  isShared: boolean;
}

class MemorySockets implements FakeVhostSockets {
  readonly #files = new Map<string, Entry>();
  readonly #links = new Map<string, string>();
  readonly #watches = new Set<{ readonly path: string; readonly onChange: () => void }>();
  #createdCount = 0;

  put(path: string, file: FakeSocketFile = { kind: "socket", uid: 0 }): void {
    this.#createdCount += 1;
    this.#files.set(path, { ...file, id: this.#createdCount, isShared: false });
    this.#notify(path);
  }

  take(path: string): void {
    this.#files.delete(path);
    this.#notify(path);
  }

  findLink(podUid: string, podInterfaceName: string): string | undefined {
    return this.#links.get(`${podUid}/${podInterfaceName}`);
  }

  observe(podUid: string, { podInterfaceName, path }: VhostSocket): ObservedSocket {
    const file = this.#files.get(path);
    if (file === undefined) return { state: "missing" };
    const { kind, uid, id, isShared } = file;
    if (kind !== "socket") return { state: "refused", reason: "it is no socket" };
    if (uid === LAUNCHER_UID) return { state: "refused", reason: "the launcher has made it" };
    const isReady = isShared && this.findLink(podUid, podInterfaceName) === path;
    return { state: isReady ? "ready" : "found", id };
  }

  link(podUid: string, socket: VhostSocket): void {
    const { path, podInterfaceName } = socket;
    const { state, reason = "" } = this.observe(podUid, socket);
    const file = this.#files.get(path);
    if (file === undefined)
      throw new AppError("OS_FILE_FAILED", { call: "link", path, reason: "ENOENT" });
    if (state === "refused") throw new AppError("OS_PATH_REFUSED", { path, reason });
    file.isShared = true;
    this.#links.set(`${podUid}/${podInterfaceName}`, path);
  }

  watch(path: string, onChange: () => void, signal: AbortSignal): void {
    const watch = { path, onChange };
    this.#watches.add(watch);
    signal.addEventListener("abort", () => this.#watches.delete(watch), { once: true });
  }

  #notify(path: string): void {
    for (const watch of this.#watches) if (watch.path === path) watch.onChange();
  }
}

export function createFakeVhostSockets(): FakeVhostSockets {
  return new MemorySockets();
}

export interface FakeVhostDirectories extends VhostDirectories {
  /** Creates a file in the dataplane's directory. */
  put(id: string, name: string): void;
  /** Returns the names in the dataplane's directory; undefined if it does not exist. */
  listFiles(id: string): readonly string[] | undefined;
}

export function createFakeVhostDirectories(): FakeVhostDirectories {
  const directories = new Map<string, Set<string>>();
  const check = (id: string): void => {
    if (/^[A-Za-z0-9][\w.-]{0,63}$/.test(id)) return;
    throw new AppError("OS_PATH_REFUSED", { path: id, reason: "it is no name of a directory" });
  };
  return {
    makeParents: () => Promise.resolve(),
    make: async (id) => {
      await Promise.resolve();
      check(id);
      if (!directories.has(id)) directories.set(id, new Set());
    },
    remove: async (id) => {
      await Promise.resolve();
      check(id);
      directories.delete(id);
    },
    list: () => Promise.resolve([...directories.keys()].toSorted()),
    put: (id, name) => void directories.get(id)?.add(name),
    listFiles: (id) => {
      const files = directories.get(id);
      return files && [...files];
    },
  };
}
