// SPDX-License-Identifier: Apache-2.0
import {
  linkSync,
  mkdirSync,
  mkdtempSync,
  readdirSync,
  readlinkSync,
  renameSync,
  rmSync,
  symlinkSync,
  writeFileSync,
} from "node:fs";
import { createServer, type Server } from "node:net";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterEach, beforeEach, describe, expect, test } from "vitest";
import { errnoOf } from "./files/file-errors.ts";
import { connectUnixSocket } from "./unix-sockets.ts";

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

/** What of this directory is open here. */
function openBelow(top: string): readonly string[] {
  return readdirSync("/proc/self/fd").flatMap((fd) => {
    try {
      const target = readlinkSync(`/proc/self/fd/${fd}`);
      return target.startsWith(top) ? [target] : [];
    } catch {
      return [];
    }
  });
}

describe("connecting to a Unix socket", () => {
  test.each([
    { name: "a short path", middle: "a" },
    { name: "a path that is too long for the kernel", middle: "b".repeat(150) },
  ])("works with $name", async ({ middle }) => {
    mkdirSync(join(directory, middle));
    // The server cannot take the long path itself: it listens in the short one, which then is moved.
    const server = await listen(join(directory, "s"));
    renameSync(join(directory, "s"), join(directory, middle, "s"));
    const socket = await connectUnixSocket({ directory, path: `${middle}/s` });
    const text = await socket.setEncoding("utf8").toArray();
    server.close();
    expect(text.join("")).toBe("hello");
  });

  test("returns a socket that is not reading yet, and leaves no other descriptor open", async () => {
    const server = await listen(join(directory, "s"));
    const socket = await connectUnixSocket({ directory, path: "s" });
    expect(socket.isPaused()).toBe(true);
    expect(socket.listenerCount("error")).toBe(0);
    expect(openBelow(directory)).toEqual([]);
    await socket.toArray();
    server.close();
  });

  test("reports the reason when the server has ended", async () => {
    const server = await listen(join(directory, "made"));
    linkSync(join(directory, "made"), join(directory, "s")); // the server removes only the name that it made
    server.close();
    await expect(connectUnixSocket({ directory, path: "s" })).rejects.toMatchObject({
      code: "OS_FILE_FAILED",
      details: { call: "connect", errno: "ECONNREFUSED" },
    });
    expect(openBelow(directory)).toEqual([]);
  });

  test("reports the reason of a failure", async () => {
    await expect(connectUnixSocket({ directory, path: "none" })).rejects.toMatchObject({
      code: "OS_FILE_FAILED",
      details: { call: "connect", errno: "ENOENT" },
    });
  });

  test.each<{
    name: string;
    make: (elsewhere: string) => void;
    reason: string;
    errno?: string;
  }>([
    {
      name: "a symbolic link",
      make: (elsewhere) => {
        symlinkSync(elsewhere, join(directory, "a/s"));
      },
      reason: "not a socket",
    },
    {
      name: "a path with a symbolic link among its directories",
      make: () => {
        rmSync(join(directory, "a"), { recursive: true });
        symlinkSync(directory, join(directory, "a"));
      },
      reason: "openat2: ELOOP",
      errno: "ELOOP",
    },
    {
      name: "a regular file",
      make: () => {
        writeFileSync(join(directory, "a/s"), "");
      },
      reason: "not a socket",
    },
  ])("rejects $name", async ({ make, reason, errno }) => {
    mkdirSync(join(directory, "a"));
    const server = await listen(join(directory, "s"));
    make(join(directory, "s"));
    const refusal = await connectUnixSocket({ directory, path: "a/s" }).catch(
      (error: unknown) => error,
    );
    server.close();
    expect(refusal).toMatchObject({
      code: "OS_PATH_REFUSED",
      details: { path: `${directory}/a/s`, reason },
    });
    expect(errnoOf((refusal as Error).cause)).toBe(errno);
    expect(openBelow(directory)).toEqual([]);
  });
});
