// SPDX-License-Identifier: Apache-2.0
import { spawnSync } from "node:child_process";
import { existsSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { delimiter, join } from "node:path";
import { expect, test } from "vitest";

const SCRIPT = join(import.meta.dirname, "install");

interface Run {
  readonly code: number | null;
  readonly stderr: string;
  /** The programs that would have changed the machine, in order. */
  readonly calls: string;
}

/** Runs hack/install as if by root, with stub programs that record their call and fail. */
function runInstall(osRelease: string, ...args: readonly string[]): Run {
  const directory = mkdtempSync(join(tmpdir(), "install-"));
  try {
    const calls = join(directory, "calls");
    for (const name of ["apt-get", "apt-cache", "npm"]) {
      writeFileSync(join(directory, name), `#!/bin/sh\necho "${name} $1" >>${calls}\nexit 1\n`, {
        mode: 0o755,
      });
    }
    writeFileSync(join(directory, "id"), "#!/bin/sh\necho 0\n", { mode: 0o755 });
    // No package is installed, so on a known release the first change is that of apt's lists.
    writeFileSync(join(directory, "dpkg-query"), "#!/bin/sh\nexit 1\n", { mode: 0o755 });
    const file = join(directory, "os-release");
    writeFileSync(file, osRelease);
    const path = [directory, process.env["PATH"] ?? ""].join(delimiter);
    const env = { ...process.env, OS_RELEASE: file, PATH: path };
    const { status, stderr } = spawnSync(SCRIPT, args, { env, encoding: "utf8" });
    return { code: status, stderr, calls: existsSync(calls) ? readFileSync(calls, "utf8") : "" };
  } finally {
    rmSync(directory, { recursive: true });
  }
}

test("stops on an unsupported distribution before any change and names the packages", () => {
  const { code, stderr, calls } = runInstall('ID=fedora\nVERSION_ID=43\nPRETTY_NAME="Fedora 43"\n');
  expect({ code, calls }).toEqual({ code: 3, calls: "" });
  expect(stderr).toContain("this is Fedora 43");
  expect(stderr).toContain("qemu-system-x86");
});

test.each(["12", "13"])("updates the apt package lists first on Debian %s", (version) => {
  const { code, calls } = runInstall(`ID=debian\nVERSION_ID="${version}"\n`);
  expect({ code, calls }).toEqual({ code: 1, calls: "apt-get -qq\n" });
});

test("an unknown argument changes nothing", () => {
  const { code, stderr, calls } = runInstall('ID=debian\nVERSION_ID="13"\n', "--all");
  expect({ code, calls }).toEqual({ code: 2, calls: "" });
  expect(stderr).toContain("usage: install [--tests] [--release]");
});
