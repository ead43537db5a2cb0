// SPDX-License-Identifier: Apache-2.0
// What a hostile volume may hold in place of the one socket that is looked for in it.
import { once } from "node:events";
import {
  fstatSync,
  mkdirSync,
  mkdtempSync,
  readdirSync,
  renameSync,
  rmSync,
  symlinkSync,
  writeFileSync,
} from "node:fs";
import { createServer } from "node:net";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterEach, beforeEach, describe, expect, onTestFinished, test } from "vitest";
import { errnoOf } from "./files/file-errors.ts";
import { openVolumeSocket } from "./unix-sockets.ts";

let directory = "";
beforeEach(() => {
  directory = mkdtempSync(join(tmpdir(), "volume-socket-"));
  mkdirSync(join(directory, "volume"));
});
afterEach(() => {
  rmSync(directory, { recursive: true, force: true });
});

const inVolume = (name: string): string => join(directory, "volume", name);

async function listenAt(path: string): Promise<void> {
  const server = createServer();
  await once(server.listen(path), "listening");
  onTestFinished(() => {
    server.close();
  });
}

function catchError(action: () => unknown): Error {
  try {
    action();
  } catch (error) {
    if (error instanceof Error) return error;
  }
  throw new Error("nothing was thrown");
}

describe("the socket of a volume", () => {
  test("is found under any name, beside files and directories", async () => {
    await listenAt(inVolume("shim-x1y2.sock"));
    writeFileSync(inVolume("a.lock"), "");
    mkdirSync(inVolume("cache"));
    const socket = openVolumeSocket({ directory, path: "volume" });
    expect(fstatSync(socket.fd).isSocket()).toBe(true);
    socket.close();
    expect(() => fstatSync(socket.fd)).toThrow("EBADF");
  });

  test("is reported as missing in a volume without one and in a missing volume", () => {
    const before = readdirSync("/proc/self/fd");
    for (const path of ["volume", "none"]) {
      expect(() => openVolumeSocket({ directory, path })).toThrow(
        expect.objectContaining({
          code: "OS_FILE_FAILED",
          details: expect.objectContaining({ call: "open", errno: "ENOENT" }) as object,
        }) as Error,
      );
    }
    expect(readdirSync("/proc/self/fd")).toEqual(before);
  });

  test("is found beside 63 other files, and leaves only its descriptor open", async () => {
    await listenAt(inVolume("hook.sock"));
    for (let index = 0; index < 63; index += 1) writeFileSync(inVolume(String(index)), "");
    const before = readdirSync("/proc/self/fd");
    openVolumeSocket({ directory, path: "volume" }).close();
    expect(readdirSync("/proc/self/fd")).toEqual(before);
  });

  test.each<{ name: string; make: () => Promise<void> | void; reason: string; errno?: string }>([
    {
      name: "a symbolic link to a socket",
      make: async () => {
        await listenAt(join(directory, "elsewhere"));
        symlinkSync(join(directory, "elsewhere"), inVolume("hook.sock"));
      },
      reason: "a link in it",
    },
    {
      name: "a volume that is a symbolic link",
      make: async () => {
        await listenAt(inVolume("hook.sock"));
        renameSync(join(directory, "volume"), join(directory, "moved"));
        symlinkSync(join(directory, "moved"), join(directory, "volume"));
      },
      reason: "a link or no directory",
      errno: "ENOTDIR",
    },
    {
      name: "two sockets",
      make: async () => {
        await listenAt(inVolume("one.sock"));
        await listenAt(inVolume("two.sock"));
      },
      reason: "more than one socket in it",
    },
    {
      name: "too many files",
      make: () => {
        for (let index = 0; index < 100; index += 1) writeFileSync(inVolume(String(index)), "");
      },
      reason: "more than 64 files",
    },
  ])("is rejected: $name", async ({ make, reason, errno }) => {
    await make();
    const before = readdirSync("/proc/self/fd");
    const refusal = catchError(() => openVolumeSocket({ directory, path: "volume" }));
    expect(refusal).toMatchObject({
      code: "OS_PATH_REFUSED",
      details: { path: `${directory}/volume`, reason },
    });
    expect(errnoOf(refusal.cause)).toBe(errno);
    expect(readdirSync("/proc/self/fd")).toEqual(before);
  });
});
