// SPDX-License-Identifier: Apache-2.0
// Copies of device nodes where mknod is a fake program, so that no test needs root.
import {
  existsSync,
  mkdirSync,
  mkdtempSync,
  readdirSync,
  readFileSync,
  rmSync,
  statSync,
  symlinkSync,
  writeFileSync,
  type Stats,
} from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { createFakeProcessRunner } from "@patchbay/os/testing";
import { afterEach, beforeEach, describe, expect, test } from "vitest";
import { createDeviceNodes, deviceNumbersOf, matchesCopy } from "./device-nodes.ts";

/** The user who runs the tests, to whom a test may give files. */
const OURS = { uid: process.getuid?.() ?? 0, gid: process.getgid?.() ?? 0, mode: 0o640 };
let directory = "";

beforeEach(() => {
  directory = mkdtempSync(join(tmpdir(), "patchbay-devices-"));
});
afterEach(() => {
  rmSync(directory, { recursive: true, force: true });
});

/** A fake mknod that writes an ordinary file. */
function machine(answer: { readonly exitCode?: number; readonly stderr?: string } = {}) {
  const runner = createFakeProcessRunner({
    mknod: ({ argv: [, , mode = "", path = ""] }) => {
      if (answer.exitCode === undefined) {
        writeFileSync(path, "device", { flag: "wx", mode: Number.parseInt(mode, 8) });
      }
      return answer;
    },
  });
  return { runner, nodes: createDeviceNodes({ runner }) };
}

test("a copy has its source's device numbers, and replaces an earlier file at its path", async () => {
  const path = join(directory, "run/null");
  mkdirSync(join(directory, "run"), { mode: 0o700 });
  writeFileSync(path, "before");
  writeFileSync(`${path}.new`, "left by a process that died");
  const { nodes, runner } = machine();
  expect(await nodes.ensureCopy({ source: "/dev/null", path, ...OURS })).toBe("made");
  expect(runner.commands.map(({ argv }) => argv)).toEqual([
    ["mknod", "-m", "640", `${path}.new`, "c", "1", "3"],
  ]);
  expect(readFileSync(path, "utf8")).toBe("device");
  expect(readdirSync(join(directory, "run"))).toEqual(["null"]);
  expect(statSync(join(directory, "run")).mode & 0o777).toBe(0o755);
});

test("creates the directories of a copy's path", async () => {
  const path = join(directory, "deep/run/null");
  expect(await machine().nodes.ensureCopy({ source: "/dev/null", path, ...OURS })).toBe("made");
  expect(existsSync(path)).toBe(true);
});

test.each(["a file", "a link", "a directory", "nothing"])(
  "rejects %s as a device to copy",
  async (kind) => {
    const [source, path] = [join(directory, "source"), join(directory, "copy")];
    if (kind === "a file") writeFileSync(source, "");
    else if (kind === "a link") symlinkSync("/dev/null", source);
    else if (kind === "a directory") mkdirSync(source);
    writeFileSync(path, "an earlier copy");
    const { nodes, runner } = machine();
    expect(await nodes.ensureCopy({ source, path, ...OURS })).toBe("removed");
    expect(existsSync(path)).toBe(false);
    expect(runner.commands).toEqual([]);
  },
);

test("the error contains mknod's output, and the earlier file stays", async () => {
  const path = join(directory, "copy");
  writeFileSync(path, "before");
  const { nodes } = machine({ exitCode: 1, stderr: "Operation not permitted\n" });
  await expect(nodes.ensureCopy({ source: "/dev/null", path, ...OURS })).rejects.toMatchObject({
    code: "OS_PROGRAM_FAILED",
    details: { program: "mknod", exitCode: 1, stderr: "Operation not permitted" },
  });
  expect(readFileSync(path, "utf8")).toBe("before");
});

const LONG = `/${"n".repeat(256)}`;
test.each([
  { name: "of the source device", source: LONG, path: "/none/copy" },
  { name: "of the copy", source: "/dev/null", path: LONG },
])("reports an error on the path $name with its call", async ({ source, path }) => {
  await expect(machine().nodes.ensureCopy({ source, path, ...OURS })).rejects.toMatchObject({
    code: "OS_FILE_FAILED",
    details: { call: "stat", path: LONG, errno: "ENAMETOOLONG" },
  });
});

test.each([
  { major: 1, minor: 3, rdev: 0x103 },
  { major: 10, minor: 200, rdev: 0xac8 },
  { major: 0xfff, minor: 0xfffff, rdev: 0xffffffff },
  { major: 511, minor: 70_000, rdev: 0x1111ff70 },
])("splits device number $rdev into $major:$minor", ({ major, minor, rdev }) => {
  expect(deviceNumbersOf({ rdev } as Stats)).toEqual([major, minor]);
});

describe("an earlier copy", () => {
  const copy = { source: "/dev/null", path: "/copy", uid: 107, gid: 108, mode: 0o600 };
  const device = { rdev: 259, uid: 107, gid: 108, mode: 0o20600, type: "c" };
  const toStats = ({ type, ...stats }: typeof device): Stats =>
    // Only these members are read.
    ({
      ...stats,
      isCharacterDevice: () => type === "c",
      isBlockDevice: () => type === "b",
    }) as Stats;

  test.each([
    { name: "the same device", found: {}, want: true },
    { name: "a block device", found: { type: "b" }, want: false },
    { name: "not a device", found: { type: "-" }, want: false },
    { name: "another device", found: { rdev: 260 }, want: false },
    { name: "owned by another user", found: { uid: 0 }, want: false },
    { name: "owned by another group", found: { gid: 0 }, want: false },
    { name: "a device with another mode", found: { mode: 0o20666 }, want: false },
  ])("that is $name is current: $want", ({ found, want }) => {
    expect(matchesCopy(toStats({ ...device, ...found }), toStats(device), copy)).toBe(want);
  });

  test("that is missing is not current", () => {
    expect(matchesCopy(undefined, toStats(device), copy)).toBe(false);
  });
});
