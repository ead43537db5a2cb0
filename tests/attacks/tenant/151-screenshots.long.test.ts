// SPDX-License-Identifier: Apache-2.0
// Screenshots of VNC servers that report the largest screen or never send a picture, through the program virt-api.
import { once } from "node:events";
import { mkdtemp, rm, writeFile } from "node:fs/promises";
import { createServer, type Server } from "node:https";
import type { AddressInfo } from "node:net";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { Readable, type Duplex } from "node:stream";
import { pipeline } from "node:stream/promises";
import { HANDLER_SERVER_NAME } from "@patchbay/core/guest";
import { createClock } from "@patchbay/os";
import { createAuthority, issueCertificate } from "@patchbay/pki";
import { afterAll, beforeAll, beforeEach, expect, test } from "vitest";
import { SCREEN } from "../../../packages/control-plane/virt-api/src/testing/screen.ts";
import { type Person, VirtApiMachine } from "../virt-api-machine.ts";

const SIDE = 5120;
const ROW = Buffer.from(Array.from({ length: SIDE * 4 }, (_, index) => (index * 7) % 251));
const ROWS_AT_ONCE = 64;
const ROWS = Buffer.concat(Array.from({ length: ROWS_AT_ONCE }, () => ROW));
/** Four threads with their heaps, their rows and their pictures; 8 whole pictures took 1,250 MB. */
const GROWTH_MAX = 500 * 1024 * 1024;
/** Processor time of the main thread for all screenshots, and for each write. Decoding alone took seconds. */
const [SCREENSHOTS_MS, WRITE_MS] = [1500, 100];
const NAMESPACES = ["t1", "t2", "t3", "t4"];

let directory: string;
let handler: Server;
let machine: VirtApiMachine;
let tenant: Person;
let serve: (socket: Duplex) => Promise<void>;
const streams = new Set<Duplex>();

function vmisOf(namespace: string, group = "kubevirt.io/v1"): string {
  return `/apis/${group}/namespaces/${namespace}/virtualmachineinstances`;
}

/** Sends the start of a session, and then the pieces, as fast as the client reads. */
async function send(socket: Duplex, start: Buffer, pieces: Iterable<Buffer>): Promise<void> {
  const { version, security, result } = SCREEN;
  socket.write("HTTP/1.1 101 Switching Protocols\r\nconnection: upgrade\r\nupgrade: x\r\n\r\n");
  socket.write(Buffer.concat([version, security, result, start]));
  await pipeline(Readable.from(pieces), socket, { end: false });
}

/** Sends a picture whose rows repeat. */
function sendScreen(socket: Duplex): Promise<void> {
  const start = Buffer.from(SCREEN.start);
  start.writeUInt16BE(SIDE, 0);
  start.writeUInt16BE(SIDE, 2);
  const update = Buffer.alloc(16);
  update.writeUInt16BE(1, 2);
  update.writeUInt16BE(SIDE, 8);
  update.writeUInt16BE(SIDE, 10);
  const pieces = Array.from({ length: SIDE / ROWS_AT_ONCE }, () => ROWS);
  return send(socket, start, [update, ...pieces]);
}

function* endlessBells(): Generator<Buffer> {
  const bells = Buffer.alloc(64 * 1024, 2);
  for (;;) yield bells;
}

function sendBells(socket: Duplex): Promise<void> {
  return send(socket, SCREEN.start, endlessBells());
}

async function write(name: string, text: string): Promise<string> {
  const path = join(directory, name);
  await writeFile(path, text, { mode: 0o600 });
  return path;
}

/** Starts a virt-handler whose guests are served by `serve`. Returns virt-api's flags for it. */
async function startHandler(): Promise<readonly string[]> {
  const authority = await createAuthority("handlers", createClock());
  const { certPem, keyPem } = await issueCertificate(authority, {
    commonName: HANDLER_SERVER_NAME,
    organizations: [],
    usages: ["server", "client"],
    dnsNames: [HANDLER_SERVER_NAME],
    ipAddresses: [],
    validDays: 1,
  });
  handler = createServer({ cert: certPem, key: keyPem });
  handler.on("upgrade", (_request, socket: Duplex) => {
    streams.add(socket.on("error", () => undefined).resume());
    void serve(socket).catch(() => undefined); // The client has disconnected.
  });
  handler.listen(0, "127.0.0.1");
  await once(handler, "listening");
  const { port } = handler.address() as AddressInfo;
  return [
    "--virt-handler-address",
    `127.0.0.1:${String(port)}`,
    "--virt-handler-ca-file",
    await write("ca.crt", authority.certPem),
    "--virt-handler-client-cert-file",
    await write("client.crt", certPem),
    "--virt-handler-client-key-file",
    await write("client.key", keyPem),
  ];
}

