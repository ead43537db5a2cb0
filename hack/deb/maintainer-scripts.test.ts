// SPDX-License-Identifier: Apache-2.0
// Which machines the package upgrades and stops. The scripts run with directories of the test instead of the host's.
import { execFileSync } from "node:child_process";
import { mkdirSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { dirname, join } from "node:path";
import { afterEach, beforeEach, describe, expect, test } from "vitest";

let root: string;

beforeEach(() => {
  root = mkdtempSync(join(tmpdir(), "deb-scripts-"));
  write("bin/patchbay", `#!/bin/sh\necho "$*" >>${root}/calls\n[ ! -e ${root}/fails ]\n`, 0o755);
});

afterEach(() => {
  rmSync(root, { recursive: true });
});

function write(path: string, text: string, mode = 0o644): void {
  mkdirSync(dirname(join(root, path)), { recursive: true });
  writeFileSync(join(root, path), text, { mode });
}

/** Writes a machine's record and files. Its supervisor runs if `program` is set. */
function addMachine(dataDir: string, pid: number, program?: string): void {
  write(`var/lib/patchbay-machines/${String(pid)}.json`, `{"dataDir":"${join(root, dataDir)}"}\n`);
  write(`${dataDir}/standalone.json`, "{}");
  write(`${dataDir}/run/supervisor.json`, `{"pid":${String(pid)},"steps":[]}\n`);
  if (program !== undefined) write(`proc/${String(pid)}/cmdline`, `${program}\0supervise\0`);
}

/** Runs a script. Returns the commands that it ran, with the test's directory as `ROOT`. */
function runScript(name: string, ...args: readonly string[]): readonly string[] {
  const script = readFileSync(join(import.meta.dirname, name), "utf8").replaceAll(
    /\/(?=(?:var\/lib|proc|run\/systemd)\/)/g,
    `${root}/`,
  );
  write("calls", "");
  execFileSync("sh", ["-s", ...args], {
    input: script,
    stdio: ["pipe", "pipe", "ignore"],
    env: { PATH: `${root}/bin:/usr/bin:/bin` },
  });
  return readFileSync(join(root, "calls"), "utf8")
    .replaceAll(root, "ROOT")
    .split("\n")
    .slice(0, -1);
}

function addMachines(): void {
  addMachine("var/lib/patchbay", 1, "/usr/lib/patchbay/node");
  addMachine("srv/a b", 2, "/usr/lib/patchbay/node");
  addMachine("srv/checkout", 3, "/opt/checkout/node");
  addMachine("srv/down", 4);
}

describe("an upgrade", () => {
  test("upgrades each machine that the package's programs run", () => {
    addMachines();
    expect(runScript("postinst", "configure", "0.1.0")).toEqual([
      "upgrade",
      "--data-dir ROOT/srv/a b upgrade",
    ]);
  });

  test("continues after a machine that cannot be upgraded", () => {
    addMachines();
    write("fails", "");
    expect(runScript("postinst", "configure", "0.1.0")).toHaveLength(2);
  });

  test("runs nothing without machines, and at a first installation", () => {
    expect(runScript("postinst", "configure", "0.1.0")).toEqual([]);
    addMachines();
    expect(runScript("postinst", "configure")).toEqual([]);
  });
});

describe("a removal", () => {
  test("stops each machine that the package's programs run", () => {
    addMachines();
    expect(runScript("prerm", "remove")).toEqual([
      "--data-dir ROOT/srv/a b down --uninstall-service",
      "down --uninstall-service",
    ]);
    expect(runScript("prerm", "upgrade")).toEqual([]);
  });

  test("stops nothing without machines", () => {
    expect(runScript("prerm", "remove")).toEqual([]);
  });

  test("fails if a machine does not stop, so that its programs remain", () => {
    addMachine("srv/a", 2, "/usr/lib/patchbay/node");
    write("fails", "");
    expect(() => runScript("prerm", "remove")).toThrow("Command failed");
  });
});
