// SPDX-License-Identifier: Apache-2.0
// Journal of attachments on disk, written before a plugin runs, because afterwards the node does not reveal what was
// begun.
import type { NetworkSelection } from "@patchbay/api/annotations";
import { isJsonObject, parseJson, type JsonObject } from "@patchbay/api/json";
import { AppError } from "@patchbay/base";
import type {
  AttachmentRequest,
  CniResult,
  DefaultRoute,
  Files,
  NodeNic,
} from "@patchbay/core/interfaces";

/** A device of the node that is assigned to an attachment. */
export interface JournalDevice {
  /** Unset if no device was assigned, and the plugin reports one that it creates. */
  readonly id?: string;
  /** Unset if the device was named explicitly, without a resource. */
  readonly resource?: string;
  readonly infoPath: string;
}

export interface JournalRow {
  readonly podUid: string;
  readonly podNamespace: string;
  readonly podName: string;
  /** NAMESPACE/NAME of the network definition. */
  readonly network: string;
  /** The arguments of ADD; DEL gets the same. */
  readonly request: AttachmentRequest;
  /** The annotation element that requested it; unset without one, or if an older agent wrote the row. */
  readonly selection?: NetworkSelection;
  /** Decimal. */
  readonly netnsInode: string;
  /** Boot in which it was begun. Source: /proc/sys/kernel/random/boot_id */
  readonly bootId: string;
  /** Order of a pod's attachments; later ones may depend on earlier ones. */
  readonly sequence: number;
  /** `begun`: ADD has not succeeded yet. `removed`: DEL has succeeded but is not reported yet. */
  readonly state: "begun" | "attached" | "removed";
  /** Unset until ADD has succeeded. */
  readonly result?: CniResult;
  /** The pod's default network, which the container runtime adds and deletes. */
  readonly isDefault?: true;
  /** The container runtime created it, deletes it with the sandbox, and reports it in the pod's status. */
  readonly isAdopted?: true;
  /** Default routes that it requested: its gateways, and the routes they replaced. */
  readonly defaultRoute?: {
    readonly gateways: readonly string[];
    readonly replaced: readonly DefaultRoute[];
  };
  /** NICs of the node that it uses, as they were before ADD, so that DEL can restore them. */
  readonly nodeNics?: readonly NodeNic[];
  /** DEL has succeeded or was abandoned; the state stays `begun` until the node's NICs are restored. */
  readonly isUnmade?: true;
  readonly device?: JournalDevice;
  /** Device information after ADD. Source: NPWG device information 1.1 */
  readonly deviceInfo?: JsonObject;
  readonly failedRemovals?: number;
}

export interface Journal {
  /** Replaces the row with the same identity; durable when it resolves. */
  write(row: JournalRow): Promise<void>;
  remove(row: JournalRow): Promise<void>;
  list(podUid: string): Promise<readonly JournalRow[]>;
  /** Pods with rows, sorted. Deletes leftovers of a process that died, so call it only before any other work. */
  listPods(): Promise<readonly string[]>;
}

const SUFFIX = ".json";
/** Valid pod UIDs and sandbox IDs, which become file names. */
const FILE_NAME = /^[a-zA-Z0-9][a-zA-Z0-9_.-]*$/;

function isRow(value: unknown): value is JournalRow {
  if (!isJsonObject(value) || !isJsonObject(value["request"])) return false;
  const texts = ["podUid", "podNamespace", "podName", "network", "netnsInode", "bootId", "state"];
  const { containerId, interfaceName, config } = value["request"];
  return (
    texts.every((key) => typeof value[key] === "string") &&
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
  /** By pod; a missing pod has not been read. */
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
      if ((await rowNames(this.#files, directory)).length === 0) {
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
      // An empty directory or a partial row of an agent that died.
      if ((await rowNames(this.#files, `${this.#dir}/${podUid}`)).length > 0) pods.push(podUid);
      else await this.#files.remove(`${this.#dir}/${podUid}`);
    }
    return pods;
  }

  /** Changes the disk first. A failed change makes the pod's rows be read again. */
  async #change(
    { podUid }: JournalRow,
    onDisk: () => Promise<void>,
    inMemory: (rows: Rows) => void,
  ): Promise<void> {
    const rows = this.#rowsByPod.get(podUid);
    this.#rowsByPod.delete(podUid);
    await onDisk();
    if (rows === undefined) return;
    inMemory(rows);
    if (rows.size > 0) this.#rowsByPod.set(podUid, rows);
  }

  async #load(podUid: string): Promise<Rows> {
    const directory = podDirectory(this.#dir, podUid);
    const rows: Rows = new Map();
    for (const name of await rowNames(this.#files, directory)) {
      const path = `${directory}/${name}`;
      rows.set(path, await readRow(this.#files, path));
    }
    if (rows.size > 0) this.#rowsByPod.set(podUid, rows);
    return rows;
  }
}

/** One directory per pod and one file per attachment. No other process writes there, so rows are read once. */
export function createJournal(files: Files, dir: string): Journal {
  const journal = new FileJournal(files, dir);
  return {
    write: (row) => journal.write(row),
    remove: (row) => journal.remove(row),
    list: (podUid) => journal.list(podUid),
    listPods: () => journal.listPods(),
  };
}

async function rowNames(files: Files, directory: string): Promise<readonly string[]> {
  const names = await files.list(directory);
  // Partial writes end differently.
  return names.filter((name) => name.endsWith(SUFFIX));
}

/** An unreadable row may hold an IP address lease, so it is an error instead of being skipped. */
async function readRow(files: Files, path: string): Promise<JournalRow> {
  const row = parseJson(await files.readText(path));
  if (isRow(row)) return row;
  throw new AppError("CNI_JOURNAL_BROKEN", { path });
}
