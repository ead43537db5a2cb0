// SPDX-License-Identifier: Apache-2.0
// Real ports and servers, and a runtime in memory.
import { once } from "node:events";
import { createServer as createHttp } from "node:http";
import { createServer, type Server } from "node:net";
import { AppError } from "@patchbay/core";
import { afterEach, describe, expect, test } from "vitest";
import { askContainer } from "./ask.ts";

const ASKING = { containerId: "c", timeoutSeconds: 1 };
const SAYS_NOTHING = { execSync: () => Promise.reject(new Error("not asked")) };

let server: Server | undefined;
const stop = { now: (): void => undefined };

afterEach(() => {
  stop.now();
  server?.close();
});

async function portOf(given: Server): Promise<number> {
  server = given;
  given.listen(0, "127.0.0.1");
  await once(given, "listening");
  const address = given.address();
  return typeof address === "object" ? (address?.port ?? 0) : 0;
}

describe("a program", () => {
  const exec = { kind: "exec", command: ["check"] } as const;
  const ended = (exitCode: number, stderr = "") => ({
    execSync: () => Promise.resolve({ exitCode, stdout: "", stderr }),
  });
  const failed = (error: Error) => ({ execSync: () => Promise.reject(error) });

  test.each([
    { name: "ends with 0", runtime: ended(0), want: ["success", ""] },
    { name: "ends with another code", runtime: ended(2, "no\n"), want: ["failure", "no"] },
    { name: "says nothing", runtime: ended(2), want: ["failure", "it ended with 2"] },
    {
      name: "takes too long",
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
      name: "says too much",
      want: ["failure", "it says too much"],
      runtime: failed(
        new AppError("CRI_FAILED", { call: "ExecSync", status: "RESOURCE_EXHAUSTED", reason: "r" }),
      ),
    },
    {
      name: "could not be asked for",
      want: ["unknown", expect.stringContaining("gone")],
      runtime: failed(new AppError("CRI_UNAVAILABLE", { endpoint: "e", reason: "gone" })),
    },
  ])("that $name", async ({ runtime, want }) => {
    const { outcome, message } = await askContainer(runtime, exec, ASKING);
    expect([outcome, message]).toEqual(want);
  });
});

test("a port is open or closed", async () => {
  const port = await portOf(createServer());
  const asked = { kind: "tcp", host: "127.0.0.1", port } as const;
  expect((await askContainer(SAYS_NOTHING, asked, ASKING)).outcome).toBe("success");
  server?.close();
  expect(await askContainer(SAYS_NOTHING, asked, ASKING)).toMatchObject({
    outcome: "failure",
    message: expect.stringContaining("ECONNREFUSED") as string,
  });
});

test("a server says yes, no, or nothing in time", async () => {
  const seen: unknown[] = [];
  const http = createHttp((request, response) => {
    seen.push(request.headers["x-a"]);
    if (request.url !== "/silent") response.writeHead(Number(request.url?.slice(1))).end("text");
  });
  stop.now = () => {
    http.closeAllConnections();
  };
  const port = await portOf(http);
  const ask = (path: string) => {
    const where = { isTls: false, host: "127.0.0.1", port, headers: [["x-a", "b"]] } as const;
    return askContainer(SAYS_NOTHING, { kind: "http", path, ...where }, ASKING);
  };
  expect((await ask("/200")).outcome).toBe("success");
  expect((await ask("/301")).outcome).toBe("success");
  expect(await ask("/503")).toEqual({
    outcome: "failure",
    message: "HTTP probe failed with statuscode: 503",
  });
  expect(await ask("/silent")).toEqual({ outcome: "failure", message: "no answer within 1000 ms" });
  expect(seen).toEqual(["b", "b", "b", "b"]);
});

test("what cannot be asked has failed, with the reason", async () => {
  const none = { kind: "none", reason: "there is no port" } as const;
  expect(await askContainer(SAYS_NOTHING, none, ASKING)).toEqual({
    outcome: "failure",
    message: "there is no port",
  });
});
