// SPDX-License-Identifier: Apache-2.0
// Socket directories on this machine, with what a dataplane can put in their place.
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

/** The node path, as seen from here. */
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

test("is owned by root, readable by launchers, and repaired after changes", async () => {
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

test("an unprivileged dataplane's group can create files, which belong to that group", async () => {
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
    name: "a symbolic link that leaves the directory",
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
])("removes $name in its place and nothing behind it", async ({ put }) => {
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

test("removes a link within it and nothing behind it", async () => {
  mkdirSync(here("/outside/deep"), { recursive: true });
  await directories().make("a");
  symlinkSync(here("/outside"), here(`${DIRECTORY}/a/deep`));
  await directories().remove("a");
  expect(existsSync(here("/outside/deep"))).toBe(true);
});

test("does not list other entries", async () => {
  await directories().make("a");
  writeFileSync(here(`${DIRECTORY}/.hidden`), "");
  expect(await directories().list()).toEqual(["a"]);
});

test("creates none where SELinux has no container types, and names the package to install", async () => {
  mkdirSync(here("/selinux"));
  writeFileSync(here("/selinux/enforce"), "1");
  // Like a kernel whose policy lacks the type. Source: Linux, security/selinux/hooks.c, selinux_inode_setxattr
  const refuse = vi.spyOn(osNative(), "setAttribute").mockImplementation(() => {
    throw Object.assign(new Error("EINVAL"), { code: "EINVAL" });
  });
  try {
    await expect(directories().makeParents()).rejects.toThrow("install container-selinux");
  } finally {
    refuse.mockRestore();
  }
});

test("has the SELinux label of container files", async () => {
  mkdirSync(here("/selinux"));
  writeFileSync(here("/selinux/enforce"), "1");
  await directories().make("a");
  const paths = [`${DIRECTORY}/a`, `${SHOWN}/a`, DIRECTORY].map(here);
  const output = execFileSync("stat", ["-c", "%C", ...paths], { encoding: "utf8" });
  expect(new Set(output.trim().split("\n"))).toEqual(
    new Set(["system_u:object_r:container_file_t:s0"]),
  );
});

test("reports a parent that cannot be created", async () => {
  mkdirSync(dirname(here("/run")), { recursive: true });
  writeFileSync(here("/run"), "");
  await expect(directories().make("a")).rejects.toMatchObject({ code: "OS_FILE_FAILED" });
});
