// SPDX-License-Identifier: Apache-2.0
// Each virtctl request exactly as virtctl sends it: through the API server over TLS to the program virt-api, and to a
// virt-handler with fake guests. docs/reference/api/virtctl.md shows the same table.
import { mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { once } from "node:events";
import { connect, createServer, type Server } from "node:net";
import { join } from "node:path";
import type { StatusBody } from "@patchbay/api/kubernetes";
import { createClock } from "@patchbay/os";
import { createAuthority, issueCertificate, type CertificateUsage } from "@patchbay/pki";
import { createFakePacketCaptures } from "@patchbay/podnet/testing";
import { eventually } from "@patchbay/support";
import { createSilentLogger } from "@patchbay/telemetry";
import { afterAll, beforeAll, expect, test } from "vitest";
import { serveRequests } from "../../../packages/control-plane/virt-handler/src/server/serve-requests.ts";
import type { OpenGuestStream } from "../../../packages/control-plane/virt-handler/src/server/guest-streams.ts";
import { LoopNode } from "../../../packages/control-plane/virt-handler/src/testing/loop-node.ts";
import { SCREEN } from "../../../packages/control-plane/virt-api/src/testing/screen.ts";
import { aScheduledVmi } from "../../../packages/control-plane/virt-handler/src/testing/scene.ts";
import { type Person, VirtApiMachine } from "../../attacks/virt-api-machine.ts";
import { bringAbout, GUEST, makeNetwork, type State } from "./scene.ts";
import commands from "../../../packages/control-plane/virt-api/src/testing/virtctl.json" with { type: "json" };

interface Row {
  readonly command: string;
  readonly method: string;
  /** Below the version, or from the root for a group that is not served. */
  readonly path: string;
  /** The connection becomes a WebSocket. */
  readonly upgrade?: boolean;
  readonly body?: unknown;
  readonly state: State;
  readonly code: number;
  /** The Status's reason; empty without one. */
  readonly message: string;
}

const ROWS = commands as unknown as readonly Row[];
const DOMAIN = "default_vm1";
const ECHO = "hello";
const TIMEOUT = { withinMs: 20_000 };

let directory: string;
/** Echoes its input. */
let guest: Server;
/** Shows two pixels. */
let screen: Server;
let node: LoopNode;
let machine: VirtApiMachine;
let admin: Person;
let closed: Promise<void>;
const stop = new AbortController();

function write(name: string, text: string): string {
  const path = join(directory, name);
  writeFileSync(path, text, { mode: 0o600 });
  return path;
}

/** In place of QEMU's sockets: a screen for screenshots, else an echo. */
function openGuest(): OpenGuestStream {
  return async (key, request) => {
    const place =
      request.sharesScreen === true
        ? { path: join(directory, "screen.sock") }
        : { host: GUEST.address, port: GUEST.port };
    const open = node.createOpenStream(async () => {
      const socket = connect(place);
      await once(socket, "connect");
      return socket;
    });
    return open(key, request);
  };
}

/** A running guest with an agent, and virt-handler's port for it. */
async function startNode(): Promise<readonly string[]> {
  await node.put(aScheduledVmi(["one"]));
  node.start();
  await eventually(() => node.isRunning, TIMEOUT);
  node.daemon.setAgent(DOMAIN, []);
  const authority = await createAuthority("guests", createClock());
  const issue = (commonName: string, usage: CertificateUsage) =>
    issueCertificate(authority, {
      commonName,
      organizations: [],
      usages: [usage],
      ipAddresses: [],
      validDays: 1,
      dnsNames: [commonName],
    });
  const [server, client] = [
    await issue("virt-handler", "server"),
    await issue("virt-api", "client"),
  ];
  const caFile = write("ca.crt", authority.certPem);
  const door = await serveRequests(
    {
      listenAddress: "127.0.0.1",
      port: 0,
      clientName: "virt-api",
      clientCaFile: caFile,
      certFile: write("handler.crt", server.certPem),
      keyFile: write("handler.key", server.keyPem),
    },
    {
      request: node.request,
      open: openGuest(),
      capture: node.createCapture(createFakePacketCaptures([])),
      examine: () => Promise.reject(new Error("virtctl asks no doctor")),
      log: createSilentLogger(),
      signal: stop.signal,
    },
  );
  closed = door.closed;
  return [
    "--virt-handler-address",
    `127.0.0.1:${String(door.port)}`,
    "--virt-handler-ca-file",
    caFile,
    "--virt-handler-client-cert-file",
    write("client.crt", client.certPem),
    "--virt-handler-client-key-file",
    write("client.key", client.keyPem),
  ];
}

beforeAll(async () => {
  directory = mkdtempSync(join(tmpdir(), "virtctl-"));
  guest = createServer((socket) => {
    socket.on("error", () => socket.destroy());
    socket.pipe(socket);
  });
  guest.listen(GUEST.port, GUEST.address);
  screen = createServer((socket) => {
    socket.on("error", () => socket.destroy());
    socket.end(Buffer.concat(Object.values(SCREEN)));
  });
  screen.listen(join(directory, "screen.sock"));
  node = new LoopNode();
  const flags = await startNode();
  machine = await VirtApiMachine.start(() => flags);
  admin = await machine.person("kubernetes-admin", ["system:masters"]);
  await makeNetwork(machine.api);
  const path = "/apis/subresources.kubevirt.io/v1alpha3/version";
  await eventually(async () => (await admin.ask("GET", path)).code === 200, TIMEOUT);
}, 60_000);

afterAll(async () => {
  await machine[Symbol.asyncDispose]();
  stop.abort();
  await closed;
  await node.stop();
  guest.close();
  screen.close();
  rmSync(directory, { recursive: true });
});

/** Sends the row's request; returns code and text of the response, for a stream the echo. */
async function send(row: Row, version: string): Promise<readonly [number, string]> {
  const below = `/apis/subresources.kubevirt.io/${version}/`;
  const path = row.path.startsWith("/") ? row.path : `${below}${row.path}`;
  if (row.upgrade === true) {
    const { code, words } = await admin.openStream(path, ECHO);
    return [code, code === 101 && words === ECHO ? "" : words];
  }
  const { code, body } = await admin.ask(row.method, path, row.body);
  // An unusual response has no message.
  const { message = "", kind }: Partial<Pick<StatusBody, "message" | "kind">> = body as object;
  return [code, kind === "Status" || code === 200 ? message : "no Status"];
}

test.each(ROWS)("virtctl $command of a VM that is $state: $code", async (row) => {
  for (const version of ["v1", "v1alpha3"] as const) {
    await bringAbout(machine.api, row.state);
    expect(await send(row, version)).toEqual([row.code, row.message]);
  }
});

test("no reply is the bare 404 of an unknown path", () => {
  expect(ROWS.filter(({ message }) => message.endsWith("the requested resource"))).toEqual([]);
});

test("requests change the guest", () => {
  const requested = new Set(node.daemon.calls);
  for (const call of ["suspendDomain", "resumeDomain", "rebootDomain", "resetDomain"]) {
    expect(requested).toContain(`${call} ${DOMAIN}`);
  }
});

test("discovery lists both versions and their documents", async () => {
  const { body } = await admin.ask("GET", "/openapi/v3");
  expect(body).toMatchObject({
    paths: {
      "apis/subresources.kubevirt.io/v1": { serverRelativeURL: expect.any(String) as string },
      "apis/subresources.kubevirt.io/v1alpha3": { serverRelativeURL: expect.any(String) as string },
    },
  });
  const groups = await admin.ask("GET", "/apis/subresources.kubevirt.io");
  expect(groups.body).toMatchObject({ preferredVersion: { version: "v1" } });
});
