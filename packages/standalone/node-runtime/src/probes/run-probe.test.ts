// SPDX-License-Identifier: Apache-2.0
import type { Probe } from "@patchbay/api/kubernetes";
import { expect, test, afterEach, describe } from "vitest";
import { toProbeRequest, runProbe } from "./run-probe.ts";
import { once } from "node:events";
import { createServer as createHttp } from "node:http";
import { createServer, type Server } from "node:net";
import { AppError } from "@patchbay/base";

const CONTAINER = { name: "c", image: "i", ports: [{ name: "web", containerPort: 8080 }] };
const POD = { ips: ["10.0.0.2"], isOnNode: false };
const NODE = { ips: ["192.0.2.1"], isOnNode: true };

test.each<{ name: string; probe: Probe; addresses?: typeof POD; want: object }>([
  {
    name: "exec runs a command",
    probe: { exec: { command: ["true"] } },
    want: { kind: "exec", command: ["true"] },
  },
  { name: "exec without a command is rejected", probe: { exec: {} }, want: { kind: "none" } },
  {
    name: "tcpSocket accepts a port number",
    probe: { tcpSocket: { port: 80 } },
    want: { kind: "tcp", host: "10.0.0.2", port: 80 },
  },
  {
    name: "tcpSocket accepts a port name",
    probe: { tcpSocket: { port: "web" } },
    want: { port: 8080 },
  },
  {
    name: "an unknown port name is rejected",
    probe: { tcpSocket: { port: "x" } },
    want: { kind: "none" },
  },
  { name: "the last port", probe: { tcpSocket: { port: 65_535 } }, want: { port: 65_535 } },
  { name: "the first port", probe: { tcpSocket: { port: 1 } }, want: { port: 1 } },
  { name: "port 0 is rejected", probe: { tcpSocket: { port: 0 } }, want: { kind: "none" } },
  {
    name: "an empty address",
    probe: { tcpSocket: { port: 1, host: "" } },
    want: { kind: "tcp", host: "10.0.0.2", port: 1 },
  },
  {
    name: "httpGet uses the root path by default",
    probe: { httpGet: { port: 1 } },
    want: { kind: "http", isTls: false, host: "10.0.0.2", port: 1, path: "/", headers: [] },
  },
  {
    name: "httpGet retains a trailing slash in the path",
    probe: { httpGet: { port: 1, path: "a/" } },
    want: { path: "/a/" },
  },
  {
    name: "a port above 65535 is rejected",
    probe: { tcpSocket: { port: 65_536 } },
    want: { kind: "none" },
  },
  {
    name: "the pod's own address",
    probe: { tcpSocket: { port: 1, host: "10.0.0.2" } },
    want: { kind: "tcp", host: "10.0.0.2" },
  },
  {
    name: "no address but the pod's",
    probe: { tcpSocket: { port: 1, host: "127.0.0.1" } },
    want: {
      kind: "none",
      reason: "127.0.0.1 is not an address of the pod; probes contact only the pod",
    },
  },
  {
    name: "the node for a pod in its network",
    probe: { tcpSocket: { port: 1, host: "127.0.0.1" } },
    addresses: NODE,
    want: { kind: "tcp", host: "127.0.0.1" },
  },
  {
    name: "a pod without an address is not probed",
    probe: { tcpSocket: { port: 1 } },
    addresses: { ips: [], isOnNode: false },
    want: { reason: "the pod has no address yet" },
  },
  {
    name: "httpGet accepts scheme, path and headers",
    probe: {
      httpGet: {
        port: "web",
        path: "healthz?a=b",
        scheme: "HTTPS",
        httpHeaders: [{ name: "x-a", value: "b" }],
      },
    },
    want: {
      kind: "http",
      isTls: true,
      host: "10.0.0.2",
      port: 8080,
      path: "/healthz?a=b",
      headers: [["x-a", "b"]],
    },
  },
  {
    name: "httpGet rejects another host",
    probe: { httpGet: { port: 1, host: "169.254.169.254" } },
    want: { kind: "none" },
  },
  {
    name: "httpGet rejects line breaks in a header",
    probe: { httpGet: { port: 1, httpHeaders: [{ name: "a", value: "b\r\nGET /" }] } },
    want: { kind: "none", reason: '"a" cannot be a header' },
  },
  {
    name: "httpGet rejects line breaks in the path",
    probe: { httpGet: { port: 1, path: "/ HTTP/1.1\r\n" } },
    want: { kind: "none" },
  },
  {
    name: "gRPC",
    probe: { grpc: { port: 1 } },
    want: { reason: "gRPC probes are not supported" },
  },
])("$name", ({ probe, addresses = POD, want }) => {
  expect(toProbeRequest(probe, CONTAINER, addresses)).toMatchObject(want);
});

