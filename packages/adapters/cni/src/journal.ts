// SPDX-License-Identifier: Apache-2.0
// Journal of attachments on disk. A row is written before ADD, so that a restarted agent can undo an interrupted ADD.
import type { NetworkSelection } from "@patchbay/api/annotations";
import { isJsonObject, parseJson, type JsonObject } from "@patchbay/api/json";
import { AppError } from "@patchbay/base";
import type {
  AttachmentRequest,
  CniResult,
  DefaultRoute,
  Files,
  NicPaths,
  NodeNic,
} from "@patchbay/core/interfaces";

export interface JournalDevice {
  /** ID of the device. Unset if the plugin creates the device. */
  readonly id?: string;
  /** Name of the device plugin's resource to which the device belongs. Unset if the configuration names the device. */
  readonly resource?: string;
  readonly infoPath: string;
}

export interface JournalRow {
  readonly podUid: string;
  readonly podNamespace: string;
  readonly podName: string;
  /** NAMESPACE/NAME of the network definition. */
  readonly network: string;
  /** Arguments of ADD, which DEL repeats. */
  readonly request: AttachmentRequest;
  /** Annotation element that requested the attachment. Unset if no annotation requested it, or if an older agent wrote the row. */
  readonly selection?: NetworkSelection;
  /** Inode of the pod's network namespace, in decimal. */
  readonly netnsInode: string;
  /** ID of the boot during which ADD began. Source: /proc/sys/kernel/random/boot_id */
  readonly bootId: string;
  /** Position in the order of the pod's ADDs. DELs run in the reverse order, because an attachment may depend on earlier ones. */
  readonly sequence: number;
  /**
   * `begun` until ADD succeeds, then `attached`. After DEL, `begun` until the host NICs are restored, then `removed` until the pod's
   * `network-status` no longer lists the attachment.
   */
  readonly state: "begun" | "attached" | "removed";
  readonly result?: CniResult;
  /** Routes and permanent neighbors of the NIC after ADD, to restore before DEL. Unset if the NIC had none or the attachment is adopted. */
  readonly paths?: NicPaths;
  /** Whether the attachment connects the pod to its default network. The container runtime requests ADD and DEL of this attachment. */
  readonly isDefault?: true;
  /** Set if the container runtime added the attachment. The runtime also reports it in `network-status` and deletes it with the sandbox. */
  readonly isAdopted?: true;
  /** Set if the attachment requested default routes. `replaced` lists the pod's default routes that the requested routes replaced. */
  readonly defaultRoute?: {
    readonly gateways: readonly string[];
    readonly replaced: readonly DefaultRoute[];
  };
  /** Host NICs that the attachment uses, with their settings before ADD. DEL restores these settings. */
  readonly nodeNics?: readonly NodeNic[];
  /** Set after DEL until the host NICs are restored, so that an agent that restarts meanwhile restores the NICs but does not repeat DEL. */
  readonly isUnmade?: true;
  readonly device?: JournalDevice;
  /** Device information that the plugin wrote during ADD. Source: NPWG device information 1.1 */
  readonly deviceInfo?: JsonObject;
  readonly failedRemovals?: number;
}

export interface Journal {
  /** Writes a row, replacing the row of the same attachment. The row is on disk when the promise resolves. */
  write(row: JournalRow): Promise<void>;
  remove(row: JournalRow): Promise<void>;
  list(podUid: string): Promise<readonly JournalRow[]>;
  /** Lists the UIDs of pods with rows. Deletes directories without rows. Must not run while `write` creates a pod's directory. */
  listPods(): Promise<readonly string[]>;
}

const SUFFIX = ".json";
/** Pattern of pod UIDs and sandbox IDs that can safely become parts of a path. */
const FILE_NAME = /^[a-zA-Z0-9][a-zA-Z0-9_.-]*$/;

function isRow(value: unknown): value is JournalRow {
  if (!isJsonObject(value) || !isJsonObject(value["request"])) return false;
  const textKeys = [
    "podUid",
    "podNamespace",
    "podName",
    "network",
    "netnsInode",
    "bootId",
    "state",
  ];
  const { containerId, interfaceName, config } = value["request"];
  return (
    textKeys.every((key) => typeof value[key] === "string") &&
    typeof value["sequence"] === "number" &&
    typeof containerId === "string" &&
    typeof interfaceName === "string" &&
    isJsonObject(config)
  );
}

