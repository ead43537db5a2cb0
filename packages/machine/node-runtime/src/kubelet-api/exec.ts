// SPDX-License-Identifier: Apache-2.0
// Joins a connection that is to be upgraded with the stream that the runtime gives: its answer, then bytes both ways.
import type { IncomingMessage } from "node:http";
import { connect, type Socket } from "node:net";
import { AppError } from "@patchbay/core";

/** A connection that is to become something else. */
export interface Upgrade {
  readonly request: IncomingMessage;
  readonly socket: Socket;
  /** What the client sent behind the request. */
  readonly head: Buffer;
}

/** How long the runtime may take to accept a connection, milliseconds. */
const CONNECT_MS = 5000;

/** How long a client may take to close its side after the end, milliseconds. */
const LAST_WORDS_MS = 5000;

/** The request as the runtime gets it: its own target, and no word that is between two others. */
function headOf({ method = "POST", rawHeaders }: IncomingMessage, url: URL): string {
  const lines = [`${method} ${url.pathname}${url.search} HTTP/1.1`, `Host: ${url.host}`];
  for (let index = 0; index < rawHeaders.length; index += 2) {
    const name = rawHeaders[index] ?? "";
    if (name.toLowerCase() !== "host") lines.push(`${name}: ${rawHeaders[index + 1] ?? ""}`);
  }
  return `${lines.join("\r\n")}\r\n\r\n`;
}

function unavailable(url: URL, reason: string, cause?: unknown): AppError {
  return new AppError("CRI_UNAVAILABLE", { endpoint: url.origin, reason }, { cause });
}

async function connectTo(url: URL): Promise<Socket> {
  if (url.protocol !== "http:") throw unavailable(url, "its streams are not plain HTTP");
  const { promise, resolve, reject } = Promise.withResolvers<undefined>();
  const host = url.hostname.replace(/^\[|\]$/g, "");
  const remote = connect({ host, port: Number(url.port || "80"), noDelay: true });
  const late = (): void => {
    reject(unavailable(url, `no connection within ${String(CONNECT_MS)} ms`));
  };
  remote.setTimeout(CONNECT_MS, late);
  remote.once("error", (error) => {
    reject(unavailable(url, error.message, error));
  });
  remote.once("connect", () => {
    resolve(undefined);
  });
  try {
    await promise;
  } catch (error) {
    remote.destroy();
    throw error;
  }
  remote.setTimeout(0);
  remote.off("timeout", late);
  return remote;
}

/** A client and a stream of the runtime that are one. */
export interface JoinedStream {
  /** Who was the first to end it: the runtime, because its program is over, or the client, who has left. */
  readonly over: Promise<"ended" | "left">;
  close(): void;
}

/** Bytes both ways until one side ends; what is on its way then still arrives. */
function join(client: Socket, remote: Socket, signal: AbortSignal): JoinedStream {
  const { promise: over, resolve } = Promise.withResolvers<"ended" | "left">();
  const destroy = (): void => {
    client.destroy();
    remote.destroy();
  };
  signal.addEventListener("abort", destroy, { once: true });
  client.pipe(remote);
  remote.pipe(client);
  client.on("error", destroy);
  remote.on("error", destroy);
  remote.on("close", () => {
    resolve("ended");
    // An HTTP server's connections stay half open: whoever does not close theirs must not keep ours.
    client.end();
    client.setTimeout(LAST_WORDS_MS, destroy);
  });
  client.on("close", () => {
    resolve("left");
    signal.removeEventListener("abort", destroy);
    remote.destroySoon();
  });
  return { over, close: destroy };
}

function hasLeft(client: Socket): boolean {
  return client.destroyed;
}

/**
 * Undefined: the client has left before anything began. Passes the request on to the runtime's stream, and everything behind it both ways; what it says to the request is its
 * answer, also a refusal.
 * @throws AppError with CRI_UNAVAILABLE while nothing was answered yet
 */
export async function joinStream(
  { request, socket, head }: Upgrade,
  target: string,
  signal: AbortSignal,
): Promise<JoinedStream | undefined> {
  if (hasLeft(socket)) return undefined; // while the runtime was asked: nothing is begun
  const url = new URL(target);
  const remote = await connectTo(url);
  if (hasLeft(socket)) {
    remote.destroy(); // nobody would tell of its end any more
    return undefined;
  }
  remote.write(headOf(request, url));
  remote.write(head);
  return join(socket, remote, signal);
}
