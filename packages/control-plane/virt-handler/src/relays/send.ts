// SPDX-License-Identifier: Apache-2.0
// The relay on a migration's source node: creates sockets in the launcher's directory and connects them to the target node.
import { createServer, type Server, type Socket } from "node:net";
import { connect, type PeerCertificate, type TLSSocket } from "node:tls";
import { messageOf } from "@patchbay/base";
import { createFiles } from "@patchbay/os";
import { isPeer, toTlsOptions } from "./protocol.ts";
import { joinSockets, readLine } from "./streams.ts";
import {
  CHANNELS,
  DEPARTURE_CONFIRMATION,
  printGreeting,
  type Channel,
  type Greeting,
  type Ports,
  type RelayOptions,
  type RelayMessage,
} from "./protocol.ts";

export interface Sender {
  readonly order: RelayOptions;
  readonly address: string;
  readonly ports: Ports;
}

function open({ order, address, ports }: Sender, channel: Channel, greeting: Greeting) {
  const { promise, resolve, reject } = Promise.withResolvers<TLSSocket>();
  // A literal argument would not compile: tls.connect supports `allowHalfOpen`, but the types of Node.js lack it.
  const options = {
    ...toTlsOptions(order.identity),
    host: address,
    port: ports[channel] ?? 0,
    allowHalfOpen: true,
    timeout: order.greetingMs,
    checkServerIdentity: (_host: string, certificate: PeerCertificate) =>
      isPeer(certificate, order.peerNode)
        ? undefined
        : new Error(`the peer is not node ${order.peerNode}`),
  };
  const remote: TLSSocket = connect(options);
  const onTimeout = (): void => {
    remote.destroy(new Error(`no answer in ${String(order.greetingMs)} ms`));
  };
  remote.once("error", reject);
  remote.once("timeout", onTimeout);
  remote.once("secureConnect", () => {
    remote.off("error", reject);
    remote.off("timeout", onTimeout);
    remote.setTimeout(0);
    remote.on("error", () => remote.destroy());
    remote.write(printGreeting(greeting));
    resolve(remote);
  });
  return promise;
}

async function forward(
  sender: Sender,
  { channel, local }: { readonly channel: Channel; readonly local: Socket },
  report: (message: RelayMessage) => void,
): Promise<void> {
  const { migrationUid, idleTimeoutMs } = sender.order;
  local.pause();
  local.on("error", () => local.destroy());
  try {
    const remote = await open(sender, channel, { migration: migrationUid, channel });
    report({ kind: "joined", channel });
    joinSockets({ local, remote }, channel === "disks" ? 0 : idleTimeoutMs, (reason) => {
      report({ kind: "ended", channel, reason });
    });
  } catch (error) {
    local.destroy();
    report({ kind: "ended", channel, reason: messageOf(error) });
  }
}

/** Creates a server that accepts the expected number of connections of the channel, and then closes. */
function serve(sender: Sender, channel: Channel, report: (message: RelayMessage) => void): Server {
  let remaining = sender.order.connections[channel] ?? 0;
  const server = createServer({ allowHalfOpen: true, pauseOnConnect: true }, (local) => {
    if (remaining === 0) {
      local.destroy();
      report({ kind: "refused", reason: `channel ${channel} is taken` });
      return;
    }
    remaining -= 1;
    if (remaining === 0) server.close();
    void forward(sender, { channel, local }, report);
  });
  return server;
}

function listen(server: Server, path: string): Promise<void> {
  const { promise, resolve, reject } = Promise.withResolvers<undefined>();
  server.once("error", reject);
  server.listen(path, () => {
    server.off("error", reject);
    resolve(undefined);
  });
  return promise;
}

/** Creates the sockets of all channels that the order uses, replacing files with the same names. Reports when all these sockets exist. */
export async function send(
  sender: Sender,
  directory: string,
  report: (message: RelayMessage) => void,
): Promise<void> {
  const { order, ports } = sender;
  for (const channel of CHANNELS.filter((candidate) => (order.connections[candidate] ?? 0) > 0)) {
    const path = `${directory}/${order.sockets[channel]}`;
    await createFiles().remove(path);
    await listen(serve(sender, channel, report), path);
  }
  report({ kind: "listening", ports });
}

export async function reportGone(
  sender: Sender,
  report: (message: RelayMessage) => void,
): Promise<void> {
  const { migrationUid, greetingMs } = sender.order;
  try {
    const remote = await open(sender, "libvirt", { migration: migrationUid, isGuestGone: true });
    const answer = await readLine(remote, greetingMs);
    remote.destroy();
    if (answer === DEPARTURE_CONFIRMATION) report({ kind: "departureConfirmed" });
    else report({ kind: "departureUnconfirmed", reason: "it did not answer" });
  } catch (error) {
    report({ kind: "departureUnconfirmed", reason: messageOf(error) });
  }
}
