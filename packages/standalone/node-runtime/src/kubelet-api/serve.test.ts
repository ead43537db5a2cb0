// SPDX-License-Identifier: Apache-2.0
// Who is served by a node, with what, and what is said to the rest.
import { once } from "node:events";
import type { ClientRequest, IncomingMessage } from "node:http";
import { createServer, type Server, type Socket } from "node:net";
import { createClock } from "@patchbay/os";
import { createAuthority } from "@patchbay/pki";
import { eventually } from "@patchbay/support";
import { afterEach, beforeEach, describe, expect, test } from "vitest";
import { POD, startKubeletBench, type KubeletBench } from "../testing/kubelet-bench.ts";

const WITHIN = { withinMs: 5000 };
const LOGS = "/containerLogs/ns/p/c";
const EXEC = "/exec/ns/p/c?command=sh&output=1";
const UPGRADE = {
  method: "POST",
  headers: { connection: "Upgrade", upgrade: "SPDY/3.1", "x-stream-protocol-version": "v4" },
};

const NO_STREAMS = { stdin: false, stdout: false, stderr: false, tty: false };

let bench: KubeletBench;

beforeEach(async () => {
  bench = await startKubeletBench();
});

afterEach(async () => {
  await bench.stop();
});

async function answerTo(request: ClientRequest): Promise<IncomingMessage> {
  request.end();
  // The event of a request has its answer.
  const [answer] = (await once(request, "response")) as [IncomingMessage];
  return answer;
}

async function textOf(answer: IncomingMessage): Promise<string> {
  let text = "";
  for await (const chunk of answer) text += String(chunk);
  return text;
}

async function get(path: string, more?: Parameters<KubeletBench["open"]>[1]) {
  const answer = await answerTo(bench.open(path, more));
  return { code: answer.statusCode, text: await textOf(answer) };
}

describe("authorized clients", () => {
  test("the API server", async () => {
    expect(await get("/healthz")).toEqual({ code: 200, text: "ok\n" });
    bench.runtime.notReady = "no network";
    expect(await get("/healthz")).toEqual({ code: 500, text: "no network\n" });
  });

  test.each(["/healthz", LOGS, EXEC])("not a client without a certificate: %s", async (path) => {
    const request = bench.open(path, { cert: "", key: "" });
    await expect(answerTo(request)).rejects.toThrow(
      /certificate required|ECONNRESET|socket hang up/,
    );
  });

  test("not a client with a certificate of another CA", async () => {
    const others = await createAuthority("clients-ca", createClock());
    const unauthorized = await bench.identity("kube-apiserver-kubelet-client", others);
    await expect(answerTo(bench.open("/healthz", unauthorized))).rejects.toThrow();
  });

  test("not a client of another name, not even with an upgrade request", async () => {
    const other = await bench.identity("front-proxy-client");
    await bench.run();
    expect((await get("/healthz", other)).code).toBe(401);
    expect((await get(LOGS, other)).code).toBe(401);
    expect((await get(EXEC, { ...other, ...UPGRADE })).code).toBe(401);
    expect(bench.runtime.calls).not.toContainEqual(expect.stringMatching(/^exec/));
  });
});

describe("container logs", () => {
  test("are sent to their end", async () => {
    await bench.run();
    await bench.write("one", "two");
    expect(await get(`${LOGS}?tailLines=1`)).toEqual({ code: 200, text: "two\n" });
  });

  test("are followed until the container ends", async () => {
    const id = await bench.run();
    await bench.write("one");
    const answer = await answerTo(bench.open(`${LOGS}?follow=true`));
    let text = "";
    answer.on("data", (chunk: Buffer) => (text += chunk.toString()));
    await eventually(() => text === "one\n", WITHIN);
    await bench.write("two");
    bench.runtime.endContainer(id, { exitCode: 0 });
    await once(answer, "end");
    expect(text).toBe("one\ntwo\n");
  });

  test("of the previous run differ", async () => {
    const id = await bench.run();
    await bench.write("one");
    bench.runtime.endContainer(id, { exitCode: 1 });
    await bench.run();
    expect(await get(`${LOGS}?previous=true`)).toEqual({ code: 200, text: "one\n" });
    const disconnected = { code: 404, text: 'the log of container "c" was deleted\n' };
    expect(await get(LOGS)).toEqual(disconnected);
  });

  test("fail with an error if they do not exist or the runtime is unavailable", async () => {
    expect((await get("/containerLogs/ns/other/c")).code).toBe(404);
    expect((await get(LOGS)).code).toBe(400);
    expect((await get(LOGS, { method: "DELETE" })).code).toBe(405);
    bench.runtime.stop();
    expect(await get(LOGS)).toEqual({ code: 500, text: expect.stringContaining("fake") as string });
    bench.runtime.start();
  });
});

