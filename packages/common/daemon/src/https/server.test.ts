// SPDX-License-Identifier: Apache-2.0
// How serving begins, goes on with new certificates, and ends.
import { X509Certificate } from "node:crypto";
import { once } from "node:events";
import { readFileSync } from "node:fs";
import type { IncomingMessage } from "node:http";
import { request } from "node:https";
import { connect as connectTcp } from "node:net";
import { connect } from "node:tls";
import { createClock } from "@patchbay/os";
import { createAuthority, issueCertificate, type Authority } from "@patchbay/pki";
import type { LogFields } from "@patchbay/base";
import { createFakeFiles, type FakeFiles } from "@patchbay/os/testing";
import { createSilentLogger } from "@patchbay/telemetry";
import { eventually } from "@patchbay/support";
import { afterEach, beforeAll, beforeEach, describe, expect, test } from "vitest";
import { certificateInFiles, ClientAuthority, trustInFile } from "./certificates.ts";
import { startServer, type RunningServer } from "./server.ts";

const FILES = { certFile: "/tls/cert.pem", keyFile: "/tls/key.pem" };
const CA = "/clients/ca.pem";
const WITHIN = { withinMs: 5000 };

let authority: Authority;
let files: FakeFiles;
let stop: AbortController;
let drain: AbortController;
let lines: string[];
/** Requests that came and are not answered yet. */
let answers: (() => void)[];

beforeAll(async () => {
  authority = await createAuthority("ca", createClock());
});

beforeEach(async () => {
  files = createFakeFiles();
  stop = new AbortController();
  drain = new AbortController();
  lines = [];
  answers = [];
  await renew();
  await files.writeAtomic(CA, authority.certPem);
});

afterEach(() => {
  stop.abort();
  for (const answer of answers) answer();
});

/** Puts a new certificate there; gives its fingerprint. */
async function renew(): Promise<string> {
  const issued = await issueCertificate(authority, {
    commonName: "virt-api",
    organizations: [],
    usages: ["server"],
    dnsNames: ["localhost"],
    ipAddresses: ["127.0.0.1"],
    validDays: 1,
  });
  await files.writeAtomic(FILES.keyFile, issued.keyPem);
  await files.writeAtomic(FILES.certFile, issued.certPem);
  return new X509Certificate(issued.certPem).fingerprint256;
}

function serve(
  port = 0,
  clientAuthorities: readonly ClientAuthority[] = [],
): Promise<RunningServer> {
  const own = lines;
  const log = (message: string, fields?: LogFields): void => {
    own.push(`${message} ${JSON.stringify(fields ?? {})}`);
  };
  const logger = { ...createSilentLogger(), debug: log, info: log, warn: log };
  return startServer(
    (_request, response) => void answers.push(() => response.end("done")),
    {
      listenAddress: "127.0.0.1",
      port,
      certificate: certificateInFiles(files, FILES),
      clientAuthorities,
    },
    { log: logger, drainSignal: drain.signal, signal: stop.signal },
  );
}

/** What the server shows to who connects: its certificate, and whether it asks for one. */
async function meet(port: number) {
  const socket = connect({ host: "127.0.0.1", port, rejectUnauthorized: false });
  await once(socket, "secureConnect");
  const fingerprint = socket.getPeerX509Certificate()?.fingerprint256;
  socket.destroy();
  return fingerprint;
}

test.each([FILES.certFile, FILES.keyFile, CA])("does not serve without %s", async (path) => {
  await files.remove(path);
  const clients = new ClientAuthority(trustInFile(files, { caFile: CA, names: [] }));
  await expect(serve(0, [clients])).rejects.toMatchObject({
    code: "OS_FILE_FAILED",
    details: { call: "open", path, reason: "no such file" },
  });
});

test("rejects a port in use", async () => {
  const { port } = await serve();
  await expect(serve(port)).rejects.toMatchObject({ code: "EADDRINUSE" });
});

describe("changed certificates", () => {
  test("take effect, also after unusable ones in between", async () => {
    const { port } = await serve();
    const first = await meet(port);
    await files.writeAtomic(FILES.certFile, "no certificate");
    await eventually(
      () => lines.some((line) => line.startsWith("new certificates cannot")),
      WITHIN,
    );
    expect(await meet(port)).toBe(first);
    const renewed = await renew();
    await eventually(async () => (await meet(port)) === renewed, WITHIN);
    expect(lines.at(-1)).toBe("certificates read {}");
  });

  test("are no longer watched after the end", async () => {
    const { closed } = await serve();
    stop.abort();
    await closed;
    await renew();
    expect(lines).toEqual([]);
  });
});

