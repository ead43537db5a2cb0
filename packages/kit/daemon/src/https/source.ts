// SPDX-License-Identifier: Apache-2.0
// Where certificates come from: something that can be read now, and tells when it has become another.
import { dirname } from "node:path";
import { AppError } from "@patchbay/core";
import type { Files } from "@patchbay/core/ports";

/** A value that somebody else keeps. */
export interface Source<T> {
  /**
   * What it is now.
   * @throws AppError when there is none, or none that can be used
   */
  read(): Promise<T>;
  /** Calls `changed` after each change until the signal is aborted. */
  follow(changed: () => void, signal: AbortSignal): void;
}

/** A certificate and its key, PEM. The key is a secret. */
export interface KeyPair {
  readonly certPem: string;
  readonly keyPem: string;
}

/** An authority and those of its clients that are meant: it may sign for others too. */
export interface Trust {
  /** PEM, one certificate or more. */
  readonly caPem: string;
  /** Common names of the clients that are meant; none: every client of this authority. */
  readonly names: readonly string[];
}

async function readRequired(files: Files, path: string): Promise<string> {
  const text = await files.readText(path);
  if (text !== undefined) return text;
  throw new AppError("OS_FILE_FAILED", { call: "open", path, reason: "no such file" });
}

function followFile(files: Files, path: string): Source<unknown>["follow"] {
  return (changed, signal) => {
    files.watchDirectory(dirname(path), changed, signal);
  };
}

/** A certificate in files, which are replaced together, the certificate last. */
export function certificateInFiles(
  files: Files,
  paths: { readonly certFile: string; readonly keyFile: string },
): Source<KeyPair> {
  return {
    read: async () => ({
      certPem: await readRequired(files, paths.certFile),
      keyPem: await readRequired(files, paths.keyFile),
    }),
    follow: followFile(files, paths.certFile),
  };
}

/** An authority in a file; the names of its clients do not change. */
export function trustInFile(
  files: Files,
  { caFile, names }: { readonly caFile: string; readonly names: readonly string[] },
): Source<Trust> {
  return {
    read: async () => ({ caPem: await readRequired(files, caFile), names }),
    follow: followFile(files, caFile),
  };
}