describe("exec and attach", () => {
  let streams: Server;
  let heard: string;
  let sockets: Socket[];

  beforeEach(async () => {
    heard = "";
    sockets = [];
    streams = createServer((socket) => {
      sockets.push(socket);
      socket.on("data", (chunk: Buffer) => (heard += chunk.toString()));
      socket.on("error", () => socket.destroy());
    });
    streams.listen(0, "127.0.0.1");
    await once(streams, "listening");
    const address = streams.address();
    const port = typeof address === "object" ? (address?.port ?? 0) : 0;
    bench.runtime.exec = () => Promise.resolve(`http://127.0.0.1:${String(port)}/exec/token-1?a=b`);
  });

  afterEach(() => {
    for (const socket of sockets) socket.destroy();
    streams.close();
  });

  test("forward the runtime's stream: head, response, and bytes in both directions", async () => {
    await bench.run();
    const request = bench.open(EXEC, UPGRADE);
    request.end();
    await eventually(() => heard.endsWith("\r\n\r\n"), WITHIN);
    expect(heard.split("\r\n")[0]).toBe("POST /exec/token-1?a=b HTTP/1.1");
    expect(heard).toMatch(/^upgrade: SPDY\/3\.1\r$/im);
    expect(heard.match(/^host:/gim)).toHaveLength(1);
    sockets[0]?.write(
      "HTTP/1.1 101 Switching Protocols\r\nconnection: Upgrade\r\nupgrade: SPDY/3.1\r\n\r\nfirst",
    );
    // The event of an upgrade has answer, socket and first bytes.
    const [, socket, head] = (await once(request, "upgrade")) as [unknown, Socket, Buffer];
    let said = head.toString();
    socket.on("data", (chunk: Buffer) => (said += chunk.toString()));
    socket.write("typed");
    await eventually(() => heard.endsWith("typed"), WITHIN);
    sockets[0]?.end(" last");
    await once(socket, "close");
    expect(said).toBe("first last");
  });

  test("end at the runtime when the client disconnects", async () => {
    await bench.run();
    const request = bench.open(EXEC, UPGRADE);
    request.on("error", () => undefined);
    request.end();
    await eventually(() => heard !== "", WITHIN);
    request.destroy();
    await eventually(
      () => sockets[0]?.destroyed === true || sockets[0]?.readableEnded === true,
      WITHIN,
    );
  });

  test("do not start for a client that disconnected meanwhile", async () => {
    await bench.run();
    const url = await bench.runtime.exec({ ...NO_STREAMS, containerId: "c", command: ["sh"] });
    const asked = Promise.withResolvers<undefined>();
    const left = Promise.withResolvers<undefined>();
    bench.runtime.exec = async () => {
      asked.resolve(undefined);
      await left.promise;
      return url;
    };
    const request = bench.open(EXEC, UPGRADE);
    request.on("error", () => undefined);
    request.end();
    await asked.promise;
    request.destroy();
    await get("/healthz"); // by now the server knows
    left.resolve(undefined);
    await get("/healthz");
    await get("/healthz");
    expect(sockets).toEqual([]);
  });

  test("return the runtime's rejection", async () => {
    await bench.run();
    const asked = get(EXEC, UPGRADE);
    await eventually(() => heard !== "", WITHIN);
    sockets[0]?.end("HTTP/1.1 403 Forbidden\r\ncontent-length: 2\r\nconnection: close\r\n\r\nno");
    expect(await asked).toEqual({ code: 403, text: "no" });
  });

  test.each([
    {
      name: "a terminal has a single output stream",
      tty: true,
      want: { tty: true, stderr: false },
    },
    {
      name: "a container without a terminal has two output streams",
      tty: false,
      want: { tty: false, stderr: true },
    },
  ])("attach with the container's own settings: $name", async ({ tty, want }) => {
    const id = await bench.run();
    const other = { name: "other", image: "i", tty: !tty };
    bench.pods.put({ ...POD, spec: { containers: [other, { name: "c", image: "i", tty }] } });
    const requests: unknown[] = [];
    const url = await bench.runtime.exec({ ...NO_STREAMS, containerId: "c", command: ["sh"] });
    bench.runtime.attach = (request) => {
      requests.push(request);
      return Promise.resolve(url);
    };
    const attached = get("/attach/ns/p/c?output=1&error=1", UPGRADE);
    await eventually(() => heard !== "", WITHIN);
    sockets[0]?.end("HTTP/1.1 403 Forbidden\r\ncontent-length: 2\r\nconnection: close\r\n\r\nno");
    expect((await attached).code).toBe(403);
    expect(requests).toEqual([{ containerId: id, stdin: false, stdout: true, ...want }]);
  });

  test.each([
    {
      name: "an exec request has no upgrade",
      path: EXEC,
      more: {},
      code: 400,
      text: "Upgrade request required\n",
    },
    {
      name: "the pod is missing",
      path: "/exec/ns/x/c?command=sh&output=1",
      more: UPGRADE,
      code: 404,
      text: "pod does not exist\n",
    },
    {
      name: "the container is not running",
      path: EXEC,
      more: UPGRADE,
      code: 500,
      text: 'container not found ("c")\n',
    },
    {
      name: "an attach request has no upgrade",
      path: "/attach/ns/p/c?output=1",
      more: {},
      code: 400,
      text: "Upgrade request required\n",
    },
    {
      name: "the path is neither exec nor attach",
      path: LOGS,
      more: UPGRADE,
      code: 404,
      text: "404 page not found\n",
    },
  ])("are rejected where $name", async ({ path, more, code, text }) => {
    expect(await get(path, more)).toEqual({ code, text });
  });

  test("fail if the runtime's stream has no listener", async () => {
    await bench.run();
    bench.runtime.exec = () => Promise.resolve("http://127.0.0.1:1/exec/token");
    expect((await get(EXEC, UPGRADE)).code).toBe(500);
    bench.runtime.exec = () => Promise.resolve("https://127.0.0.1:1/exec/token");
    expect(await get(EXEC, UPGRADE)).toMatchObject({
      text: expect.stringContaining("not plain HTTP") as string,
    });
  });
});