test("a draining server responds and closes the connection with the response", async () => {
  const { port } = await serve();
  drain.abort();
  const clientRequest = request({ host: "127.0.0.1", port, rejectUnauthorized: false });
  clientRequest.end();
  await eventually(() => answers.length === 1, WITHIN);
  answers.pop()?.();
  const [answer] = (await once(clientRequest, "response")) as [IncomingMessage];
  answer.resume();
  expect([answer.statusCode, answer.headers.connection]).toEqual([200, "close"]);
});

describe("the end of the server", () => {
  test("is immediate without open requests", async () => {
    const { port, closed } = await serve();
    stop.abort();
    await closed;
    await expect(meet(port)).rejects.toMatchObject({ code: "ECONNREFUSED" });
  });

  test("is immediate if it was aborted before", async () => {
    stop.abort();
    const { closed } = await serve();
    await expect(closed).resolves.toBeUndefined();
  });

  test("waits for pending responses", async () => {
    const { port, closed } = await serve();
    const asking = request({ host: "127.0.0.1", port, rejectUnauthorized: false, agent: false });
    const answered = once(asking.end(), "response");
    await eventually(() => answers.length === 1, WITHIN);
    stop.abort();
    await expect(meet(port)).rejects.toMatchObject({ code: "ECONNREFUSED" });
    answers.pop()?.();
    const [response] = (await answered) as [NodeJS.ReadableStream];
    response.resume();
    await closed;
  });
});

test("attack 150: closes the oldest silent connections of an address, and serves others", async () => {
  const { port } = await serve();
  const silent = Array.from({ length: 200 }, () => connectTcp(port, "127.0.0.1").resume());
  for (const socket of silent) socket.on("error", () => undefined);
  await eventually(() => silent.filter(({ closed }) => closed).length === 200 - 128, WITHIN);
  expect(await meet(port)).toMatch(/^[0-9A-F:]+$/);
  for (const socket of silent) socket.destroy();
});

test("connections of clients with a certificate remain in a flood of others", async () => {
  const clients = new ClientAuthority(trustInFile(files, { caFile: CA, names: [] }));
  const { port } = await serve(0, [clients]);
  const { certPem: cert, keyPem: key } = await issueCertificate(authority, {
    commonName: "proxy",
    organizations: [],
    usages: ["client"],
    dnsNames: [],
    ipAddresses: [],
    validDays: 1,
  });
  const proxy = connect({ host: "127.0.0.1", port, rejectUnauthorized: false, cert, key });
  await once(proxy, "secureConnect");
  const silent = Array.from({ length: 200 }, () => connectTcp(port, "127.0.0.1").resume());
  for (const socket of silent) socket.on("error", () => undefined);
  await eventually(() => silent.filter(({ closed }) => closed).length === 200 - 128, WITHIN);
  proxy.write("GET / HTTP/1.1\r\nhost: a\r\n\r\n");
  await eventually(() => answers.length === 1, WITHIN);
  for (const socket of [proxy, ...silent]) socket.destroy();
});

test("logs a client that fails the TLS handshake, and serves other clients", async () => {
  const { port } = await serve();
  const asking = connect({
    host: "127.0.0.1",
    port,
    rejectUnauthorized: false,
    maxVersion: "TLSv1.1",
    minVersion: "TLSv1.1",
  });
  await once(asking, "error");
  await eventually(() => lines.some((line) => line.startsWith("TLS failed")), WITHIN);
  expect(await meet(port)).toMatch(/^[0-9A-F:]+$/);
});

test("an idle connection stays open for longer than a minute", async () => {
  const { port } = await serve();
  const { promise, resolve } = Promise.withResolvers<unknown>();
  const clientRequest = request({
    port,
    host: "127.0.0.1",
    rejectUnauthorized: false,
    agent: false,
  });
  clientRequest.setHeader("connection", "keep-alive");
  clientRequest.on("response", (response) => {
    response.resume();
    resolve(response.headers["keep-alive"]);
  });
  clientRequest.end();
  await eventually(() => answers.length === 1, WITHIN);
  answers.pop()?.();
  expect(await promise).toBe("timeout=120");
});

/** Timers of established connections at a local port. Source: proc(5), /proc/net/tcp, field "tr"; 02: keepalive */
function timersAt(port: number): readonly string[] {
  const hex = port.toString(16).toUpperCase().padStart(4, "0");
  const rows = readFileSync("/proc/self/net/tcp", "utf8").split("\n").slice(1);
  return rows.flatMap((row) => {
    const [, local = "", , state = "", , timer = ""] = row.trim().split(/\s+/);
    return state === "01" && local.endsWith(`:${hex}`) ? [timer.slice(0, 2)] : [];
  });
}

test("enables TCP keepalive for silent clients", async () => {
  const { port } = await serve();
  const client = connect({ host: "127.0.0.1", port, rejectUnauthorized: false });
  await once(client, "secureConnect");
  await eventually(() => timersAt(port).join() === "02", WITHIN);
  client.destroy();
});