function podDirectory(dir: string, podUid: string): string {
  if (FILE_NAME.test(podUid)) return `${dir}/${podUid}`;
  throw new AppError("OS_PATH_REFUSED", { path: podUid, reason: "it is not a UID" });
}

function rowPath(dir: string, { podUid, request }: JournalRow): string {
  const { containerId, interfaceName } = request;
  if (!FILE_NAME.test(containerId) || interfaceName.includes("/")) {
    throw new AppError("OS_PATH_REFUSED", { path: containerId, reason: "it is not a valid name" });
  }
  return `${podDirectory(dir, podUid)}/${containerId}.${interfaceName}${SUFFIX}`;
}

type Rows = Map<string, JournalRow>;

class FileJournal {
  readonly #files: Files;
  readonly #dir: string;
  readonly #rowsByPod = new Map<string, Rows>();

  constructor(files: Files, dir: string) {
    this.#files = files;
    this.#dir = dir;
  }

  async write(row: JournalRow): Promise<void> {
    const path = rowPath(this.#dir, row);
    const writeFile = async (): Promise<void> => {
      await this.#files.ensureDirectory(podDirectory(this.#dir, row.podUid), 0o700);
      await this.#files.writeAtomic(path, `${JSON.stringify(row)}\n`, 0o600);
    };
    await this.#change(row, writeFile, (rows) => rows.set(path, row));
  }

  async remove(row: JournalRow): Promise<void> {
    const path = rowPath(this.#dir, row);
    const directory = podDirectory(this.#dir, row.podUid);
    const removeFile = async (): Promise<void> => {
      await this.#files.remove(path);
      if ((await listRowNames(this.#files, directory)).length === 0) {
        await this.#files.remove(directory);
      }
    };
    await this.#change(row, removeFile, (rows) => rows.delete(path));
  }

  async list(podUid: string): Promise<readonly JournalRow[]> {
    const rows = this.#rowsByPod.get(podUid) ?? (await this.#load(podUid));
    return [...rows.values()].toSorted((a, b) => a.sequence - b.sequence);
  }

  async listPods(): Promise<readonly string[]> {
    const pods: string[] = [];
    for (const podUid of await this.#files.list(this.#dir)) {
      // Deletes a directory without rows. It is empty, or contains a partial row that a crashed agent left.
      if ((await listRowNames(this.#files, `${this.#dir}/${podUid}`)).length > 0) pods.push(podUid);
      else await this.#files.remove(`${this.#dir}/${podUid}`);
    }
    return pods;
  }

  /** Writes to the disk, then to the cache. If writing to the disk fails, the next call reads the pod's rows from disk. */
  async #change(
    { podUid }: JournalRow,
    changeDisk: () => Promise<void>,
    changeMemory: (rows: Rows) => void,
  ): Promise<void> {
    const rows = this.#rowsByPod.get(podUid);
    this.#rowsByPod.delete(podUid);
    await changeDisk();
    if (rows === undefined) return;
    changeMemory(rows);
    if (rows.size > 0) this.#rowsByPod.set(podUid, rows);
  }

  async #load(podUid: string): Promise<Rows> {
    const directory = podDirectory(this.#dir, podUid);
    const rows: Rows = new Map();
    for (const name of await listRowNames(this.#files, directory)) {
      const path = `${directory}/${name}`;
      rows.set(path, await readRow(this.#files, path));
    }
    if (rows.size > 0) this.#rowsByPod.set(podUid, rows);
    return rows;
  }
}

/** Creates a journal with one directory per pod. Caching a pod's rows is safe, because only this process writes them. */
export function createJournal(files: Files, dir: string): Journal {
  const journal = new FileJournal(files, dir);
  return {
    write: (row) => journal.write(row),
    remove: (row) => journal.remove(row),
    list: (podUid) => journal.list(podUid),
    listPods: () => journal.listPods(),
  };
}

async function listRowNames(files: Files, directory: string): Promise<readonly string[]> {
  const names = await files.list(directory);
  return names.filter((name) => name.endsWith(SUFFIX));
}

/** Reads a row. Throws if the row is unreadable, because ignoring it could leak the IP address of its attachment. */
async function readRow(files: Files, path: string): Promise<JournalRow> {
  const row = parseJson(await files.readText(path));
  if (isRow(row)) return row;
  throw new AppError("CNI_JOURNAL_BROKEN", { path });
}
