// SPDX-License-Identifier: Apache-2.0
// A hostile hook, called by virt-handler as root: its access to the node and to its own guest.
import { once } from "node:events";
import { mkdirSync, mkdtempSync, readFileSync, rmSync, symlinkSync } from "node:fs";
import { createServer as createHttp2Server, type ServerHttp2Stream } from "node:http2";
import { createServer, type Server } from "node:net";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { gzipSync } from "node:zlib";
import { createHookSidecars } from "@patchbay/hooks";
import { serveHook } from "@patchbay/hooks/testing";
import { createClock, openVolumeSocket } from "@patchbay/os";
import type { HookSidecars } from "@patchbay/core/interfaces";
import { createBuiltChildStarter, aVmi } from "@patchbay/support";
import { afterEach, beforeEach, describe, expect, onTestFinished, test } from "vitest";
import { callHooks } from "../../../packages/control-plane/virt-handler/src/hooks/call-hooks.ts";

const POD = { uid: "0f1e2d3c-0000-4000-8000-000000000001", namespace: "default", name: "vm" };
const HOOK = "hook-sidecar-0";
const MIB = 1024 * 1024;

let directory: string;
let socket: string;
let hooks: HookSidecars;

function createHooks(infoTimeoutMs = 3000): HookSidecars {
  return createHookSidecars({
    starter: createBuiltChildStarter(),
    clock: createClock(),
    openSocket: (_pod, container) => openVolumeSocket({ directory, path: container }),
    infoTimeoutMs,
    callTimeoutMs: 3000,
  });
}

beforeEach(() => {
  directory = mkdtempSync(join(tmpdir(), "attack-"));
  mkdirSync(join(directory, HOOK));
  socket = join(directory, HOOK, "hook.sock");
  hooks = createHooks();
});

afterEach(() => {
  rmSync(directory, { recursive: true });
});

/** A gRPC message with a claimed length. */
function message(body: Buffer, { packed = false, bytes = body.length } = {}): Buffer {
  const head = Buffer.alloc(5);
  head.writeUInt8(packed ? 1 : 0, 0);
  head.writeUInt32BE(bytes, 1);
  return Buffer.concat([head, body]);
}

/** Repeats the same bytes until the peer stops reading. */
function pour(stream: ServerHttp2Stream, piece: Buffer): void {
  stream.on("drain", () => {
    while (!stream.destroyed && stream.write(piece));
  });
  while (!stream.destroyed && stream.write(piece));
}

async function listen(server: Server | ReturnType<typeof createHttp2Server>): Promise<void> {
  await once(server.listen(socket), "listening");
  onTestFinished(() => {
    server.close();
  });
}

async function info(): Promise<unknown> {
  const sidecar = await hooks.connect(POD, HOOK);
  try {
    return await sidecar.info();
  } finally {
    await sidecar.close();
  }
}

