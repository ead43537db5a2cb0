// SPDX-License-Identifier: Apache-2.0
// How is a peer read on that must not be kept waiting, while whoever wants its words is stopped or does not read them?
import { spawn } from "node:child_process";
import type { Socket } from "node:net";
import { fileURLToPath } from "node:url";
import { sealDescriptors } from "../processes/descriptors.ts";

/** From sources the relay runs sources too. */
const isSource = import.meta.url.endsWith(".ts");
const entry = fileURLToPath(
  isSource
    ? new URL("./relay-entry.ts", import.meta.url)
    : new URL("./relay-entry.js", import.meta.url),
);

/**
 * Puts a process between a connected peer and this one: it always reads the peer, keeps the last of what is not read
 * here, and says how much it had to drop. It ends with either side. `peer` must not have been read; it is given away.
 */
export function startRelay(peer: Socket): Socket {
  sealDescriptors();
  const child = spawn(process.execPath, [entry], {
    cwd: "/",
    env: {},
    detached: true, // no signal of this terminal stops or ends it
    stdio: ["ignore", "ignore", "ignore", "pipe", peer],
  });
  peer.destroy(); // the child has it now
  child.unref();
  // The fourth descriptor was asked for as a pipe: it is a socket in both directions.
  const stream = child.stdio[3] as Socket;
  child.once("error", (error) => stream.destroy(error));
  return stream;
}
