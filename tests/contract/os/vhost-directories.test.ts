// SPDX-License-Identifier: Apache-2.0
// Directories of sockets on this machine, with what a dataplane can put in their places.
import { execFileSync } from "node:child_process";
import {
  chmodSync,
  existsSync,
  mkdirSync,
  mkdtempSync,
  readdirSync,
  rmSync,
  statSync,
  symlinkSync,
  writeFileSync,
} from "node:fs";
import { tmpdir } from "node:os";
import { dirname, join } from "node:path";
import { createVhostDirectories } from "@patchbay/os";
import { describeVhostDirectoriesContract } from "@patchbay/os/testing";
import { afterEach, beforeEach, expect, test, vi } from "vitest";
import { osNative } from "../../../packages/adapters/os/src/native.ts";

const DIRECTORY = "/run/patchbay/vhost-user";
const SHOWN = "/run/patchbay/vhost-user-shown";
let directory = "";

/** The node's path, as it is from here. */
const here = (path: string): string => join(directory, path);
const directories = () =>
  createVhostDirectories({ runDir: here("/run"), selinuxDir: here("/selinux"), uid: 107 });

beforeEach(() => {
  directory = mkdtempSync(join(tmpdir(), "patchbay-vhost-"));
});
afterEach(() => {
  rmSync(directory, { recursive: true, force: true });
});

describeVhostDirectoriesContract("a machine", () => ({
  directories: directories(),
  put: (id, name) => {
    writeFileSync(here(`${DIRECTORY}/${id}/${name}`), "");
  },
  listFiles: (id) => {
    const path = here(`${DIRECTORY}/${id}`);
    return existsSync(path) ? readdirSync(path) : undefined;
  },
  close: () => undefined,
}));

function accessOf(path: string) {
  const { uid, gid, mode } = statSync(here(path));
  return `${String(uid)}:${String(gid)} ${(mode & 0o7777).toString(8)}`;
}

test("one is root's, what is shown of it the launchers' to look into, and again after somebody changed that", async () => {
  for (let turn = 0; turn < 2; turn += 1) {
    await directories().make("a");
    expect(accessOf(DIRECTORY)).toBe("0:0 755");
    expect(accessOf(`${DIRECTORY}/a`)).toBe("0:0 750");
    expect(accessOf(`${SHOWN}/a`)).toBe("0:107 750");
    for (const path of [DIRECTORY, `${DIRECTORY}/a`]) {
      execFileSync("chmod", ["0777", here(path)]);
    }
  }
});

test("where the dataplane is not root its group makes too, and what it makes is of that group", async () => {
  const shared = createVhostDirectories({
    runDir: here("/run"),
    selinuxDir: here("/selinux"),
    uid: 107,
    dataplaneGroup: 900,
  });
  await directories().make("a");
  for (let turn = 0; turn < 2; turn += 1) {
    await shared.make("a");
    expect(accessOf(DIRECTORY)).toBe("0:0 755");
    expect(accessOf(`${DIRECTORY}/a`)).toBe("0:900 2770");
    expect(accessOf(`${SHOWN}/a`)).toBe("0:107 750");
    chmodSync(here(`${DIRECTORY}/a`), 0o777);
  }
  await directories().make("a");
  expect(accessOf(`${DIRECTORY}/a`)).toBe("0:0 750");
});

test.each([
  {
    name: "a link out",
    put: (path: string) => {
      symlinkSync(here("/outside"), path);
    },
  },
  {
    name: "a file",
    put: (path: string) => {
      writeFileSync(path, "");
    },
  },
])("$name in its place goes, and nothing behind it", async ({ put }) => {
  mkdirSync(here("/outside"));
  writeFileSync(here("/outside/file"), "");
  for (const parent of [DIRECTORY, SHOWN]) {
    mkdirSync(here(parent), { recursive: true });
    put(here(`${parent}/a`));
  }
  await directories().make("a");
  expect(accessOf(`${DIRECTORY}/a`)).toBe("0:0 750");
  expect(accessOf(`${SHOWN}/a`)).toBe("0:107 750");
  for (const parent of [DIRECTORY, SHOWN]) {
    rmSync(here(`${parent}/a`), { recursive: true });
    put(here(`${parent}/a`));
  }
  await directories().remove("a");
  expect(await directories().list()).toEqual([]);
  expect(readdirSync(here("/outside"))).toEqual(["file"]);
});

test("a link within it goes, and nothing behind that", async () => {
  mkdirSync(here("/outside/deep"), { recursive: true });
  await directories().make("a");
  symlinkSync(here("/outside"), here(`${DIRECTORY}/a/deep`));
  await directories().remove("a");
  expect(existsSync(here("/outside/deep"))).toBe(true);
});

test("what is none of them is not listed", async () => {
  await directories().make("a");
  writeFileSync(here(`${DIRECTORY}/.hidden`), "");
  expect(await directories().list()).toEqual(["a"]);
});

test("where SELinux knows no containers none is made, and it is said what to install", async () => {
  mkdirSync(here("/selinux"));
  writeFileSync(here("/selinux/enforce"), "1");
  // As a kernel does whose policy lacks the type. Source: Linux, security/selinux/hooks.c, selinux_inode_setxattr
  const refuse = vi.spyOn(osNative(), "setAttribute").mockImplementation(() => {
    throw Object.assign(new Error("EINVAL"), { code: "EINVAL" });
  });
  try {
    await expect(directories().makeParents()).rejects.toThrow("install container-selinux");
  } finally {
    refuse.mockRestore();
  }
});

test("they have the label of containers' files where there is SELinux", async () => {
  mkdirSync(here("/selinux"));
  writeFileSync(here("/selinux/enforce"), "1");
  await directories().make("a");
  const paths = [`${DIRECTORY}/a`, `${SHOWN}/a`, DIRECTORY].map(here);
  const said = execFileSync("stat", ["-c", "%C", ...paths], { encoding: "utf8" });
  expect(new Set(said.trim().split("\n"))).toEqual(
    new Set(["system_u:object_r:container_file_t:s0"]),
  );
});

test("where the parent cannot be made it is told", async () => {
  mkdirSync(dirname(here("/run")), { recursive: true });
  writeFileSync(here("/run"), "");
  await expect(directories().make("a")).rejects.toMatchObject({ code: "OS_FILE_FAILED" });
});
