// SPDX-License-Identifier: Apache-2.0
// Forwards local TCP ports to a guest until the user interrupts the command.
import { AppError, messageOf } from "@patchbay/base";
import { once } from "node:events";
import { createServer, type AddressInfo, type Server } from "node:net";
import type { Duplex } from "node:stream";

import type { Context } from "../../command.ts";
import { escapeLine } from "../../print/safe.ts";

interface PortPair {
  readonly local: number;
  readonly remote: number;
}

const PORT_MAX = 65_535;
const PAIR = /^(?:tcp\/)?(\d+)(?::(\d+))?$/;

function parsePair(text: string): PortPair | undefined {
  const [, first, second = first] = PAIR.exec(text) ?? [];
  const [local, remote] = [Number(first), Number(second)];
  const isPort = Number.isInteger(remote) && remote >= 1 && Math.max(local, remote) <= PORT_MAX;
  return isPort ? { local, remote } : undefined;
}

/** Parses pairs of a local port and a guest's port. If `isSinglePair` is set, requires one pair. @throws AppError with FLAG_INVALID */
export function parsePorts(texts: readonly string[], isSinglePair: boolean): readonly PortPair[] {
  const wrong = texts.filter((text) => parsePair(text) === undefined);
  if (wrong.length > 0) {
    const reason = `${wrong.join(", ")}: a port is LOCAL:REMOTE or one number from 1 to 65535, over TCP`;
    throw new AppError("FLAG_INVALID", { flag: "<port...>", reason });
  }
  if (isSinglePair && texts.length !== 1) {
    throw new AppError("FLAG_INVALID", { flag: "--stdio", reason: "it takes one port" });
  }
  return texts.flatMap((text) => parsePair(text) ?? []);
}

interface LocalPort {
  /** Local port; 0 selects a free port. */
  readonly port: number;
  readonly address: string;
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
        context.err.write(`error: ${escapeLine(messageOf(error))}\n`);
        socket.destroy();
      },
    );
  });
  server.listen(local.port, local.address);
  await once(server, "listening");
  return server;
}

/** Forwards ports until the signal is aborted. Passes the local ports to `onListening`. @throws EADDRINUSE and other errors of listen(2) */
export async function servePorts(
  ports: readonly LocalPort[],
  context: Context,
  onListening: (ports: readonly number[]) => void,
): Promise<void> {
  const servers: Server[] = [];
  try {
    for (const port of ports) servers.push(await listen(port, context));
    onListening(servers.map((server) => (server.address() as AddressInfo).port));
    if (!context.signal.aborted) await once(context.signal, "abort");
  } finally {
    for (const server of servers) server.close();
  }
}
