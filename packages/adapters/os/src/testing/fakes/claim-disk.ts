// SPDX-License-Identifier: Apache-2.0
// Claims' storage in memory.
import { AppError } from "@patchbay/base";
import type { ClaimDisk, ClaimSize } from "@patchbay/core/interfaces";

export interface FakeClaimDisk extends ClaimDisk {
  readonly files: ReadonlyMap<string, ClaimSize>;
  /** Mounted file and its group, by directory. */
  readonly mounts: ReadonlyMap<string, { readonly file: string; readonly group?: number }>;
  /** Loop devices by file. */
  readonly devices: ReadonlyMap<string, string>;
  /** Deletes a file, as if its disk was lost. */
  lose(file: string): void;
}

class MemoryClaims implements FakeClaimDisk {
  readonly files = new Map<string, ClaimSize>();
  readonly mounts = new Map<string, { readonly file: string; readonly group?: number }>();
  readonly devices = new Map<string, string>();
  #count = 0;

  make(file: string, size: ClaimSize): Promise<void> {
    if (!this.files.has(file)) this.files.set(file, size);
    return Promise.resolve();
  }

  async mount(
    file: string,
    { directory, group }: { readonly directory: string; readonly group?: number },
  ): Promise<void> {
    await this.#find(file, "mount");
    if (this.mounts.has(directory)) return;
    this.mounts.set(directory, { file, ...(group === undefined ? {} : { group }) });
  }

  async attach(file: string): Promise<string> {
    await this.#find(file, "attach");
    const known = this.devices.get(file);
    if (known !== undefined) return known;
    const device = `/dev/loop${String(this.#count)}`;
    this.#count += 1;
    this.devices.set(file, device);
    return device;
  }

  release(file: string, directory: string): Promise<void> {
    this.mounts.delete(directory);
    this.devices.delete(file);
    return Promise.resolve();
  }

  lose(file: string): void {
    this.files.delete(file);
  }

  #find(file: string, call: string): Promise<void> {
    if (this.files.has(file)) return Promise.resolve();
    const reason = "it does not exist";
    return Promise.reject(new AppError("OS_FILE_FAILED", { call, path: file, reason }));
  }
}

export function createFakeClaimDisk(): FakeClaimDisk {
  return new MemoryClaims();
}
