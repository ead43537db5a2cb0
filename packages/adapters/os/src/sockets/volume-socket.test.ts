// SPDX-License-Identifier: Apache-2.0
// What a hostile volume may hold in place of the one socket that is looked for in it.
import { once } from "node:events";
import {
  fstatSync,
  mkdirSync,
  mkdtempSync,
  renameSync,
  rmSync,
  symlinkSync,
  writeFileSync,
} from "node:fs";
import { createServer } from "node:net";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterEach, beforeEach, describe, expect, onTestFinished, test } from "vitest";
import { openVolumeSocket } from "./volume-socket.ts";

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

describe("the socket of a volume", () => {
  test("is found by whatever name, beside files and directories", async () => {
    await listenAt(inVolume("shim-x1y2.sock"));
    writeFileSync(inVolume("a.lock"), "");
    mkdirSync(inVolume("cache"));
    const socket = openVolumeSocket({ directory, path: "volume" });
    expect(fstatSync(socket.fd).isSocket()).toBe(true);
    socket.close();
    expect(() => fstatSync(socket.fd)).toThrow("EBADF");
  });

  test("is missed where there is none, or no volume", () => {
    for (const path of ["volume", "none"]) {
      expect(() => openVolumeSocket({ directory, path })).toThrow(
        expect.objectContaining({ code: "OS_FILE_FAILED" }),
      );
    }
  });

  test.each<{ name: string; make: () => Promise<void> | void }>([
    {
      name: "a link to a socket",
      make: async () => {
        await listenAt(join(directory, "elsewhere"));
        symlinkSync(join(directory, "elsewhere"), inVolume("hook.sock"));
      },
    },
    {
      name: "a volume that is a link",
      make: async () => {
        await listenAt(inVolume("hook.sock"));
        renameSync(join(directory, "volume"), join(directory, "moved"));
        symlinkSync(join(directory, "moved"), join(directory, "volume"));
      },
    },
    {
      name: "two sockets",
      make: async () => {
        await listenAt(inVolume("one.sock"));
        await listenAt(inVolume("two.sock"));
      },
    },
    {
      name: "very many files",
      make: () => {
        for (let index = 0; index < 100; index += 1) writeFileSync(inVolume(String(index)), "");
      },
    },
  ])("is refused: $name", async ({ make }) => {
    await make();
    expect(() => openVolumeSocket({ directory, path: "volume" })).toThrow(
      expect.objectContaining({ code: "OS_PATH_REFUSED" }),
    );
  });
});
