// SPDX-License-Identifier: Apache-2.0
import { spawnSync } from "node:child_process";
import { mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { expect, test } from "vitest";

const SCRIPT = join(import.meta.dirname, "debian-packages");

interface Result {
  readonly code: number | null;
  readonly names: readonly string[];
  readonly stderr: string;
}

function listPackages(osRelease: string, ...args: readonly string[]): Result {
  const directory = mkdtempSync(join(tmpdir(), "os-release-"));
  try {
    const file = join(directory, "os-release");
    writeFileSync(file, osRelease);
    const env = { ...process.env, OS_RELEASE: file };
    const ended = spawnSync(SCRIPT, args, { env, encoding: "utf8" });
    return { code: ended.status, names: ended.stdout.trim().split("\n"), stderr: ended.stderr };
  } finally {
    rmSync(directory, { recursive: true });
  }
}

function osRelease(id: string, version: string, name: string): string {
  return `PRETTY_NAME="${name}"\nID=${id}\nVERSION_ID="${version}"\n`;
}

const DEBIAN_12 = osRelease("debian", "12", "Debian GNU/Linux 12 (bookworm)");
const DEBIAN_13 = osRelease("debian", "13", "Debian GNU/Linux 13 (trixie)");

test.each([
  { release: "12", given: DEBIAN_12, abi: "23" },
  { release: "13", given: DEBIAN_13, abi: "25" },
])("Debian $release has DPDK's libraries with ABI $abi", ({ given: input, abi }) => {
  const { code, names } = listPackages(input, "--tests");
  expect(code).toBe(0);
  expect(names.filter((name) => name.startsWith("librte-"))).toEqual([
    `librte-net-vhost${abi}`,
    `librte-mempool-ring${abi}`,
  ]);
});

test("a built machine needs no tools to build", () => {
  const { names } = listPackages(DEBIAN_13, "--runtime");
  expect(names).toEqual(expect.arrayContaining(["containerd", "qemu-utils", "util-linux"]));
  expect(names.filter((name) => /\+\+|-dev$|mmdebstrap|kubernetes/.test(name))).toEqual([]);
  const { names: all } = listPackages(DEBIAN_13);
  const notInstalled = names.filter((name) => !all.includes(name));
  // hack/install omits these if another package brought them.
  expect(["containerd", "runc"]).toEqual(expect.arrayContaining(notInstalled));
});

test.each([
  { release: "12", given: DEBIAN_12 },
  { release: "13", given: DEBIAN_13 },
])("the main commands need no package of single tests on Debian $release", ({ given: input }) => {
  const { code, names } = listPackages(input);
  const { names: ofTests } = listPackages(input, "--tests");
  expect(code).toBe(0);
  expect(names).toContain("qemu-system-x86");
  expect(names.filter((name) => ofTests.includes(name))).toEqual([]);
  expect(names.filter((name) => /chromium|dpdk|openvswitch|librte/.test(name))).toEqual([]);
});

test.each([
  { name: "Ubuntu 24.04 LTS", given: osRelease("ubuntu", "24.04", "Ubuntu 24.04 LTS") },
  { name: "Debian GNU/Linux 11", given: osRelease("debian", "11", "Debian GNU/Linux 11") },
  {
    name: "Debian GNU/Linux forky/sid",
    given: 'ID=debian\nPRETTY_NAME="Debian GNU/Linux forky/sid"\n',
  },
  { name: "an unknown distribution", given: "" },
])(
  "prints nothing for apt on $name and names the supported releases and packages",
  ({ name, given: input }) => {
    const { code, names, stderr } = listPackages(input);
    expect(code).toBe(3);
    expect(names).toEqual([""]);
    for (const part of [name, "Debian 12 or Debian 13", "Nothing was changed"]) {
      expect(stderr).toContain(part);
    }
    for (const wanted of [
      "libvirt-daemon",
      "containerd",
      "kubernetes-client",
      "chromium-headless-shell",
    ]) {
      expect(stderr.split(/\s+/)).toContain(wanted);
    }
  },
);
