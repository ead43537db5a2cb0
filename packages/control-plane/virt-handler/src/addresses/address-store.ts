// SPDX-License-Identifier: Apache-2.0
// Store for the addresses that virt-handler has moved from pod NICs to guests. Each pod has a directory with one file per NIC.
import { isJsonObject, parseJson } from "@patchbay/api/json";
import { AppError } from "@patchbay/base";
import type { RememberedAddresses } from "@patchbay/core/nics";
import type { Files } from "@patchbay/core/interfaces";

export interface AddressStore {
  list(podUid: string): Promise<readonly RememberedAddresses[]>;
  /** Resolves when the addresses of the NIC are on disk. */
  write(podUid: string, row: RememberedAddresses): Promise<void>;
  retain(podUid: string, isRetained: (row: RememberedAddresses) => boolean): Promise<void>;
  forgetPod(podUid: string): Promise<void>;
  retainPods(podUids: ReadonlySet<string>): Promise<void>;
}

/** Pattern of safe file names. UIDs and NIC names are checked against it, because other components choose them. */
const NAME_PATTERN = /^[A-Za-z0-9][A-Za-z0-9_.-]{0,62}$/;
const SUFFIX = ".json";
/** Format of the state directory. A change needs the steps in docs/upgrade.md. */
export const STATE_FORMAT = 1;
const PRIVATE_DIRECTORY_MODE = 0o700;

function checkName(name: string): string {
  if (NAME_PATTERN.test(name)) return name;
  throw new AppError("OS_PATH_REFUSED", { path: name, reason: "not a name" });
}

function isRow(value: unknown): value is RememberedAddresses {
  return (
    isJsonObject(value) &&
    typeof value["podInterfaceName"] === "string" &&
    typeof value["index"] === "number" &&
    Array.isArray(value["addresses"]) &&
    Array.isArray(value["routes"])
  );
}

class FileAddressStore implements AddressStore {
  readonly #files: Files;
  readonly #directory: string;
  /** Cached addresses by pod UID, then by name of the pod NIC. */
  readonly #pods = new Map<string, Promise<Map<string, RememberedAddresses>>>();

  constructor(files: Files, directory: string) {
    this.#files = files;
    this.#directory = directory;
  }

  async list(podUid: string): Promise<readonly RememberedAddresses[]> {
    return [...(await this.#loadRows(podUid)).values()];
  }

  async write(podUid: string, row: RememberedAddresses): Promise<void> {
    const rows = await this.#loadRows(podUid);
    await this.#files.ensureDirectory(this.#podPath(podUid), PRIVATE_DIRECTORY_MODE);
    await this.#files.writeAtomic(this.#rowPath(podUid, row.podInterfaceName), JSON.stringify(row));
    rows.set(row.podInterfaceName, row);
  }

  async retain(podUid: string, isRetained: (row: RememberedAddresses) => boolean): Promise<void> {
    const rows = await this.#loadRows(podUid);
    for (const row of [...rows.values()].filter((each) => !isRetained(each))) {
      await this.#files.remove(this.#rowPath(podUid, row.podInterfaceName));
      rows.delete(row.podInterfaceName);
    }
  }

  async forgetPod(podUid: string): Promise<void> {
    this.#pods.delete(podUid);
    await this.#files.remove(this.#podPath(podUid));
  }

  async retainPods(podUids: ReadonlySet<string>): Promise<void> {
    for (const podUid of await this.#files.list(this.#directory)) {
      if (!podUids.has(podUid)) await this.forgetPod(podUid);
    }
  }

  #podPath(podUid: string): string {
    return `${this.#directory}/${checkName(podUid)}`;
  }

  #rowPath(podUid: string, podInterfaceName: string): string {
    return `${this.#podPath(podUid)}/${checkName(podInterfaceName)}${SUFFIX}`;
  }

  #loadRows(podUid: string): Promise<Map<string, RememberedAddresses>> {
    const cached = this.#pods.get(podUid);
    if (cached !== undefined) return cached;
    const rows = this.#read(podUid);
    this.#pods.set(podUid, rows);
    rows.catch(() => this.#pods.delete(podUid));
    return rows;
  }

  async #read(podUid: string): Promise<Map<string, RememberedAddresses>> {
    const names = await this.#files.list(this.#podPath(podUid));
    const rows = new Map<string, RememberedAddresses>();
    for (const name of names.filter((each) => each.endsWith(SUFFIX))) {
      const row = await this.#readRow(`${this.#podPath(podUid)}/${name}`);
      if (row !== undefined) rows.set(row.podInterfaceName, row);
    }
    return rows;
  }

  /** @throws AppError with PODNET_ADDRESSES_UNREADABLE if the file is invalid, because its addresses would otherwise be lost */
  async #readRow(path: string): Promise<RememberedAddresses | undefined> {
    const text = await this.#files.readText(path);
    if (text === undefined) return undefined;
    const row = parseJson(text);
    if (isRow(row)) return row;
    throw new AppError("PODNET_ADDRESSES_UNREADABLE", { path });
  }
}

export function createAddressStore(files: Files, directory: string): AddressStore {
  return new FileAddressStore(files, directory);
}
