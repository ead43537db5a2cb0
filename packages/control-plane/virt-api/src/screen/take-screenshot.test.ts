// SPDX-License-Identifier: Apache-2.0
// The thread that captures screens, with a virt-handler over TLS.
import { once } from "node:events";
import { createServer, type Server } from "node:https";
import type { AddressInfo } from "node:net";
import type { Duplex } from "node:stream";
import { HANDLER_SERVER_NAME } from "@patchbay/core/guest";
import { createClock } from "@patchbay/os";
import { createAuthority, issueCertificate } from "@patchbay/pki";
import { afterAll, beforeAll, expect, test } from "vitest";
import type { TakeScreenshot } from "../handlers/client.ts";
import { SCREEN } from "../testing/screen.ts";
import { createTakeScreenshot } from "./screenshot.ts";

const KEY = { namespace: "ns", name: "vm" };

let server: Server;
let take: TakeScreenshot;
let serve: (socket: Duplex) => void;
let paths: (string | undefined)[];

beforeAll(async () => {
  const authority = await createAuthority("ca", createClock());
  const { certPem, keyPem } = await issueCertificate(authority, {
    commonName: HANDLER_SERVER_NAME,
    organizations: [],
    usages: ["server", "client"],
    dnsNames: [HANDLER_SERVER_NAME],
    ipAddresses: [],
    validDays: 1,
  });
  paths = [];
  server = createServer({ cert: certPem, key: keyPem });
  server.on("upgrade", ({ url }, socket: Duplex) => {
    paths.push(url);
    socket.on("error", () => undefined);
    serve(socket);
  });
  server.listen(0, "127.0.0.1");
  await once(server, "listening");
  const { port } = server.address() as AddressInfo;
  take = createTakeScreenshot({
    find: (node) => Promise.resolve(node === "node1" ? { host: "127.0.0.1", port } : undefined),
    credentials: () => Promise.resolve({ certPem, keyPem, caPem: authority.certPem }),
  });
});

afterAll(() => {
  server.closeAllConnections();
  server.close();
});

function accept(socket: Duplex, bytes: Buffer): void {
  socket.write("HTTP/1.1 101 Switching Protocols\r\nconnection: upgrade\r\nupgrade: x\r\n\r\n");
  socket.write(bytes);
}

test("captures the screen as PNG", async () => {
  serve = (socket) => {
    accept(socket, Buffer.concat(Object.values(SCREEN)));
  };
  const taken = await take("node1", KEY, {});
  expect("png" in taken && Buffer.from(taken.png).subarray(1, 4).toString()).toBe("PNG");
  expect(paths[0]).toContain("ns");
});

test("returns the node's rejection", async () => {
  serve = (socket) => {
    socket.end('HTTP/1.1 503 Service Unavailable\r\ncontent-length: 15\r\n\r\n{"message":"a"}');
  };
  expect(await take("node1", KEY, {})).toEqual({ refused: { code: 503, body: { message: "a" } } });
});

test("reports an unreadable screen and an unreachable node", async () => {
  serve = (socket) => {
    accept(socket, Buffer.from("SSH-2.0-abcd"));
  };
  await expect(take("node1", KEY, {})).rejects.toMatchObject({
    code: "API_SCREEN_UNREADABLE",
    details: { reason: "it does not support RFB 3.8" },
  });
  serve = (socket) => {
    socket.destroy();
  };
  await expect(take("node1", KEY, {})).rejects.toMatchObject({ code: "API_NODE_UNREACHABLE" });
  await expect(take("node2", KEY, {})).rejects.toMatchObject({ code: "API_NODE_UNREACHABLE" });
});
