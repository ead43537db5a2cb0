// SPDX-License-Identifier: Apache-2.0
import { createSocket } from "node:dgram";
import { once } from "node:events";
import { createServer, type AddressInfo } from "node:net";
import { expect, test } from "vitest";
import { openForward } from "./forward.ts";

const HERE = "127.0.0.1";

test("a TCP port is bytes both ways", async () => {
  const server = createServer((socket) => socket.pipe(socket)).listen(0, HERE);
  await once(server, "listening");
  const { port } = server.address() as AddressInfo; // it listens on TCP
  const stream = await openForward(HERE, { port, protocol: "tcp" });
  stream.write("hello");
  expect(String((await once(stream, "data"))[0])).toBe("hello");
  stream.end();
  await once(stream, "close");
  server.close();
});

test("a TCP port at which nobody listens is an error", async () => {
  const server = createServer().listen(0, HERE);
  await once(server, "listening");
  const { port } = server.address() as AddressInfo; // as above
  server.close();
  await once(server, "close");
  await expect(openForward(HERE, { port, protocol: "tcp" })).rejects.toThrow("ECONNREFUSED");
});

test("a UDP port has datagrams, each as it was sent", async () => {
  const server = createSocket("udp4");
  server.on("message", (message, { port, address }) => {
    server.send(message, port, address);
  });
  server.bind(0, HERE);
  await once(server, "listening");
  const stream = await openForward(HERE, { port: server.address().port, protocol: "udp" });
  const heard: string[] = [];
  stream.on("data", (message: Buffer) => heard.push(String(message)));
  for (const word of ["one", "two"]) {
    stream.write(Buffer.from(word));
    await once(stream, "data");
  }
  expect(heard).toEqual(["one", "two"]);
  stream.destroy();
  await once(stream, "close");
  const closed = once(server, "close");
  server.close();
  await closed;
});
