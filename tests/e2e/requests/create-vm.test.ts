// SPDX-License-Identifier: Apache-2.0
// One command creates a VM with its objects, which are deleted correctly.
import { execFileSync } from "node:child_process";
import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { eventually, type CommandResult } from "@patchbay/support";
import { afterAll, beforeAll, expect, test } from "vitest";
import { machine } from "../machine.ts";

let work: string;

function tryPatchbay(...args: readonly string[]): CommandResult {
  return machine.try(["patchbay", "--data-dir", machine.dataDir, ...args]);
}

function namesOf(kind: "pvc" | "secret"): readonly string[] {
  return machine.list(kind).map(({ metadata }) => metadata.name);
}

beforeAll(() => {
  work = mkdtempSync(join(tmpdir(), "create-vm-"));
  const disk = join(work, "disk.qcow2");
  execFileSync("qemu-img", ["create", "-q", "-f", "qcow2", disk, "1G"]);
  machine.patchbay("image", "add", "made-disk", disk);
  const order = ["--image", "made-disk", "--disk", "1Gi", "--network", "blue", "--stopped"];
  machine.patchbay("create", "vm", "made", ...order);
});
afterAll(() => {
  machine.deleteIfPresent("vm", "made");
  machine.deleteIfPresent("pvc", "made-disk-1");
  tryPatchbay("image", "remove", "made-disk");
  rmSync(work, { recursive: true });
});

test("creates a stopped VM with its claim and its secret", () => {
  expect(machine.findVm("made")?.spec.runStrategy).toBe("Halted");
  expect(namesOf("pvc")).toContain("made-disk-1");
  expect(namesOf("secret")).toContain("made-cloud-init");
});

test("rejects a second VM of the same name and creates nothing", () => {
  const { code, stderr } = tryPatchbay("create", "vm", "made", "--image", "x", "--disk", "1Gi");
  expect(code).toBe(4);
  expect(stderr).toContain("already exists");
  expect(namesOf("pvc").filter((name) => name.includes("made"))).toHaveLength(1);
});

test("an image that the VM uses cannot be removed", () => {
  const { code, stderr } = tryPatchbay("image", "remove", "made-disk");
  expect(code).toBe(4);
  expect(stderr).toContain("virtualmachine default/made");
});

test("deleting the VM deletes its secret and retains its claim", async () => {
  machine.delete("vm", "made");
  await eventually(() => !namesOf("secret").includes("made-cloud-init"), {
    withinMs: 20_000,
  });
  expect(namesOf("pvc")).toContain("made-disk-1");
  expect(tryPatchbay("image", "remove", "made-disk").code).toBe(0);
});
