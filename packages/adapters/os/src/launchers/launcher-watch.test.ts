// SPDX-License-Identifier: Apache-2.0
import { mkdirSync, mkdtempSync, renameSync, rmSync, symlinkSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { dirname, join } from "node:path";
import { afterEach, beforeEach, describe, expect, test } from "vitest";
import { watchLauncherPath } from "./launcher-watch.ts";

const names = ["uid-1", "launcher", "libvirt", "libvirt-sock"];
let podsDir = "";
let controller = new AbortController();
let wakes = 0;
let onWake: () => void = () => undefined;

beforeEach(() => {
  podsDir = mkdtempSync(join(tmpdir(), "launcher-watch-"));
  controller = new AbortController();
  wakes = 0;
});

afterEach(() => {
  controller.abort();
  rmSync(podsDir, { recursive: true });
});

function watchIt(): void {
  watchLauncherPath(
    { podsDir, names },
    () => {
      wakes += 1;
      onWake();
    },
    controller.signal,
  );
}

/** Does `change` and waits for the wake that it causes. */
async function expectWake(change: () => void): Promise<void> {
  const { promise, resolve } = Promise.withResolvers<undefined>();
  const before = wakes;
  onWake = () => {
    resolve(undefined);
  };
  change();
  await promise;
  expect(wakes).toBeGreaterThan(before);
}

describe("a watch of a launcher's path", () => {
  test("reports each part that is created, up to the socket, and the socket's deletion", async () => {
    watchIt();
    for (const depth of [1, 2, 3]) {
      await expectWake(() => {
        mkdirSync(join(podsDir, ...names.slice(0, depth)));
      });
    }
    const socket = join(podsDir, ...names);
    await expectWake(() => {
      writeFileSync(socket, "");
    });
    await expectWake(() => {
      rmSync(socket);
    });
  });

  test("reports a new socket a second time, because the launcher listens a moment later", async () => {
    mkdirSync(dirname(join(podsDir, ...names)), { recursive: true });
    watchIt();
    await expectWake(() => {
      writeFileSync(join(podsDir, ...names), "");
    });
    await expectWake(() => undefined);
  });

  test("watches a recreated directory again", async () => {
    const directory = dirname(join(podsDir, ...names));
    mkdirSync(directory, { recursive: true });
    watchIt();
    for (let round = 0; round < 5; round += 1) {
      await expectWake(() => {
        rmSync(directory, { recursive: true });
      });
      mkdirSync(directory);
      await expectWake(() => {
        writeFileSync(join(podsDir, ...names), "");
      });
    }
  });

  test("reports a directory that is renamed", async () => {
    const directory = dirname(join(podsDir, ...names));
    mkdirSync(directory, { recursive: true });
    watchIt();
    await expectWake(() => {
      renameSync(directory, `${directory}.old`);
    });
  });

  test("does not follow a symbolic link in the path", async () => {
    const elsewhere = mkdtempSync(join(tmpdir(), "elsewhere-"));
    mkdirSync(join(podsDir, "uid-1", "launcher"), { recursive: true });
    symlinkSync(elsewhere, join(podsDir, "uid-1", "launcher", "libvirt"));
    watchIt();
    writeFileSync(join(elsewhere, "libvirt-sock"), "");
    await expectWake(() => {
      rmSync(join(podsDir, "uid-1", "launcher", "libvirt"));
    });
    expect(wakes).toBe(1);
    rmSync(elsewhere, { recursive: true });
  });

  test("reports many changes of other names once", async () => {
    mkdirSync(join(podsDir, "uid-1"));
    watchIt();
    await expectWake(() => {
      for (let name = 0; name < 60; name += 1) {
        writeFileSync(join(podsDir, "uid-1", `other-${String(name)}`), "");
      }
    });
    expect(wakes).toBe(1);
  });

  test("fails without the directory of pods", () => {
    rmSync(podsDir, { recursive: true });
    expect(watchIt).toThrow(
      expect.objectContaining({
        code: "OS_FILE_FAILED",
        details: expect.objectContaining({
          call: "watch",
          path: join(podsDir, ...names),
          errno: "ENOENT",
        }) as object,
      }) as Error,
    );
    mkdirSync(podsDir);
  });

  test("reports nothing after an abort", () => {
    controller.abort();
    watchIt();
    mkdirSync(join(podsDir, "uid-1"));
    expect(wakes).toBe(0);
  });
});
