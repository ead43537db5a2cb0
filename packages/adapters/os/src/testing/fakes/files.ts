// SPDX-License-Identifier: Apache-2.0
import type { Files } from "@patchbay/core/interfaces";

/** {@link Files} in memory. A directory exists if something is in it, or after `ensureDirectory`. */
export interface FakeFiles extends Files {
  readonly paths: readonly string[];
}

export function createFakeFiles(): FakeFiles {
  return new MemoryFiles();
}

class MemoryFiles implements FakeFiles {
  readonly #texts = new Map<string, string>();
  readonly #directories = new Set<string>(["/"]);
  readonly #watchers = new Map<string, Set<() => void>>();

  get paths(): readonly string[] {
    return [...this.#texts.keys()].toSorted();
  }

  readText(path: string): Promise<string | undefined> {
    return Promise.resolve(this.#texts.get(path));
  }

  writeAtomic(path: string, text: string): Promise<void> {
    this.#texts.set(path, text);
    this.#notify(path);
    return Promise.resolve();
  }

  list(directory: string): Promise<readonly string[]> {
    const prefix = `${directory}/`;
    const below = [...this.#texts.keys(), ...this.#directories]
      .filter((path) => path.startsWith(prefix))
      .map((path) => path.slice(prefix.length).split("/", 1)[0] ?? "");
    return Promise.resolve([...new Set(below)].toSorted());
  }

  ensureDirectory(directory: string): Promise<void> {
    this.#directories.add(directory);
    this.#notify(directory);
    return Promise.resolve();
  }

  remove(path: string): Promise<void> {
    for (const known of [this.#texts, this.#directories]) {
      for (const entry of [...known.keys()]) {
        if (entry === path || entry.startsWith(`${path}/`)) known.delete(entry);
      }
    }
    this.#notify(path);
    return Promise.resolve();
  }

  exists(path: string): Promise<boolean> {
    const known = [...this.#texts.keys(), ...this.#directories];
    return Promise.resolve(known.some((entry) => entry === path || entry.startsWith(`${path}/`)));
  }

  readSpace(): Promise<{ readonly sizeBytes: number; readonly freeBytes: number }> {
    return Promise.resolve({ sizeBytes: 2 ** 40, freeBytes: 2 ** 39 });
  }

  watchDirectory(directory: string, onChange: () => void, signal: AbortSignal): void {
    const watchers = this.#watchers.get(directory) ?? new Set();
    this.#watchers.set(directory, watchers.add(onChange));
    signal.addEventListener("abort", () => watchers.delete(onChange), { once: true });
  }

  #notify(path: string): void {
    const directory = path.slice(0, path.lastIndexOf("/"));
    for (const onChange of this.#watchers.get(directory) ?? []) onChange();
  }
}
