// SPDX-License-Identifier: Apache-2.0
// The program patchbay-cni: its requests, its output, and its errors without a server. Needs root.
import { spawn } from "node:child_process";
import { once } from "node:events";
import { chmodSync, mkdtempSync, rmSync, utimesSync, writeFileSync } from "node:fs";
import { createServer, type Server, type Socket } from "node:net";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { text } from "node:stream/consumers";
import { afterEach, beforeEach, expect, test } from "vitest";
import { PLUGIN } from "./node.ts";

const ENV = {
  CNI_CONTAINERID: "box",
  CNI_NETNS: "/run/netns/box",
  CNI_IFNAME: "eth0",
  CNI_ARGS: 'K8S_POD_NAME="pod"\\',
  CNI_PATH: "/opt/cni/bin",
};
let directory: string;
let socketPath: string;
let server: Server | undefined;

beforeEach(() => {
  directory = mkdtempSync(join(tmpdir(), "patchbay-cni-"));
  socketPath = join(directory, "cni.sock");
});
afterEach(() => {
  server?.close();
  server = undefined;
  rmSync(directory, { recursive: true });
});

interface Ended {
  readonly code: number;
  readonly stdout: string;
  readonly stderr: string;
}

async function call(env: Readonly<Record<string, string>>, stdin: string): Promise<Ended> {
  const child = spawn(PLUGIN, [], { env, stdio: "pipe" });
  child.stdin.on("error", () => undefined); // it may read no more
  child.stdin.end(stdin);
  const [stdout, stderr, [code]] = await Promise.all([
    text(child.stdout),
    text(child.stderr),
    once(child, "exit") as Promise<[number]>,
  ]);
  return { code, stdout, stderr };
}

function configWith(path: string): string {
  return JSON.stringify({ name: "a", nested: { socket: "/x" }, plugins: ["socket"], socket: path });
}

function run(command: string, stdin = configWith(socketPath)): Promise<Ended> {
  return call({ ...ENV, CNI_COMMAND: command }, stdin);
}

/** Responds to each request with that text; returns the requests as they arrive. */
async function answerWith(answer: string): Promise<readonly string[]> {
  const requests: string[] = [];
  server = createServer((socket: Socket) => {
    let request = "";
    socket.on("error", () => undefined); // it may read no more
    socket.on("data", (data) => {
      request += String(data);
      const [head = "", body = ""] = request.split("\r\n\r\n");
      const length = Number(/content-length: (\d+)/i.exec(head)?.[1]);
      if (body.length < length) return;
      requests.push(request);
      socket.end(answer);
    });
  });
  await once(server.listen(socketPath), "listening");
  return requests;
}

function http(status: string, body: string): string {
  return `HTTP/1.1 ${status}\r\nContent-Length: ${String(body.length)}\r\n\r\n${body}`;
}

test("sends environment and configuration and prints the reply", async () => {
  const requests = await answerWith(http("200 OK", '{"cniVersion":"1.0.0"}'));
  expect(await run("ADD")).toEqual({ code: 0, stdout: '{"cniVersion":"1.0.0"}', stderr: "" });
  const [head = "", body = ""] = (requests[0] ?? "").split("\r\n\r\n");
  expect(head).toMatch(/^POST \/cni\?answer=plugin HTTP\/1\.0\r\n/);
  const { env, config } = JSON.parse(body) as { env: object; config: string };
  expect(env).toEqual({ ...ENV, CNI_COMMAND: "ADD" });
  expect(Buffer.from(config, "base64").toString()).toBe(configWith(socketPath));
});

test.each(["", "a", "ab", "abc", "x".repeat(100_000)])(
  "sends a configuration of any length in full (%#)",
  async (more) => {
    const requests = await answerWith(http("200 OK", ""));
    const config = JSON.stringify({ socket: socketPath, more });
    expect(await run("DEL", config)).toEqual({ code: 0, stdout: "", stderr: "" });
    const { config: sent } = JSON.parse((requests[0] ?? "").split("\r\n\r\n")[1] ?? "") as {
      config: string;
    };
    expect(Buffer.from(sent, "base64").toString()).toBe(config);
  },
);

test("prints an error with its exit code", async () => {
  await answerWith(http("400 Bad Request", '{"code":7,"msg":"no"}'));
  expect(await run("ADD")).toMatchObject({ code: 1, stdout: '{"code":7,"msg":"no"}' });
});

test.each([
  { name: "closes the connection before its reply", answer: "", code: 11 },
  {
    name: "truncates its reply",
    answer: "HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\n{}",
    code: 11,
  },
  { name: "omits the length of its reply", answer: "HTTP/1.1 200 OK\r\n\r\n{}", code: 11 },
  { name: "is another server", answer: http("404 Not Found", "<html>"), code: 999 },
  { name: "does not speak HTTP", answer: "hello\r\nContent-Length: 2\r\n\r\n{}", code: 999 },
  {
    name: "sends too much",
    answer: http("200 OK", "x".repeat(5 * 1024 * 1024)),
    code: 11,
  },
])("fails when the server $name", async ({ answer, code }) => {
  await answerWith(answer);
  const { code: exit, stdout } = await run("DEL");
  expect(exit).toBe(1);
  expect(JSON.parse(stdout)).toMatchObject({ code });
});

