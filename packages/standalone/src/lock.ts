// SPDX-License-Identifier: Apache-2.0
// One supervisor for one data directory: a name in the kernel that its holder's death gives back.
import { createHash } from "node:crypto";
import { createServer } from "node:net";
import { AppError } from "@patchbay/core";

/** A held lock. */
export interface Lock {
  release(): void;
}

/**
 * Takes the lock of a data directory. Source: unix(7), "Abstract sockets".
 * @throws AppError with STANDALONE_RUNS_ALREADY when another process holds it.
 */
export function takeLock(dataDir: string): Promise<Lock> {
  const digest = createHash("sha256").update(dataDir).digest("hex");
  const server = createServer((socket) => socket.destroy());
  const { promise, resolve, reject } = Promise.withResolvers<Lock>();
  server.once("error", (error) => {
    reject(new AppError("STANDALONE_RUNS_ALREADY", { dataDir }, { cause: error }));
  });
  server.listen({ path: `\0patchbay-${digest}` }, () => {
    resolve({ release: () => void server.close() });
  });
  return promise;
}
