// SPDX-License-Identifier: Apache-2.0
// The archive for a bug report of a standalone machine with running guests: it is complete and contains no key.
import { execFileSync } from "node:child_process";
import { globSync, mkdtempSync, readFileSync, rmSync, statSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { gunzipSync } from "node:zlib";
import { afterEach, beforeEach, expect, test } from "vitest";
import { machine } from "../machine.ts";

let directory = "";

beforeEach(() => {
  directory = mkdtempSync(join(tmpdir(), "bundle-"));
});

afterEach(() => {
  rmSync(directory, { recursive: true });
});

/** Lines of the machine's private keys, and the administrator's key as the kubeconfig contains it. */
function listKeyLines(): readonly string[] {
  const keys = globSync(`${machine.dataDir}/pki/**/*.key`).map((path) =>
    readFileSync(path, "utf8"),
  );
  const kubeconfig = readFileSync(join(machine.dataDir, "kubeconfig"), "utf8");
  const [, data = ""] = /client-key-data: "?([\w+/=]+)/.exec(kubeconfig) ?? [];
  const lines = keys.flatMap((key) =>
    key.split("\n").filter((line) => /^[\w+/=]{40,}$/.test(line)),
  );
  return [...lines, data].filter((line) => line !== "");
}

test("contains objects, logs, journals, rules and the doctor's reports, but no key", () => {
  const file = join(directory, "bundle.tar.gz");
  const { code, stdout } = machine.try([
    "patchbay",
    "--data-dir",
    machine.dataDir,
    "doctor",
    "alpha",
    "--bundle",
    file,
  ]);
  expect(stdout).toContain(`${file}: `);
  expect(code).toBe(0);
  expect(statSync(file).mode & 0o777).toBe(0o600);
  const names = execFileSync("tar", ["-tzf", file], { encoding: "utf8" }).split("\n");
  for (const name of [
    "contents.txt",
    "doctor.json",
    "machine/links.txt",
    "machine/logs/virt-api.log",
    "machine/processes/virt-handler.json",
    "machine/rules.txt",
    "machine/standalone.json",
    "objects/virtualmachineinstances.kubevirt.io.json",
    "objects/nodes.json",
    "versions.json",
    "vms/default/alpha/events.json",
    "vms/default/alpha/pods.json",
  ]) {
    expect(names).toContain(`patchbay-bundle/${name}`);
  }
  const journal = join(machine.dataDir, "net-agent/journal");
  for (const row of globSync("*/*", { cwd: journal }))
    expect(names).toContain(`patchbay-bundle/machine/journal/${row}`);
  const launcherLog = /^patchbay-bundle\/logs\/default\/virt-launcher-alpha-\w+\/compute\.log$/;
  expect(names.some((name) => launcherLog.test(name))).toBe(true);
  const rules = execFileSync("tar", ["-xzOf", file, "patchbay-bundle/machine/rules.txt"], {
    encoding: "utf8",
  });
  expect(rules).toContain("table ip ");
  const text = gunzipSync(readFileSync(file)).toString("latin1");
  const keys = listKeyLines();
  expect(keys.length).toBeGreaterThan(3);
  expect(keys.filter((line) => text.includes(line))).toEqual([]);
});
