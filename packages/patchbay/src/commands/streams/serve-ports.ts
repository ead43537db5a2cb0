// SPDX-License-Identifier: Apache-2.0
// Local TCP ports that lead to a guest, until the user ends it.
import { once } from "node:events";
import { createServer, type AddressInfo, type Server } from "node:net";
import type { Duplex } from "node:stream";
import { messageOf } from "@patchbay/core";
import type { Context } from "../../command.ts";
import { oneLine } from "../../print/safe.ts";

/** One local port. */
export interface LocalPort {
  /** 0 takes a free one. */
  readonly port: number;
  readonly address: string;
  /** Opens what is behind it, for each connection. */
  readonly open: () => Promise<Duplex>;
}

async function listen(local: LocalPort, context: Context): Promise<Server> {
  const server = createServer((socket) => {
    socket.on("error", () => socket.destroy());
    socket.pause();
    local.open().then(
      (stream) => {
        socket.pipe(stream).pipe(socket);
        stream.on("close", () => {
          socket.destroySoon();
        });
        socket.on("close", () => stream.destroy());
      },
      (error: unknown) => {
        context.err.write(`error: ${oneLine(messageOf(error))}\n`);
        socket.destroy();
      },
    );
  });
  server.listen(local.port, local.address);
  await once(server, "listening");
  return server;
}

/**
 * Serves until the context's signal is aborted; `tell` gets the port of each, in order, as soon as all listen.
 * @throws Error of the system where a port is taken
 */
export async function servePorts(
  ports: readonly LocalPort[],
  context: Context,
  tell: (ports: readonly number[]) => void,
): Promise<void> {
  const servers: Server[] = [];
  try {
    for (const port of ports) servers.push(await listen(port, context));
    // They listen on TCP.
    tell(servers.map((server) => (server.address() as AddressInfo).port));
    if (!context.signal.aborted) await once(context.signal, "abort");
  } finally {
    for (const server of servers) server.close();
  }
}
