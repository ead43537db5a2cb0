// SPDX-License-Identifier: Apache-2.0
// Resumed TLS sessions must not replace a client certificate. Unfinished bodies must not delay other clients.
import { X509Certificate } from "node:crypto";
import { once } from "node:events";
import { createServer as createPlainServer, request, type IncomingMessage } from "node:http";
import { createServer } from "node:https";
import { connect as connectPlain, type AddressInfo } from "node:net";
import { connect, type ConnectionOptions, type TLSSocket } from "node:tls";
import { join } from "node:path";
import { createFiles } from "@patchbay/os";
import { createFakeStore } from "@patchbay/kube/testing";
import { eventually } from "@patchbay/support";
import { afterAll, beforeAll, expect, test } from "vitest";
import { ClientAuthority, trustInFile } from "@patchbay/daemon";
import { startBench, type Bench } from "../testing/bench.ts";
import { depsOn } from "../testing/deps.ts";
import { createApp } from "./app.ts";

const GET_GROUPS =
  "GET /apis HTTP/1.1\r\nhost: a\r\nx-remote-user: root\r\nconnection: close\r\n\r\n";
const WITHIN = { withinMs: 5000 };
const VERSIONS = ["TLSv1.2", "TLSv1.3"] as const;

let bench: Bench;

beforeAll(async () => {
  bench = await startBench(createFakeStore);
});

afterAll(async () => {
  await bench.stop();
});

async function ask(socket: TLSSocket) {
  let received = "";
  socket.on("data", (chunk: Buffer) => (received += chunk.toString()));
  socket.end(GET_GROUPS);
  await once(socket, "secureConnect");
  const seen = { isReused: socket.isSessionReused(), certificate: socket.getPeerX509Certificate() };
  await once(socket, "close");
  return { ...seen, received };
}

/** Connects twice without a certificate, and resumes the first session. */
async function comeAgain(options: ConnectionOptions) {
  const address = { host: "127.0.0.1", rejectUnauthorized: false, ...options };
  const first = connect(address);
  let session: Buffer | undefined;
  first.on("session", (given: Buffer) => (session = given));
  await ask(first);
  return ask(connect({ ...address, ...(session === undefined ? {} : { session }) }));
}

test.each(VERSIONS)("%s: resumes no TLS session, also after a reload", async (version) => {
  const options = { port: bench.port, minVersion: version, maxVersion: version };
  const { received, isReused } = await comeAgain(options);
  expect(received).toContain("HTTP/1.1 401 ");
  expect(isReused).toBe(false);
  const renewed = new X509Certificate(await bench.renew());
  await eventually(async () => {
    const again = await comeAgain(options);
    expect(again.certificate?.fingerprint256).toBe(renewed.fingerprint256);
    expect(again.isReused).toBe(false);
    return true;
  }, WITHIN);
});

test("does not trust a resumed TLS session without a certificate", async () => {
  const files = createFiles();
  const read = async (name: string) => (await files.readText(join(bench.directory, name))) ?? "";
  const caFile = join(bench.directory, "front-proxy-ca.pem");
  const authority = new ClientAuthority(trustInFile(files, { caFile, names: [] }));
  const tls = { cert: await read("cert.pem"), key: await read("key.pem") };
  const server = createServer(
    { ...tls, ca: await authority.read(), requestCert: true, rejectUnauthorized: false },
    (request, response) => {
      response.end(`vouched: ${String(authority.isTrustedClient(request))}`);
    },
  ).listen(0, "127.0.0.1");
  try {
    await once(server, "listening");
    // It listens on TCP.
    const { port } = server.address() as { port: number };
    const { received, isReused } = await comeAgain({ port, minVersion: "TLSv1.3" });
    expect(isReused).toBe(true);
    expect(received).toContain("vouched: false");
  } finally {
    server.close();
  }
});

test("unfinished bodies delay only large bodies of their client", async () => {
  const [attacker, other] = ["127.0.0.2", "127.0.0.3"];
  const server = createPlainServer(createApp(depsOn(createFakeStore()), {}));
  server.listen(0, "127.0.0.1");
  await once(server, "listening");
  const { port } = server.address() as AddressInfo;
  const post = async (localAddress: string, length: number): Promise<number | undefined> => {
    const options = { host: "127.0.0.1", port, localAddress, agent: false } as const;
    const outgoing = request({ ...options, method: "POST", path: "/validate" });
    outgoing.end("x".repeat(length));
    const [response] = (await once(outgoing, "response")) as [IncomingMessage];
    response.resume();
    return response.statusCode;
  };
  // The share of an address is 32 MiB.
  const unfinished = Array.from({ length: 4 }, () => {
    const socket = connectPlain({ port, host: "127.0.0.1", localAddress: attacker });
    socket.on("error", () => undefined);
    socket.write(
      `POST /validate HTTP/1.1\r\nhost: a\r\ncontent-length: ${String(2 ** 23)}\r\n\r\n`,
    );
    return socket;
  });
  try {
    await Promise.all(unfinished.map((socket) => once(socket, "connect")));
    // By the answer, the server has read the other requests.
    expect(await post(attacker, 10)).toBe(400);
    const codes: (number | undefined)[] = [];
    const delayed = post(attacker, 2 ** 20).then((code) => codes.push(code));
    expect(await post(other, 2 ** 20)).toBe(400);
    expect(codes).toEqual([]);
    unfinished[0]?.destroy();
    await delayed;
    expect(codes).toEqual([400]);
  } finally {
    for (const socket of unfinished) socket.destroy();
    server.close();
  }
});
