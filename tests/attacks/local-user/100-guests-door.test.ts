// SPDX-License-Identifier: Apache-2.0
// virt-handler's port for requests about its guests: authentication, paths and exhaustion.
import { mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { request } from "node:https";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { text } from "node:stream/consumers";
import { connect, type TLSSocket } from "node:tls";
import type { RunningServer } from "@patchbay/daemon";
import { createClock } from "@patchbay/os";
import { createAuthority, issueCertificate } from "@patchbay/pki";
import { eventually } from "@patchbay/support";
import { createSilentLogger } from "@patchbay/telemetry";
import { afterAll, beforeAll, expect, test } from "vitest";
import { serveRequests } from "../../../packages/control-plane/virt-handler/src/server/serve-requests.ts";
import { LoopNode } from "../../../packages/control-plane/virt-handler/src/testing/loop-node.ts";
import { aScheduledVmi } from "../../../packages/control-plane/virt-handler/src/testing/scene.ts";

type Issued = Awaited<ReturnType<typeof issueCertificate>>;
type Authority = Awaited<ReturnType<typeof createAuthority>>;

const TIMEOUT = { withinMs: 20_000 };
const RESET = "/v1/namespaces/default/virtualmachineinstances/vm1/reset";
const ELSEWHERE = RESET.replace("vm1", "of-another-node");
const SLOW = 200;
const HUGE = 64 * 1024 * 1024;

const stop = new AbortController();
const node = new LoopNode();
const sockets: TLSSocket[] = [];
let directory: string;
let door: RunningServer;
let own: Authority;
let caPem: string;
let api: Issued;

function issue(authority: Authority, commonName: string): Promise<Issued> {
  return issueCertificate(authority, {
    commonName,
    organizations: [],
    usages: ["server", "client"],
    ipAddresses: [],
    validDays: 1,
    dnsNames: [commonName],
  });
}

function write(name: string, content: string): string {
  const path = join(directory, name);
  writeFileSync(path, content, { mode: 0o600 });
  return path;
}

beforeAll(async () => {
  directory = mkdtempSync(join(tmpdir(), "door-"));
  await node.put(aScheduledVmi(["one"]));
  node.start();
  await eventually(() => node.isRunning, TIMEOUT);
  own = await createAuthority("guests", createClock());
  caPem = own.certPem;
  const server = await issue(own, "virt-handler");
  api = await issue(own, "virt-api");
  door = await serveRequests(
    {
      listenAddress: "127.0.0.1",
      port: 0,
      clientName: "virt-api",
      clientCaFile: write("ca.crt", caPem),
      certFile: write("tls.crt", server.certPem),
      keyFile: write("tls.key", server.keyPem),
    },
    {
      request: node.request,
      open: () => Promise.reject(new Error("no stream is asked for")),
      capture: () => Promise.reject(new Error("no capture is asked for")),
      examine: () => Promise.reject(new Error("no doctor is asked for")),
      log: createSilentLogger(),
      signal: stop.signal,
    },
  );
});

afterAll(async () => {
  for (const socket of sockets) socket.destroy();
  stop.abort();
  await door.closed;
  await node.stop();
  rmSync(directory, { recursive: true });
});

/** The response, or how the connection ended. */
async function ask(shown: Partial<Issued>, path: string, body?: Buffer): Promise<unknown> {
  const { promise, resolve } = Promise.withResolvers<unknown>();
  const call = request({
    host: "127.0.0.1",
    port: door.port,
    path,
    method: "PUT",
    agent: false,
    ca: caPem,
    servername: "virt-handler",
    cert: shown.certPem,
    key: shown.keyPem,
  });
  call.on("error", (error: NodeJS.ErrnoException) => {
    resolve(error.code);
  });
  call.on("response", (answer) => {
    void text(answer).then((output) => {
      resolve([answer.statusCode, output]);
    });
  });
  call.end(body);
  return promise;
}

test("attack 100: the handshake fails without a certificate or with another CA's", async () => {
  const other = await createAuthority("guests", createClock());
  const otherClient = await issue(other, "virt-api");
  for (const shown of [{}, otherClient]) {
    expect(await ask(shown, RESET)).toMatch(/^(ERR_SSL|ECONNRESET|EPIPE)/);
  }
  expect(node.daemon.calls.filter((call) => call.startsWith("resetDomain"))).toEqual([]);
});

test.each(["virt-handler", "jane", "virt-api.patchbay.svc"])(
  "attack 100: rejects %s with a certificate of the CA",
  async (name) => {
    const answer = await ask(await issue(own, name), RESET);
    expect(answer).toEqual([401, '{"message":"Unauthorized"}']);
  },
);

test.each([
  { what: "a guest of another node", path: ELSEWHERE },
  { what: "a path that leaves the guests", path: RESET.replace("vm1", "..%2f..%2fvm1") },
  { what: "an unknown request", path: RESET.replace("reset", "destroy") },
])("attack 100: rejects $what even for virt-api", async ({ path }) => {
  expect(await ask(api, path)).toEqual([404, expect.any(String)]);
});

test("attack 100: endless headers and a huge body do not block other clients", async () => {
  const { certPem: cert, keyPem: key } = api;
  for (let index = 0; index < SLOW; index += 1) {
    const place = { host: "127.0.0.1", port: door.port, servername: "virt-handler" };
    const socket = connect({ ...place, ca: caPem, cert, key });
    socket.on("error", () => undefined);
    socket.write(`PUT ${RESET} HTTP/1.1\r\nhost: a\r\nx-slow:`);
    sockets.push(socket);
  }
  const before = process.memoryUsage().rss;
  expect(await ask(api, RESET, Buffer.alloc(HUGE))).toEqual([200, "{}"]);
  expect(process.memoryUsage().rss - before).toBeLessThan(4 * HUGE);
  expect(await ask(api, RESET)).toEqual([200, "{}"]);
});
