// SPDX-License-Identifier: Apache-2.0
// The relay on a migration's target node: accepts the expected number of connections of each channel from the source node.
import type { AddressInfo, Socket } from "node:net";
import { createServer, type Server, type TLSSocket } from "node:tls";
import { ConnectionPool, HANDSHAKE_TIMEOUT_MS, messageOf } from "@patchbay/base";

import { connectUnixSocket } from "@patchbay/os";
import { isPeer, toTlsOptions } from "./protocol.ts";
import { joinSockets, readLine } from "./streams.ts";
import {
  CHANNELS,
  DEPARTURE_CONFIRMATION,
  parseGreeting,
  type Channel,
  type RelayOptions,
  type RelayMessage,
} from "./protocol.ts";

/** Limits on unauthenticated connections. With 1000 new connections a second, each can last 0.25 s. */
const UNAUTHENTICATED_LIMITS = { max: 256, share: 64 };

interface Receiver {
  readonly order: RelayOptions;
  /** Path of the launcher's directory below `/proc/self/fd`. */
  readonly directory: string;
  readonly send: (message: RelayMessage) => void;
  readonly remaining: Map<Channel, number>;
}

function claimConnection({ remaining }: Receiver, channel: Channel): boolean {
  const count = remaining.get(channel) ?? 0;
  if (count === 0) return false;
  remaining.set(channel, count - 1);
  return true;
}

async function forward(receiver: Receiver, channel: Channel, remote: TLSSocket): Promise<void> {
  const { order, directory, send } = receiver;
  try {
    const local = await connectUnixSocket({ directory, path: order.sockets[channel] });
    send({ kind: "joined", channel });
    joinSockets({ local, remote }, channel === "disks" ? 0 : order.idleTimeoutMs, (reason) => {
      send({ kind: "ended", channel, reason });
    });
  } catch (error) {
    remote.destroy();
    send({ kind: "ended", channel, reason: messageOf(error) });
  }
}

async function admit(
  receiver: Receiver,
  port: Channel,
  remote: TLSSocket,
): Promise<string | undefined> {
  const { order, send } = receiver;
  const greeting = parseGreeting((await readLine(remote, order.greetingMs)) ?? "");
  if (greeting === undefined) return "it sent no valid greeting";
  if (greeting.migration !== order.migrationUid) return "it belongs to another migration";
  if ("isGuestGone" in greeting) {
    send({ kind: "gone" });
    remote.end(`${DEPARTURE_CONFIRMATION}\n`);
    return undefined;
  }
  if (greeting.channel !== port) return "it requested another channel";
  if (!claimConnection(receiver, port)) return `channel ${port} is taken`;
  await forward(receiver, port, remote);
  return undefined;
}

function serve(receiver: Receiver, channel: Channel): Server {
  const { order, send } = receiver;
  const options = { ...toTlsOptions(order.identity), requestCert: true, rejectUnauthorized: true };
  const server = createServer({
    ...options,
    handshakeTimeout: Math.min(order.greetingMs, HANDSHAKE_TIMEOUT_MS),
    allowHalfOpen: true,
  });
  const unauthenticated = new ConnectionPool(UNAUTHENTICATED_LIMITS);
  server.on("connection", (socket: Socket) => {
    unauthenticated.add(socket);
  });
  server.on("tlsClientError", (error) => {
    send({ kind: "refused", reason: error.message });
  });
  const refuse = (remote: TLSSocket, reason: string): void => {
    remote.destroy();
    send({ kind: "refused", reason });
  };
  server.on("secureConnection", (remote) => {
    remote.on("error", () => remote.destroy());
    if (!isPeer(remote.getPeerCertificate(), order.peerNode)) {
      refuse(remote, `it is not node ${order.peerNode}`);
      return;
    }
    unauthenticated.remove(remote);
    void admit(receiver, channel, remote).then((reason) => {
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
    resolve((server.address() as AddressInfo).port); // The cast is safe, because a TCP server has an IP address and a port
  });
  return promise;
}

export async function receive(
  { order, listenAddress }: { readonly order: RelayOptions; readonly listenAddress: string },
  directory: string,
  send: (message: RelayMessage) => void,
): Promise<void> {
  const channels = CHANNELS.filter((channel) => (order.connections[channel] ?? 0) > 0);
  const remaining = new Map(channels.map((channel) => [channel, order.connections[channel] ?? 0]));
  const receiver = { order, directory, send, remaining };
  const ports = await Promise.all(
    channels.map(async (channel) => {
      return [channel, await listen(serve(receiver, channel), listenAddress)] as const;
    }),
  );
  send({ kind: "listening", ports: Object.fromEntries(ports) });
}