beforeAll(async () => {
  directory = await mkdtemp(join(tmpdir(), "screenshots-"));
  const flags = await startHandler();
  machine = await VirtApiMachine.start(() => flags);
  tenant = await machine.person("admin", ["system:masters"]);
  for (const namespace of NAMESPACES) {
    await machine.api.post("/api/v1/namespaces", { metadata: { name: namespace } });
    for (const name of ["a", "b"]) {
      await machine.api.post(vmisOf(namespace), {
        apiVersion: "kubevirt.io/v1",
        kind: "VirtualMachineInstance",
        metadata: { name },
        spec: { domain: { devices: {} } },
      });
      const status = { phase: "Running", nodeName: "a", activePods: { pod: "a" } };
      await machine.api.patch(`${vmisOf(namespace)}/${name}/status`, { status });
    }
  }
}, 120_000);

beforeEach(() => {
  serve = sendScreen;
});

afterAll(async () => {
  for (const stream of streams) stream.destroy();
  handler.close();
  await machine[Symbol.asyncDispose]();
  await rm(directory, { recursive: true });
});

function takeScreenshot(namespace: string, name: string) {
  const vmis = vmisOf(namespace, "subresources.kubevirt.io/v1");
  return tenant.ask("GET", `${vmis}/${name}/vnc/screenshot`);
}

test("attack 151: 8 screenshots at once take little memory, and admission is served meanwhile", async () => {
  expect(await machine.makeVm("default", "first", "02:00:00:00:01:00")).toMatchObject({
    code: 201,
  });
  const before = await machine.memory();
  const beforeMs = await machine.mainThreadMs();
  const done = new AbortController();
  const taken = Promise.all(
    NAMESPACES.flatMap((namespace) => ["a", "b"].map((name) => takeScreenshot(namespace, name))),
  ).finally(() => {
    done.abort();
  });
  let writes = 0;
  while (!done.signal.aborted) {
    writes += 1;
    const [high, low] = [Math.floor(writes / 256), writes % 256].map((byte) =>
      byte.toString(16).padStart(2, "0"),
    );
    const mac = `02:00:00:01:${high ?? ""}:${low ?? ""}`;
    const answer = await machine.makeVm("default", `vm-${String(writes)}`, mac);
    expect(answer).toMatchObject({ code: 201 });
  }
  const codes = (await taken).map(({ code }) => code);
  const usedMs = (await machine.mainThreadMs()) - beforeMs;
  const growth = (await machine.memory()).most - before.now;
  process.stdout.write(
    `${codes.join(" ")}; ${String(writes)} writes; ${String(Math.round(growth / 1e6))} MB; ` +
      `main thread ${String(Math.round(usedMs))} ms\n`,
  );
  expect(codes.filter((code) => code === 429)).toHaveLength(4);
  expect(codes).toContain(200);
  expect(growth).toBeLessThan(GROWTH_MAX);
  expect(usedMs).toBeLessThan(SCREENSHOTS_MS + writes * WRITE_MS);
});

test("attack 151: a namespace takes two screenshots at once, and a VMI one", async () => {
  const vmis = ["a", "a", "b", "b"];
  const [other, ...own] = await Promise.all([
    takeScreenshot("t2", "a"),
    ...vmis.map((name) => takeScreenshot("t1", name)),
  ]);
  expect(other.code).not.toBe(429);
  expect(own.filter(({ code }) => code === 429)).toHaveLength(2);
});

test("attack 152: screenshots of endless bells fail soon, and admission is served meanwhile", async () => {
  serve = sendBells;
  const beforeMs = await machine.mainThreadMs();
  const taken = Promise.all(NAMESPACES.map((namespace) => takeScreenshot(namespace, "a")));
  for (let write = 0; write < 8; write += 1) {
    const mac = `02:00:00:02:00:0${String(write)}`;
    const answer = await machine.makeVm("default", `bell-${String(write)}`, mac);
    expect(answer).toMatchObject({ code: 201 });
  }
  const messages = (await taken).map(({ body }) => body.message);
  const want = expect.stringContaining("more than 64 messages before the picture") as string;
  expect(messages).toEqual(NAMESPACES.map(() => want));
  expect((await machine.mainThreadMs()) - beforeMs).toBeLessThan(SCREENSHOTS_MS + 8 * WRITE_MS);
});
