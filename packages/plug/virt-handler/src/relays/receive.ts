// SPDX-License-Identifier: Apache-2.0
// The relay on a migration's target node: accepts the source node's connections for one migration, once for each channel.
import type { AddressInfo, Socket } from "node:net";
import { createServer, type Server, type TLSSocket } from "node:tls";
import { messageOf } from "@patchbay/core/errors";
import { Strangers } from "@patchbay/core/strangers";
import { connectUnixSocket } from "@patchbay/os";
import { isPeer, tlsOf } from "./protocol.ts";
import { join, readLine } from "./streams.ts";
import { CHANNELS, parseGreeting, type Channel, type RelayOrder, type Word } from "./protocol.ts";

/**
 * Maximum number of unauthenticated connections at a port. A new one closes the oldest: at a thousand new connections a second,
 * the peer has a quarter of a second for its handshake.
 */
const STRANGERS_MAX = 256;

interface Receiver {
  readonly order: RelayOrder;
  /** Path of the launcher's directory, by its descriptor. */
  readonly directory: string;
  readonly tell: (word: Word) => void;
  /** Number of connections still expected for each channel. */
  readonly left: Map<Channel, number>;
}

/** Claims one of the channel's expected connections; false when none is left. */
function takePlace({ left }: Receiver, channel: Channel): boolean {
  const count = left.get(channel) ?? 0;
  if (count === 0) return false;
  left.set(channel, count - 1);
  return true;
}

async function carry(receiver: Receiver, channel: Channel, remote: TLSSocket): Promise<void> {
  const { order, directory, tell } = receiver;
  try {
    const local = await connectUnixSocket({ directory, path: order.sockets[channel] });
    tell({ kind: "joined", channel });
    join({ local, remote }, channel === "disks" ? 0 : order.silenceMs, (reason) => {
      tell({ kind: "ended", channel, reason });
    });
  } catch (error) {
    remote.destroy();
    tell({ kind: "ended", channel, reason: messageOf(error) });
  }
}

/** Accepts the peer's connection, or returns the reason for rejecting it. */
async function letIn(
  receiver: Receiver,
  port: Channel,
  remote: TLSSocket,
): Promise<string | undefined> {
  const { order, tell } = receiver;
  const greeting = parseGreeting((await readLine(remote, order.greetingMs)) ?? "");
  if (greeting === undefined) return "it did not say what it wants";
  if (greeting.migration !== order.migrationUid) return "it is of another migration";
  if ("says" in greeting) {
    tell({ kind: "gone" });
    remote.end("heard\n");
    return undefined;
  }
  if (greeting.channel !== port) return "it wants another channel";
  if (!takePlace(receiver, port)) return `channel ${port} is taken`;
  await carry(receiver, port, remote);
  return undefined;
}

function serve(receiver: Receiver, channel: Channel): Server {
  const { order, tell } = receiver;
  const options = { ...tlsOf(order.identity), requestCert: true, rejectUnauthorized: true };
  const server = createServer({
    ...options,
    handshakeTimeout: order.greetingMs,
    allowHalfOpen: true,
  });
  const strangers = new Strangers(STRANGERS_MAX);
  server.on("connection", (socket: Socket) => {
    strangers.add(socket);
  });
  server.on("tlsClientError", (error) => {
    tell({ kind: "refused", reason: error.message });
  });
  const refuse = (remote: TLSSocket, reason: string): void => {
    remote.destroy();
    tell({ kind: "refused", reason });
  };
  server.on("secureConnection", (remote) => {
    remote.on("error", () => remote.destroy());
    if (!isPeer(remote.getPeerCertificate(), order.peerNode)) {
      refuse(remote, `it is not node ${order.peerNode}`);
      return;
    }
    strangers.know(remote);
    void letIn(receiver, channel, remote).then((reason) => {
      if (reason !== undefined) refuse(remote, reason);
    });
  });
  return server;
}

function listen(server: Server, address: string): Promise<number> {
  const { promise, resolve, reject } = Promise.withResolvers<number>();
  server.once("error", reject);
  server.listen(0, address, () => {
    server.off("error", reject);
    resolve((server.address() as AddressInfo).port); // of a TCP server
  });
  return promise;
}

/** Listens and reports the ports. */
export async function receive(
  { order, listenAddress }: { readonly order: RelayOrder; readonly listenAddress: string },
  directory: string,
  tell: (word: Word) => void,
): Promise<void> {
  const wanted = CHANNELS.filter((channel) => (order.connections[channel] ?? 0) > 0);
  const left = new Map(wanted.map((channel) => [channel, order.connections[channel] ?? 0]));
  const receiver = { order, directory, tell, left };
  const ports = await Promise.all(
    wanted.map(async (channel) => {
      return [channel, await listen(serve(receiver, channel), listenAddress)] as const;
    }),
  );
  tell({ kind: "listening", ports: Object.fromEntries(ports) });
}
