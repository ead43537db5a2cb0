// SPDX-License-Identifier: Apache-2.0
// The Debian package in a fresh root: made twice, installed, used, removed and purged.
import { execFileSync, spawnSync } from "node:child_process";
import { createHash } from "node:crypto";
import { copyFileSync, mkdirSync, mkdtempSync, readFileSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { needProgram } from "@patchbay/support";
import { afterAll, beforeAll, expect, test } from "vitest";

needProgram("/usr/bin/mmdebstrap", "mmdebstrap");

const REPOSITORY = join(import.meta.dirname, "../../..");
const DEBIAN_ROOT = join(REPOSITORY, "hack/debian-root");
const DIRECTORY = join(REPOSITORY, ".cache/root-12-deb");
const WITHIN_MS = 1_800_000;
const VERSION = "0.2.0-rc.1";

/** Prints the processes of the machine. The brackets prevent a match of the shell that runs this command. */
const LIST_PROCESSES = `grep -lE 'lib/patchba[y]/(packages|node_modules|containerd|run)' /proc/[0-9]*/cmdline 2>/dev/null || true`;

let output: string;

function make(directory: string): string {
  const architecture = execFileSync("dpkg", ["--print-architecture"], { encoding: "utf8" }).trim();
  const argv = [join(output, directory), VERSION, architecture];
  return execFileSync(join(REPOSITORY, "hack/deb/make"), argv, { encoding: "utf8" }).trim();
}

function inRoot(command: string, ...flags: readonly string[]): string {
  const argv = ["run", ...flags, "12", DIRECTORY, "sh", "-euc", `exec 2>&1; ${command}`];
  const options = { encoding: "utf8", timeout: WITHIN_MS, maxBuffer: 2 ** 26 } as const;
  const { status, stdout } = spawnSync(DEBIAN_ROOT, argv, options);
  if (status === 0) return stdout;
  throw new Error(`${command}: exit code ${String(status)}:\n${stdout.slice(-6000)}`);
}

/** Files of the package and of its machine. Those of apt and dpkg about the packages remain after each purge. */
function listFiles(): string {
  return inRoot(
    `find / -xdev -ipath '*patchbay*' ! -path '/proc/*' ! -path '/tmp/*' ! -path '/var/log/*' | sort`,
  );
}

beforeAll(() => {
  execFileSync(DEBIAN_ROOT, ["make", "12"], { stdio: "inherit" });
  execFileSync(DEBIAN_ROOT, ["remove", DIRECTORY]);
  output = mkdtempSync(join(tmpdir(), "deb-"));
  execFileSync(join(REPOSITORY, "hack/images/make-images"), { stdio: "inherit" });
}, WITHIN_MS);

afterAll(() => {
  execFileSync(DEBIAN_ROOT, ["remove", DIRECTORY]);
  rmSync(output, { recursive: true });
}, WITHIN_MS);

test("the same inputs give the same package", { timeout: WITHIN_MS }, () => {
  const [one = "", other = ""] = ["one", "other"].map((directory) =>
    createHash("sha256")
      .update(readFileSync(make(directory)))
      .digest("hex"),
  );
  expect(other).toBe(one);
});

test(
  "a machine of the package starts, and nothing remains after a purge",
  { timeout: WITHIN_MS },
  () => {
    mkdirSync(join(DIRECTORY, "root"), { recursive: true });
    copyFileSync(make("one"), join(DIRECTORY, "root/patchbay.deb"));
    expect(listFiles()).toBe("");
    inRoot(
      "apt-get -qq update; DEBIAN_FRONTEND=noninteractive apt-get -qq install -y --no-install-recommends ./patchbay.deb kubernetes-client",
    );
    expect(inRoot("patchbay version; cat /etc/patchbay/machine.json")).toMatch(
      /^patchbay [\d.]+\n\{\}\n$/,
    );
    expect(inRoot("! patchbay up --install-service; ! test -e /var/lib/patchbay")).toContain(
      "systemd does not run here",
    );
    const used = inRoot(
      `patchbay up; export KUBECONFIG=/var/lib/patchbay/kubeconfig
     kubectl get nodes; ${LIST_PROCESSES}; apt-get -qq remove -y patchbay
     echo removed; ls /var/lib/patchbay/apiserver; ${LIST_PROCESSES}`,
      "--own-network",
    );
    expect(used).toContain("Ready");
    expect(used).toContain("store.sqlite");
    const [before = "", after = ""] = used.split("removed\n");
    expect(before).toContain("/proc/");
    expect(after).not.toContain("/proc/");
    inRoot("apt-get -qq purge -y patchbay");
    expect(listFiles()).toBe("");
  },
);
