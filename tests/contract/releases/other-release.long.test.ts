// SPDX-License-Identifier: Apache-2.0
// The README's two commands on a fresh root of the other Debian release, with Debian's own Node.js and npm.
import { execFileSync } from "node:child_process";
import { copyFileSync, mkdirSync, readFileSync, rmSync } from "node:fs";
import { join } from "node:path";
import { needProgram } from "@patchbay/support";
import { afterAll, beforeAll, expect, test } from "vitest";

needProgram("/usr/bin/mmdebstrap", "mmdebstrap");

const REPOSITORY = join(import.meta.dirname, "../../..");
const IN_ROOT = join(import.meta.dirname, "in-root.sh");
const isBookworm = readFileSync("/etc/os-release", "utf8").includes("VERSION_CODENAME=bookworm");
const OTHER = isBookworm ? "trixie" : "bookworm";
const DIRECTORY = join(REPOSITORY, ".cache", `root-${OTHER}`);
/** Time to download, compile and build everything in the root. */
const WITHIN_MS = 1_800_000;
/** The host's authorities, so that npm trusts the same registries. */
const CERTIFICATES = "/etc/ssl/certs/ca-certificates.crt";
const IN_ROOT_CERTIFICATES = "/etc/ssl/host-certificates.crt";

/** Runs a shell command in the repository's copy in the root; resolves to its standard output. */
function runInRoot(command: string, ...flags: readonly string[]): string {
  const argv = [...flags, DIRECTORY, "sh", "-euc", `cd /root/patchbay; ${command}`];
  const env = {
    PATH: "/usr/sbin:/usr/bin:/sbin:/bin",
    HOME: "/root",
    TERM: "dumb",
    npm_config_cafile: IN_ROOT_CERTIFICATES,
  };
  const limit = { timeout: WITHIN_MS, maxBuffer: 2 ** 26 };
  return execFileSync(IN_ROOT, argv, { ...limit, env, encoding: "utf8" });
}

beforeAll(() => {
  rmSync(DIRECTORY, { recursive: true, force: true });
  execFileSync(
    "mmdebstrap",
    [
      "--mode=root",
      "--variant=minbase",
      "--quiet",
      "--include=git,nodejs,npm,ca-certificates",
      OTHER,
      DIRECTORY,
    ],
    { stdio: "inherit" },
  );
  for (const file of ["/etc/resolv.conf", "/etc/hosts"]) copyFileSync(file, join(DIRECTORY, file));
  copyFileSync(CERTIFICATES, join(DIRECTORY, IN_ROOT_CERTIFICATES));
  const copy = join(DIRECTORY, "root/patchbay");
  mkdirSync(copy);
  execFileSync("git", ["clone", "--quiet", REPOSITORY, copy]);
}, WITHIN_MS);

afterAll(() => {
  rmSync(DIRECTORY, { recursive: true, force: true });
}, WITHIN_MS);

test(
  "hack/install installs what the demo needs, and no package that only tests need",
  { timeout: WITHIN_MS },
  () => {
    runInRoot("hack/install && hack/guest/make-image .cache/guest");
    const installed = runInRoot("dpkg-query -W -f '${Package}\\n'").split("\n");
    expect(installed).toContain("qemu-system-x86");
    const ofTests = installed.filter((name) => /chromium|dpdk|openvswitch|librte/.test(name));
    // A JavaScript module that Debian's npm depends on.
    expect(ofTests.filter((name) => name !== "node-electron-to-chromium")).toEqual([]);
  },
);

test("hack/demo plugs and unplugs NICs on the other release", { timeout: WITHIN_MS }, () => {
  const shown = runInRoot("hack/demo", "--own-network");
  for (const step of [
    /two more NICs at once +\d/,
    /red is unplugged while blue keeps pinging +\d/,
  ]) {
    expect(shown).toMatch(step);
  }
  expect(shown).toContain("no VM, VMI or pod is left");
});

test("the tests of plug, swap and unplug pass on the other release", { timeout: WITHIN_MS }, () => {
  const files = ["plug/plug", "plug/swap", "unplug/unplug"].map(
    (name) => `tests/e2e/${name}.test.ts`,
  );
  const command = `PATH="$PWD/node_modules/.bin:$PATH" vitest run --project e2e ${files.join(" ")}`;
  expect(runInRoot(command, "--own-network")).toMatch(/Test Files +3 passed/);
});
