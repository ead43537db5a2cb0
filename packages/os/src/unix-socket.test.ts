// SPDX-License-Identifier: Apache-2.0
import { mkdirSync, mkdtempSync, renameSync, rmSync } from "node:fs";
import { createServer, type Server } from "node:net";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterEach, beforeEach, describe, expect, test } from "vitest";
import { connectUnixSocket } from "./unix-socket.ts";

let directory = "";
beforeEach(() => {
  directory = mkdtempSync(join(tmpdir(), "patchbay-socket-"));
});
afterEach(() => {
  rmSync(directory, { recursive: true, force: true });
});

async function listen(path: string): Promise<Server> {
  const server = createServer((socket) => socket.end("hello"));
  await new Promise<void>((resolve) => server.listen(path, resolve));
  return server;
}

describe("connecting to a unix socket", () => {
  test.each([
    { name: "a short path", middle: "a" },
    { name: "a path that is too long for the kernel", middle: "b".repeat(150) },
  ])("works with $name", async ({ middle }) => {
    mkdirSync(join(directory, middle));
    // The server cannot take the long path itself: it listens in the short one, which then is moved.
    const server = await listen(join(directory, "s"));
    renameSync(join(directory, "s"), join(directory, middle, "s"));
    const socket = await connectUnixSocket(join(directory, middle, "s"));
    const text = await socket.setEncoding("utf8").toArray();
    server.close();
    expect(text.join("")).toBe("hello");
  });

  test("says why it cannot", async () => {
    const path = join(directory, "none");
    await expect(connectUnixSocket(path)).rejects.toMatchObject({
      code: "OS_FILE_FAILED",
      details: { call: "connect", path, errno: "ENOENT" },
    });
  });
});
