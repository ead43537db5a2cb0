// SPDX-License-Identifier: Apache-2.0
// What the runtime has begun for a pod, on disk before it is begun: what the world cannot be asked for afterwards.
import { AppError } from "@patchbay/core";
import type { AttachmentRequest, CniResult, Files } from "@patchbay/ports";

/** The record of one pod. */
export interface PodRecord {
  readonly uid: string;
  readonly namespace: string;
  readonly name: string;
  /** Boot in which it was begun. */
  readonly bootId: string;
  /** The arguments of ADD for the default network; DEL gets the same. */
  readonly request: AttachmentRequest;
  /** Absent until ADD has succeeded. */
  readonly result?: CniResult;
}

/**
 * The record, or undefined when nothing was begun.
 * @throws AppError with RUNTIME_RECORD_BROKEN
 */
export async function readRecord(files: Files, path: string): Promise<PodRecord | undefined> {
  const text = await files.readText(path);
  if (text === undefined) return undefined;
  try {
    // Written by writeRecord, as a whole, into a directory that only root may enter.
    return JSON.parse(text) as PodRecord;
  } catch (cause) {
    throw new AppError("RUNTIME_RECORD_BROKEN", { path }, { cause });
  }
}

/** Writes the record; durable when it resolves. */
export async function writeRecord(files: Files, path: string, record: PodRecord): Promise<void> {
  await files.writeAtomic(path, `${JSON.stringify(record)}\n`, 0o600);
}
