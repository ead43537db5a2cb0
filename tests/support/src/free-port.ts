// SPDX-License-Identifier: Apache-2.0
// A TCP port that no process listens on.
import { once } from "node:events";
import { createServer } from "node:net";

export async function findFreePort(): Promise<number> {
  const server = createServer();
  server.listen(0, "127.0.0.1");
  await once(server, "listening");
  const address = server.address();
  server.close();
  await once(server, "close");
  if (typeof address === "object" && address !== null) return address.port;
  throw new Error("the server has no port");
}
