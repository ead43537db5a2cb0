// SPDX-License-Identifier: Apache-2.0
// Programs and scripts set their own umask, so that files for pods and plugins are readable whatever the caller's umask is.
import { globSync, readFileSync } from "node:fs";
import { join } from "node:path";
import { createProcessRunner } from "@patchbay/os";
import { expect, test } from "vitest";

const ROOT = join(import.meta.dirname, "../../..");
const REPORT = "process.on('exit',()=>console.log('umask '+process.umask().toString(8)))";

/** Paths below the repository's root. */
function list(...patterns: readonly string[]): readonly string[] {
  const exclude = (path: string) => path.includes("node_modules");
  return globSync(patterns, { cwd: ROOT, exclude }).sort();
}

function read(path: string): string {
  return readFileSync(join(ROOT, path), "utf8");
}

async function reportUmask(command: string): Promise<string | undefined> {
  const options = `NODE_OPTIONS=--import "data:text/javascript,${REPORT}"`;
  const argv = ["env", "-C", ROOT, options, "sh", "-c", `umask 077; exec ${command}`] as const;
  const { stdout } = await createProcessRunner().run({ argv, timeoutMs: 60_000 });
  return stdout.trim().split("\n").at(-1);
}

const nodePrograms = list("packages/**/bin/*").filter((path) => /bin\/node" /.test(read(path)));
/** Services that another program starts, without an executable in `bin`. */
const services = list("packages/**/dist/main.js").filter(
  (path) => list(path.replace(/dist\/main\.js$/, "bin/*")).length === 0,
);

test("finds the programs", () => {
  expect(nodePrograms.map((path) => path.split("/").at(-1))).toEqual(
    expect.arrayContaining(["patchbay", "virt-handler", "net-agent", "node-runtime"]),
  );
  expect(services).toContain("packages/standalone/supervisor/dist/main.js");
});

test.each(nodePrograms)("%s has umask 022 when its caller has 077", async (path) => {
  expect(await reportUmask(`${path} --help`)).toBe("umask 22");
});

test.each(services)("%s has umask 022 when its caller has 077", async (path) => {
  expect(await reportUmask(`node ${path} --help`)).toBe("umask 22");
});

/** First command of a shell script, other than `set`; empty if the script has no other command. */
function findFirstCommand(text: string): string {
  const commands = text.split("\n").filter((line) => !/^(#|set -|$)/.test(line));
  return commands[0] ?? "";
}

const scripts = list("hack/**/*", "packages/**/bin/*").filter(
  (path) => /(^|\/)[\w-]+$/.test(path) && isShellScript(path),
);

/** Whether a file is a script of a container or of this machine. Guests have the umask of the kernel or of Debian's scripts. */
function isShellScript(path: string): boolean {
  if (path.startsWith("hack/guest/debian/files/")) return false;
  try {
    return read(path).startsWith("#!/bin/sh\n");
  } catch {
    return false; // a directory
  }
}

test("finds the scripts", () => {
  expect(scripts).toEqual(
    expect.arrayContaining(["hack/install", "hack/guest/make-image", "hack/images/prune"]),
  );
});

test.each(scripts.filter((path) => !nodePrograms.includes(path)))(
  "%s sets its umask first",
  (path) => {
    // Disks and libvirt's files are private to the user of the launcher.
    const umask = /launcher\/bin\/(prepare-disks|virt-launcher)$/.test(path) ? "077" : "022";
    expect(findFirstCommand(read(path))).toMatch(new RegExp(`^umask ${umask}\\b`));
  },
);

test.each(list("hack/**/main.ts"))("%s sets its umask", (path) => {
  expect(read(path)).toMatch(/^process\.umask\(0o022\);/m);
});