describe("attack 108: rejects hook replies", () => {
  test.each<{
    name: string;
    answer: (stream: ServerHttp2Stream) => void;
    code: string;
    infoTimeoutMs?: number;
  }>([
    {
      name: "a message of four gigabytes",
      answer: (stream) => {
        stream.write(message(Buffer.alloc(16), { bytes: 0xffffffff }));
        pour(stream, Buffer.alloc(MIB));
      },
      code: "HOOK_FAILED",
    },
    {
      name: "a small message that unpacks to a large one",
      answer: (stream) => {
        stream.end(message(gzipSync(Buffer.alloc(64 * MIB)), { packed: true }));
      },
      code: "HOOK_FAILED",
      // Generous deadline, because a busy machine takes seconds to unpack the message.
      infoTimeoutMs: 60_000,
    },
    {
      name: "an endless sequence of small messages",
      answer: (stream) => {
        pour(stream, message(Buffer.alloc(0)));
      },
      code: "HOOK_",
    },
    {
      name: "never",
      answer: () => undefined,
      code: "HOOK_TIMED_OUT",
    },
  ])("$name", async ({ answer, code, infoTimeoutMs }) => {
    hooks = createHooks(infoTimeoutMs);
    const server = createHttp2Server();
    server.on("stream", (stream) => {
      stream.on("error", () => undefined);
      stream.respond({
        ":status": 200,
        "content-type": "application/grpc",
        "grpc-encoding": "gzip",
      });
      answer(stream);
    });
    server.on("session", (session) => {
      session.on("error", () => undefined);
    });
    await listen(server);
    const before = process.memoryUsage().rss;
    await expect(info()).rejects.toMatchObject({ code: expect.stringContaining(code) as string });
    // The test's server has one buffer of it in memory.
    expect(process.memoryUsage().rss - before).toBeLessThan(200 * MIB);
  });

  test.each([
    { name: "noise", noise: Buffer.alloc(64 * 1024, "noise ") },
    {
      name: "empty frames",
      noise: Buffer.from("000000040000000000".repeat(1000), "hex"),
    },
  ])("endless $name in place of HTTP/2", async ({ noise }) => {
    const server = createServer((peer) => {
      peer.on("error", () => undefined);
      peer.on("drain", () => {
        while (!peer.destroyed && peer.write(noise));
      });
      while (!peer.destroyed && peer.write(noise));
    });
    await listen(server);
    await expect(info()).rejects.toMatchObject({
      code: expect.stringMatching(/^HOOK_(UNREACHABLE|TIMED_OUT|FAILED)$/) as string,
    });
  });
});

test("attack 109: does not follow a hook's link to a root socket in place of its own", async () => {
  const visitors: unknown[] = [];
  const server = createServer((peer) => visitors.push(peer));
  const own = join(directory, "root.sock");
  await once(server.listen(own), "listening");
  onTestFinished(() => {
    server.close();
  });
  symlinkSync(own, socket);
  await expect(hooks.connect(POD, HOOK)).rejects.toMatchObject({ code: "OS_PATH_REFUSED" });
  expect(visitors).toEqual([]);
});

const DOMAIN = readFileSync(
  join(
    import.meta.dirname,
    "../../../packages/control-plane/domain/src/xml/__golden__/q35-2-nics.xml",
  ),
  "utf8",
);

test.each([
  {
    name: "removes a NIC",
    answer: (xml: string) => xml.replace(/<interface.*?<\/interface>/s, ""),
    says: "/domain/devices/interface[ua-net0]: a hook cannot take it away",
  },
  {
    name: "adds a disk of the node",
    answer: (xml: string) =>
      xml.replace("</devices>", "<disk><source file='/etc/shadow'/></disk></devices>"),
    says: "/domain/devices/disk: a hook cannot give the guest a disk",
  },
  {
    name: "uses another guest's MAC",
    answer: (xml: string) => xml.replace("02:00:00:00:00:01", "02:00:00:00:00:77"),
    says: "/domain/devices/interface[ua-net1]/mac/@address: a hook cannot make it",
  },
  {
    name: "requests more memory than its pod has",
    answer: (xml: string) => xml.replace(">128<", ">12800<"),
    says: "/domain/memory: a hook cannot change it",
  },
])("attack 110: does not start the guest when a hook $name", async ({ answer, says }) => {
  const hookPoints = [{ name: "OnDefineDomain", priority: 0 }];
  const served = await serveHook(socket, {
    info: { name: "hostile", versions: ["v1alpha3"], hookPoints },
    onDefineDomain: answer,
  });
  onTestFinished(() => {
    served.close();
  });
  const request = { pod: POD, sidecars: [HOOK], vmi: aVmi(), domainXml: DOMAIN, hookNics: [] };
  await expect(callHooks(request, hooks)).rejects.toMatchObject({
    code: "HOOK_ANSWER_REFUSED",
    details: { reason: expect.stringContaining(says) as string },
  });
});