test("supports all versions without the agent", async () => {
  const { code, stdout } = await call({ CNI_COMMAND: "VERSION" }, "");
  expect(code).toBe(0);
  const supportedVersions = ["0.1.0", "0.2.0", "0.3.0", "0.3.1", "0.4.0", "1.0.0", "1.1.0"];
  expect(JSON.parse(stdout)).toEqual({ cniVersion: "1.1.0", supportedVersions });
});

/** A socket file whose server died so many seconds ago. */
async function leaveSocket(agoS: number): Promise<void> {
  const dead = spawn(process.execPath, [
    "-e",
    `require("net").createServer().listen(${JSON.stringify(socketPath)}, () => process.kill(process.pid, "SIGKILL"))`,
  ]);
  await once(dead, "exit");
  const at = Date.now() / 1000 - agoS;
  utimesSync(socketPath, at, at);
}

test.each([
  { command: "ADD", agoS: 0, want: 11 },
  { command: "ADD", agoS: 700, want: 11 },
  { command: "CHECK", agoS: 0, want: 11 },
  { command: "GC", agoS: 700, want: 11 },
  { command: "STATUS", agoS: 0, want: 50 },
  { command: "DEL", agoS: 0, want: 11 },
  { command: "DEL", agoS: 590, want: 11 },
])("answers $command with $want $agoS s after the agent died", async ({ command, agoS, want }) => {
  await leaveSocket(agoS);
  const { code, stdout } = await run(command);
  expect(code).toBe(1);
  expect(JSON.parse(stdout)).toMatchObject({
    code: want,
    msg: expect.stringContaining("see the pod of net-agent") as string,
  });
});

test("a pod can be deleted although the agent is down for long or never ran", async () => {
  expect(await run("DEL")).toMatchObject({ code: 0, stdout: "" });
  await leaveSocket(700);
  const { code, stdout, stderr } = await run("DEL");
  expect({ code, stdout }).toEqual({ code: 0, stdout: "" });
  expect(stderr).toMatch(/when it starts it releases what the pod had/);
});

test("does not trust another user's socket", async () => {
  // Any process may listen there.
  chmodSync(directory, 0o777);
  const other = spawn(
    process.execPath,
    [
      "-e",
      `require("net").createServer(() => {}).listen(${JSON.stringify(socketPath)}, () => console.log(1))`,
    ],
    { uid: 65534, stdio: ["ignore", "pipe", "inherit"], cwd: "/" },
  );
  await once(other.stdout, "data");
  const { stdout } = await run("ADD");
  other.kill("SIGKILL");
  expect(JSON.parse(stdout)).toMatchObject({ code: 7 });
});

test.each([
  { name: "no command", env: {}, stdin: "{}", code: 4 },
  { name: "an unknown command", env: { CNI_COMMAND: "ADDD" }, stdin: "{}", code: 4 },
  {
    name: "too long a variable",
    env: { CNI_COMMAND: "ADD", CNI_ARGS: "x".repeat(70_000) },
    stdin: "{}",
    code: 4,
  },
  {
    name: "too long a configuration",
    env: { CNI_COMMAND: "ADD" },
    stdin: "x".repeat(2 ** 21),
    code: 5,
  },
  { name: "a relative socket", env: { CNI_COMMAND: "ADD" }, stdin: '{"socket":"a"}', code: 7 },
  {
    name: "a socket with escapes",
    env: { CNI_COMMAND: "ADD" },
    stdin: '{"socket":"/a\\u0041"}',
    code: 7,
  },
  {
    name: "a path that is not a socket",
    env: { CNI_COMMAND: "ADD" },
    stdin: '{"socket":{}}',
    code: 7,
  },
  {
    name: "too long a path",
    env: { CNI_COMMAND: "ADD" },
    stdin: `{"socket":"/${"a".repeat(120)}"}`,
    code: 7,
  },
])("rejects $name with $code", async ({ env, stdin, code }) => {
  const { stdout } = await call(env, stdin);
  expect(JSON.parse(stdout)).toMatchObject({ code });
});

test.each([
  '{"socket',
  '{"a":"\\',
  "}}}",
  '"',
  "{",
  '[["socket":"/x"]]',
  '{"a":[{"socket":"/x"}]}',
])("leaves invalid configurations to the agent (%s)", async (stdin) => {
  const { stdout } = await call({ CNI_COMMAND: "ADD" }, stdin);
  expect(JSON.parse(stdout)).toMatchObject({
    code: 11,
    msg: expect.stringContaining("/run/net-agent/cni.sock") as string,
  });
});

test("treats a file in place of the socket as a missing agent", async () => {
  writeFileSync(socketPath, "");
  expect(JSON.parse((await run("ADD")).stdout)).toMatchObject({ code: 11 });
});