test("rejects an unknown port name", () => {
  const container = { name: "c", image: "i" };
  const probe = { tcpSocket: { port: "web" } };
  expect(toProbeRequest(probe, container, POD)).toMatchObject({ kind: "none" });
});

const ASKING = { containerId: "c", timeoutSeconds: 1 };
const SAYS_NOTHING = { execSync: () => Promise.reject(new Error("not asked")) };

let server: Server | undefined;
const stop = { now: (): void => undefined };

afterEach(() => {
  stop.now();
  server?.close();
});

async function resolvePort(given: Server): Promise<number> {
  server = given;
  given.listen(0, "127.0.0.1");
  await once(given, "listening");
  const address = given.address();
  return typeof address === "object" ? (address?.port ?? 0) : 0;
}

describe("an exec probe", () => {
  const exec = { kind: "exec", command: ["check"] } as const;
  const ended = (exitCode: number, stderr = "") => ({
    execSync: () => Promise.resolve({ exitCode, stdout: "", stderr }),
  });
  const failed = (error: Error) => ({ execSync: () => Promise.reject(error) });

  test.each([
    { name: "ends with 0", runtime: ended(0), want: ["success", ""] },
    { name: "ends with another code", runtime: ended(2, "no\n"), want: ["failure", "no"] },
    { name: "fails without output", runtime: ended(2), want: ["failure", "it ended with 2"] },
    {
      name: "exceeds its timeout",
      want: ["failure", "it did not finish within 1 s"],
      runtime: failed(new AppError("CRI_TIMED_OUT", { call: "ExecSync", timeoutMs: 1000 })),
    },
    {
      name: "cannot be started",
      want: ["failure", expect.stringContaining("no such file")],
      runtime: failed(
        new AppError("CRI_FAILED", { call: "ExecSync", status: "UNKNOWN", reason: "no such file" }),
      ),
    },
    {
      name: "exceeds the output limit",
      want: ["failure", "its output exceeds the limit"],
      runtime: failed(
        new AppError("CRI_FAILED", { call: "ExecSync", status: "RESOURCE_EXHAUSTED", reason: "r" }),
      ),
    },
    {
      name: "could not reach the runtime",
      want: ["unknown", expect.stringContaining("gone")],
      runtime: failed(new AppError("CRI_UNAVAILABLE", { endpoint: "e", reason: "gone" })),
    },
  ])("that $name", async ({ runtime, want }) => {
    const { outcome, message } = await runProbe(runtime, exec, ASKING);
    expect([outcome, message]).toEqual(want);
  });
});

test("a TCP probe detects open and closed ports", async () => {
  const port = await resolvePort(createServer());
  const action = { kind: "tcp", host: "127.0.0.1", port } as const;
  expect((await runProbe(SAYS_NOTHING, action, ASKING)).outcome).toBe("success");
  server?.close();
  expect(await runProbe(SAYS_NOTHING, action, ASKING)).toMatchObject({
    outcome: "failure",
    message: expect.stringContaining("ECONNREFUSED") as string,
  });
});

test("an HTTP probe succeeds, fails, or times out", async () => {
  const seen: unknown[] = [];
  const http = createHttp((request, response) => {
    seen.push(request.headers["x-a"]);
    if (request.url !== "/silent") response.writeHead(Number(request.url?.slice(1))).end("text");
  });
  stop.now = () => {
    http.closeAllConnections();
  };
  const port = await resolvePort(http);
  const ask = (path: string) => {
    const options = { isTls: false, host: "127.0.0.1", port, headers: [["x-a", "b"]] } as const;
    return runProbe(SAYS_NOTHING, { kind: "http", path, ...options }, ASKING);
  };
  expect((await ask("/200")).outcome).toBe("success");
  expect((await ask("/301")).outcome).toBe("success");
  expect(await ask("/503")).toEqual({
    outcome: "failure",
    message: "HTTP probe failed with statuscode: 503",
  });
  expect(await ask("/silent")).toEqual({
    outcome: "failure",
    message: "no response within 1000 ms",
  });
  expect(seen).toEqual(["b", "b", "b", "b"]);
});

test("fails with the reason if the probe cannot run", async () => {
  const invalid = { kind: "none", reason: "there is no port" } as const;
  expect(await runProbe(SAYS_NOTHING, invalid, ASKING)).toEqual({
    outcome: "failure",
    message: "there is no port",
  });
});
