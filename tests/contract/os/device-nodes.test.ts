// SPDX-License-Identifier: Apache-2.0
// Device nodes that root creates with mknod.
import { execFileSync } from "node:child_process";
import {
  chmodSync,
  chownSync,
  lstatSync,
  mkdtempSync,
  readdirSync,
  rmSync,
  writeFileSync,
} from "node:fs";
import { tmpdir } from "node:os";
import { dirname, join } from "node:path";
import { createDeviceNodes, createProcessRunner } from "@patchbay/os";
import { describeDeviceNodesContract } from "@patchbay/os/testing";
import { afterEach, beforeEach, expect, test } from "vitest";

const OURS = { uid: 107, gid: 107, mode: 0o600 };
const nodes = createDeviceNodes({ runner: createProcessRunner() });
let directory = "";

beforeEach(() => {
  directory = mkdtempSync(join(tmpdir(), "patchbay-devices-"));
});
function clean(): Promise<void> {
  rmSync(directory, { recursive: true, force: true });
  return Promise.resolve();
}
afterEach(clean);

/** In the format of the kernel's `ls`: `c 1 3 107 107 600`. */
function say(path: string): readonly string[] {
  const line = execFileSync("stat", ["-c", "%F %Hr %Lr %u %g %a", path], { encoding: "utf8" });
  return line.trim().replace("character special file", "c").split(" ");
}

describeDeviceNodesContract("a machine", () =>
  Promise.resolve({
    nodes,
    directory,
    put: (path, { major, minor, uid, gid, mode }) => {
      rmSync(path, { force: true });
      execFileSync("mknod", [path, "c", String(major), String(minor)]);
      chownSync(path, uid, gid);
      chmodSync(path, mode);
    },
    take: (path) => {
      rmSync(path);
    },
    find: (path) => {
      if (lstatSync(path, { throwIfNoEntry: false }) === undefined) return undefined;
      const [major = 0, minor = 0, uid = 0, gid = 0] = say(path).slice(1, -1).map(Number);
      return { major, minor, uid, gid, mode: lstatSync(path).mode & 0o7777 };
    },
    close: clean,
  }),
);

/** A separate process, because the umask is per process. */
function keepCopyUnderStrictMask(path: string): string {
  const code = `
    import { createDeviceNodes, createProcessRunner } from ${JSON.stringify(import.meta.resolve("@patchbay/os"))};
    process.umask(0o077);
    const wanted = ${JSON.stringify({ source: "/dev/null", path, ...OURS })};
    console.log(await createDeviceNodes({ runner: createProcessRunner() }).ensureCopy(wanted));`;
  const argv = ["--conditions=@patchbay/source", "--input-type=module", "-e", code];
  return execFileSync(process.execPath, argv, { encoding: "utf8" }).trim();
}

test("a copy of /dev/null works in a root directory that all users may read", async () => {
  const path = join(directory, "run/devices/null");
  expect(keepCopyUnderStrictMask(path)).toBe("made");
  expect(say(path)).toEqual(["c", "1", "3", "107", "107", "600"]);
  const { uid, mode } = lstatSync(dirname(path));
  expect([uid, mode & 0o777]).toEqual([0, 0o755]);
  const { ino } = lstatSync(path);
  expect(await nodes.ensureCopy({ source: "/dev/null", path, ...OURS })).toBe("unchanged");
  expect(lstatSync(path).ino).toBe(ino);
  expect(readdirSync(dirname(path))).toEqual(["null"]);
});

test("the remains of a killed process do not interfere", async () => {
  const path = join(directory, "null");
  writeFileSync(`${path}.new`, "");
  writeFileSync(path, "");
  expect(await nodes.ensureCopy({ source: "/dev/null", path, ...OURS })).toBe("made");
  expect(readdirSync(directory)).toEqual(["null"]);
});
