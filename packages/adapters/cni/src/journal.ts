// SPDX-License-Identifier: Apache-2.0
// What the agent has begun, on disk: written before a plugin runs, since afterwards the world cannot be asked.
import { isJsonObject, parseJson, type JsonObject, type NetworkSelection } from "@patchbay/api";
import { AppError } from "@patchbay/core";
import type {
  AttachmentRequest,
  CniResult,
  DefaultRoute,
  Files,
  NodeNic,
} from "@patchbay/core/ports";

/** A device of the node that an attachment has. */
export interface JournalDevice {
  /** Absent: none was given; the plugin tells of what it makes itself. */
  readonly id?: string;
  /** Absent: the device was named, and its network is of no resource. */
  readonly resource?: string;
  /** What is told of it, from the device plugin to CNI plugins and from those to the pod: an absolute path. */
  readonly infoPath: string;
}

/** One attachment that was begun: everything that its DEL needs. */
export interface JournalRow {
  readonly podUid: string;
  readonly podNamespace: string;
  readonly podName: string;
  /** NAMESPACE/NAME of the network definition. */
  readonly network: string;
  /** The arguments of ADD; DEL gets the same. */
  readonly request: AttachmentRequest;
  /** The element that asked for it; absent: no annotation did, or an older agent wrote the row. */
  readonly selection?: NetworkSelection;
  /** Inode of the network namespace, decimal text. */
  readonly netnsInode: string;
  /** Boot in which it was begun. Source: /proc/sys/kernel/random/boot_id */
  readonly bootId: string;
  /** Place in the order of a pod's attachments; later ones may stand on earlier ones. */
  readonly sequence: number;
  /** `begun`: ADD was not seen to succeed. `removed`: DEL has succeeded and is still to be reported. */
  readonly state: "begun" | "attached" | "removed";
  /** Absent until ADD has succeeded. */
  readonly result?: CniResult;
  /** Its pod's default network: it comes and goes by calls of the container runtime, not by the pod's annotation. */
  readonly isDefault?: true;
  /** The pod's runtime has made it: it takes it away with the sandbox, and tells it in the pod's status. */
  readonly isAdopted?: true;
  /** Default routes that it asked for: by which gateways, and what gave way to them. */
  readonly defaultRoute?: {
    readonly gateways: readonly string[];
    readonly replaced: readonly DefaultRoute[];
  };
  /** NICs of the node that it takes, as they were before ADD: so they are again after DEL. */
  readonly nodeNics?: readonly NodeNic[];
  /** DEL has succeeded, or is given up; its state is `begun` until the NICs of the node are as they were. */
  readonly isUnmade?: true;
  /** The device that it was given; no other attachment of its pod gets it. */
  readonly device?: JournalDevice;
  /** What was known of the device after ADD. Source: NPWG device information 1.1. */
  readonly deviceInfo?: JsonObject;
  /** How often DEL has failed, or what comes behind it. */
  readonly failedRemovals?: number;
}

/** The rows of this node. A row is named by pod, sandbox and interface. */
export interface Journal {
  /** Writes the row, durable when it resolves; replaces the one of the same name. */
  write(row: JournalRow): Promise<void>;
  /** Removes the row; not there is success. */
  remove(row: JournalRow): Promise<void>;
  /** The rows of a pod in the order in which they were begun. */
  list(podUid: string): Promise<readonly JournalRow[]>;
  /** The pods that have rows, sorted; sweeps what a process that died left without rows. Before any other work only. */
  listPods(): Promise<readonly string[]>;
}

const SUFFIX = ".json";
/** What a pod's uid and a sandbox's id may look like; both become file names. */
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

function directoryOf(dir: string, podUid: string): string {
  if (FILE_NAME.test(podUid)) return `${dir}/${podUid}`;
  throw new AppError("OS_PATH_REFUSED", { path: podUid, reason: "it is not a UID" });
}

function pathOf(dir: string, { podUid, request }: JournalRow): string {
  const { containerId, interfaceName } = request;
  if (!FILE_NAME.test(containerId) || interfaceName.includes("/")) {
    throw new AppError("OS_PATH_REFUSED", { path: containerId, reason: "it is not a valid name" });
  }
  return `${directoryOf(dir, podUid)}/${containerId}.${interfaceName}${SUFFIX}`;
}

/** Rows by path. */
type Rows = Map<string, JournalRow>;

class FileJournal {
  readonly #files: Files;
  readonly #dir: string;
  /** By pod; of one that is not in it nothing is known. */
  readonly #known = new Map<string, Rows>();

  constructor(files: Files, dir: string) {
    this.#files = files;
    this.#dir = dir;
  }

  async write(row: JournalRow): Promise<void> {
    const path = pathOf(this.#dir, row);
    const writeFile = async (): Promise<void> => {
      await this.#files.ensureDirectory(directoryOf(this.#dir, row.podUid), 0o700);
      await this.#files.writeAtomic(path, `${JSON.stringify(row)}\n`, 0o600);
    };
    await this.#change(row, writeFile, (rows) => rows.set(path, row));
  }

  async remove(row: JournalRow): Promise<void> {
    const path = pathOf(this.#dir, row);
    const directory = directoryOf(this.#dir, row.podUid);
    const removeFile = async (): Promise<void> => {
      await this.#files.remove(path);
      if ((await rowNames(this.#files, directory)).length === 0) {
        await this.#files.remove(directory);
      }
    };
    await this.#change(row, removeFile, (rows) => rows.delete(path));
  }

  async list(podUid: string): Promise<readonly JournalRow[]> {
    const rows = this.#known.get(podUid) ?? (await this.#load(podUid));
    return [...rows.values()].toSorted((a, b) => a.sequence - b.sequence);
  }

  async listPods(): Promise<readonly string[]> {
    const pods: string[] = [];
    for (const podUid of await this.#files.list(this.#dir)) {
      // What an agent that died left without rows: an empty directory, or a row half written.
      if ((await rowNames(this.#files, `${this.#dir}/${podUid}`)).length > 0) pods.push(podUid);
      else await this.#files.remove(`${this.#dir}/${podUid}`);
    }
    return pods;
  }

  /** The disk first; what a change that failed has left there is read again. */
  async #change(
    { podUid }: JournalRow,
    onDisk: () => Promise<void>,
    inMemory: (rows: Rows) => void,
  ): Promise<void> {
    const rows = this.#known.get(podUid);
    this.#known.delete(podUid);
    await onDisk();
    if (rows === undefined) return;
    inMemory(rows);
    if (rows.size > 0) this.#known.set(podUid, rows);
  }

  async #load(podUid: string): Promise<Rows> {
    const directory = directoryOf(this.#dir, podUid);
    const rows: Rows = new Map();
    for (const name of await rowNames(this.#files, directory)) {
      const path = `${directory}/${name}`;
      rows.set(path, await readRow(this.#files, path));
    }
    if (rows.size > 0) this.#known.set(podUid, rows);
    return rows;
  }
}

/**
 * Keeps the journal below `dir`: one directory for each pod, one file for each attachment. Nobody else writes there, so the
 * rows of a pod are read once.
 */
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
  // What a process that died was writing ends otherwise.
  return names.filter((name) => name.endsWith(SUFFIX));
}

/** A row that cannot be read may stand for a lease: it is an error, never skipped. */
async function readRow(files: Files, path: string): Promise<JournalRow> {
  const row = parseJson(await files.readText(path));
  if (isRow(row)) return row;
  throw new AppError("CNI_JOURNAL_BROKEN", { path });
}
