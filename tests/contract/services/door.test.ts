// SPDX-License-Identifier: Apache-2.0
// Mutual authentication of virt-api and virt-handler.
import { mkdtempSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { once } from "node:events";
import { connect, createServer, type AddressInfo, type Server, type Socket } from "node:net";
import { request as httpsRequest } from "node:https";
import { setImmediate as turn } from "node:timers/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { AppError } from "@patchbay/base";
import { STREAM_PROTOCOL, type GuestRequest } from "@patchbay/core/guest";
import { createClock } from "@patchbay/os";
import {
  createAuthority,
  issueCertificate,
  type Authority,
  type CertificateUsage,
  type IssuedCertificate,
} from "@patchbay/pki";
import { eventually } from "@patchbay/support";
import { createSilentLogger } from "@patchbay/telemetry";
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import {
  createOpenHandlerStream,
  createSendToHandler,
} from "../../../packages/control-plane/virt-api/src/handlers/client.ts";
import { serveRequests } from "../../../packages/control-plane/virt-handler/src/server/serve-requests.ts";

const KEY = { namespace: "ns", name: "vm" };

let directory: string;
let own: Authority;
let others: Authority;
let port: number;
let echo: Server;
let echoAt: number;
/** Requested consoles, and the promise that the last one waits for. */
const guests: Socket[] = [];
let hold: Promise<unknown> = Promise.resolve();
let requested: string[];
const stop = new AbortController();
let closed: Promise<void>;

function issue(
  authority: Authority,
  commonName: string,
  usage: CertificateUsage,
): Promise<IssuedCertificate> {
  return issueCertificate(authority, {
    commonName,
    organizations: [],
    usages: [usage],
    dnsNames: usage === "server" ? [commonName] : [],
    ipAddresses: [],
    validDays: 1,
  });
}

async function answerTo(
  { namespace, name }: { namespace?: string; name: string },
  request: GuestRequest,
): Promise<object> {
  await Promise.resolve();
  requested.push(`${String(namespace)}/${name} ${request}`);
  if (request === "userlist")
    throw new AppError("LIBVIRT_AGENT_UNAVAILABLE", { message: "silent" });
  if (request === "reset") throw new TypeError("a secret");
  return request === "guestosinfo" ? { hostname: "web" } : {};
}

/** An echoing console; another VM's is in use. */
function openEcho({ name }: { name: string }): Promise<Socket> {
  if (name !== KEY.name)
    return Promise.reject(new AppError("GUEST_STREAM_IN_USE", { vmi: name, stream: "console" }));
  const socket = connect(echoAt);
  guests.push(socket);
  return Promise.all([once(socket, "connect"), hold]).then(() => socket);
}

/** A doctor's result without examined hops. */
function report({ namespace, name }: { namespace?: string; name: string }, iface: string) {
  const vmi = `${String(namespace)}/${name}`;
  return Promise.resolve({
    vmi,
    interface: iface,
    hops: [],
    isUnplugReason: false,
    milliseconds: 1,
  });
}

/** Whether the kernel has an open connection from the server's port to the client's. */
function isEstablished(server: number, client: number): boolean {
  const hex = (number: number): string => number.toString(16).toUpperCase().padStart(4, "0");
  // Source: Linux, Documentation/networking/proc_net_tcp: local address, remote address, state 01.
  const row = new RegExp(`0100007F:${hex(server)} 0100007F:${hex(client)} 01 `);
  return row.test(readFileSync("/proc/net/tcp", "utf8"));
}

async function serve(
  server: IssuedCertificate,
  { signal } = stop,
): Promise<{ port: number; closed: Promise<void> }> {
  const file = (name: string, text: string): string => {
    const path = join(directory, name);
    writeFileSync(path, text, { mode: 0o600 });
    return path;
  };
  return serveRequests(
    {
      listenAddress: "127.0.0.1",
      port: 0,
      clientName: "virt-api",
      certFile: file("tls.crt", server.certPem),
      keyFile: file("tls.key", server.keyPem),
      clientCaFile: file("ca.crt", own.certPem),
    },
    {
      request: answerTo,
      open: openEcho,
      capture: openEcho,
      examine: report,
      log: createSilentLogger(),
      signal,
    },
  );
}

beforeAll(async () => {
  echo = createServer((socket) => socket.pipe(socket)).listen(0, "127.0.0.1");
  await once(echo, "listening");
  echoAt = (echo.address() as AddressInfo).port;
  directory = mkdtempSync(join(tmpdir(), "door-"));
  own = await createAuthority("own", createClock());
  others = await createAuthority("others", createClock());
  ({ port, closed } = await serve(await issue(own, "virt-handler", "server")));
});

afterAll(async () => {
  stop.abort();
  await closed;
  echo.close();
  rmSync(directory, { recursive: true });
});

function requestAs(
  client: IssuedCertificate,
  caPem: string,
  request: GuestRequest | { readonly examine: string } = "pause",
) {
  requested = [];
  const ask = createSendToHandler({
    find: () => Promise.resolve({ host: "127.0.0.1", port }),
    credentials: () => Promise.resolve({ ...client, caPem }),
  });
  return ask("node1", KEY, request);
}

test("virt-api sends a request and receives the result", async () => {
  const client = await issue(own, "virt-api", "client");
  expect(await requestAs(client, own.certPem)).toEqual({ code: 200, body: {} });
  expect(requested).toEqual(["ns/vm pause"]);
  expect(await requestAs(client, own.certPem, "guestosinfo")).toEqual({
    code: 200,
    body: { hostname: "web" },
  });
  expect(await requestAs(client, own.certPem, { examine: "a/b" })).toMatchObject({
    code: 200,
    body: { vmi: "ns/vm", interface: "a/b" },
  });
  expect(await requestAs(client, own.certPem, "userlist")).toEqual({
    code: 503,
    body: { message: "the guest agent does not answer: silent" },
  });
  expect(await requestAs(client, own.certPem, "reset")).toEqual({
    code: 500,
    body: { message: "internal error" },
  });
});

test("a client of the same CA with another name gets 401", async () => {
  const client = await issue(own, "alice", "client");
  expect(await requestAs(client, own.certPem)).toMatchObject({ code: 401 });
  expect(requested).toEqual([]);
});

test.each([
  { name: "of another CA", of: () => issue(others, "virt-api", "client") },
  { name: "of a server", of: () => issue(own, "virt-api", "server") },
])("rejects a certificate $name", async ({ of }) => {
  await expect(requestAs(await of(), own.certPem)).rejects.toMatchObject({
    code: "API_NODE_UNREACHABLE",
  });
  expect(requested).toEqual([]);
});

test.each([
  { name: "another CA's", caOf: () => others.certPem },
  { name: "nobody's", caOf: () => "" },
])("virt-api sends no request to a server without $name certificate", async ({ caOf }) => {
  const client = await issue(own, "virt-api", "client");
  await expect(requestAs(client, caOf())).rejects.toMatchObject({ code: "API_NODE_UNREACHABLE" });
  expect(requested).toEqual([]);
});

test("sends no request to a server with a certificate of the CA that is not virt-handler", async () => {
  const other = await serve(await issue(own, "somebody", "server"));
  const ask = createSendToHandler({
    find: () => Promise.resolve({ host: "127.0.0.1", port: other.port }),
    credentials: async () => ({ ...(await issue(own, "virt-api", "client")), caPem: own.certPem }),
  });
  requested = [];
  await expect(ask("node1", KEY, "pause")).rejects.toMatchObject({
    code: "API_NODE_UNREACHABLE",
    message: expect.stringContaining("node1") as string,
  });
  expect(requested).toEqual([]);
});

test("reports a node without virt-handler", async () => {
  const ask = createSendToHandler({
    find: () => Promise.resolve(undefined),
    credentials: () => Promise.reject(new Error("not asked")),
  });
  await expect(ask("node1", KEY, "pause")).rejects.toMatchObject({
    message: expect.stringContaining("no virt-handler runs there") as string,
  });
});

describe("a console", () => {
  const request = { stream: "console", preservesSession: false } as const;

  function openAs(client: IssuedCertificate, caPem: string, name = KEY.name) {
    const open = createOpenHandlerStream({
      find: () => Promise.resolve({ host: "127.0.0.1", port }),
      credentials: () => Promise.resolve({ ...client, caPem }),
    });
    return open("node1", { ...KEY, name }, request);
  }

  test("streams both ways until one side ends", async () => {
    const opened = await openAs(await issue(own, "virt-api", "client"), own.certPem);
    if (!("stream" in opened)) throw new Error("it was refused");
    opened.stream.write("root\n");
    const [received] = (await once(opened.stream, "data")) as [Buffer];
    expect(String(received)).toBe("root\n");
    opened.stream.end();
    await once(opened.stream, "close");
  });

  test("is closed when its client has disconnected meanwhile", async () => {
    const { certPem: cert, keyPem: key } = await issue(own, "virt-api", "client");
    const answered = Promise.withResolvers<undefined>();
    hold = answered.promise;
    const asking = httpsRequest({
      host: "127.0.0.1",
      port,
      cert,
      key,
      ca: own.certPem,
      servername: "virt-handler",
      path: "/v1/namespaces/ns/virtualmachineinstances/vm/console",
      headers: { connection: "Upgrade", upgrade: STREAM_PROTOCOL },
      agent: false,
    });
    const before = guests.length;
    asking.on("error", () => undefined).end();
    await eventually(() => guests.length > before, { withinMs: 10_000 });
    const { localPort = 0 } = asking.socket ?? {};
    asking.destroy();
    await eventually(() => !isEstablished(port, localPort), { withinMs: 10_000 });
    // The kernel has the end of the connection; the server reads it in the next turn of the event loop.
    await turn();
    answered.resolve(undefined);
    hold = Promise.resolve();
    await eventually(() => guests.at(-1)?.destroyed === true, { withinMs: 10_000 });
  });

  test("ends when virt-handler stops", async () => {
    const ending = new AbortController();
    const other = await serve(await issue(own, "virt-handler", "server"), ending);
    const client = await issue(own, "virt-api", "client");
    const open = createOpenHandlerStream({
      find: () => Promise.resolve({ host: "127.0.0.1", port: other.port }),
      credentials: () => Promise.resolve({ ...client, caPem: own.certPem }),
    });
    const opened = await open("node1", KEY, request);
    if (!("stream" in opened)) throw new Error("it was refused");
    const closed = once(opened.stream, "close");
    ending.abort();
    await closed;
    await eventually(() => guests.at(-1)?.destroyed === true, { withinMs: 10_000 });
    await other.closed;
  });

  test("reports why it is unavailable", async () => {
    const client = await issue(own, "virt-api", "client");
    expect(await openAs(client, own.certPem, "other")).toEqual({
      refused: { code: 409, body: { message: "the console of other is in use" } },
    });
  });

  test("rejects a client of the same CA with another name", async () => {
    const client = await issue(own, "alice", "client");
    expect(await openAs(client, own.certPem)).toMatchObject({ refused: { code: 401 } });
  });

  test.each([
    { name: "of another CA", of: () => issue(others, "virt-api", "client") },
    { name: "of a server", of: () => issue(own, "virt-api", "server") },
  ])("rejects a certificate $name", async ({ of }) => {
    await expect(openAs(await of(), own.certPem)).rejects.toMatchObject({
      code: "API_NODE_UNREACHABLE",
    });
  });
});
