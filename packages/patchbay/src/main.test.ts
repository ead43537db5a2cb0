// SPDX-License-Identifier: Apache-2.0
import { spawnSync } from "node:child_process";
import { mkdtempSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import { afterEach, beforeEach, describe, expect, test } from "vitest";

const MAIN = fileURLToPath(new URL("main.ts", import.meta.url));

let directory = "";
beforeEach(() => {
  directory = mkdtempSync(join(tmpdir(), "patchbay-cli-"));
});
afterEach(() => {
  rmSync(directory, { recursive: true, force: true });
});

interface Ended {
  readonly code: number | null;
  readonly out: string;
  readonly err: string;
}

function patchbay(args: readonly string[], nodeFlags: readonly string[] = []): Ended {
  const argv = ["--conditions=@patchbay/source", ...nodeFlags, MAIN, ...args];
  const { status, stdout, stderr } = spawnSync(process.execPath, argv, {
    encoding: "utf8",
    env: { HOME: directory, PATH: process.env["PATH"] ?? "" },
    timeout: 20_000,
  });
  return { code: status, out: stdout, err: stderr };
}

/** The modules that the program loads for `args`, without Node's own. */
function loadedBy(args: readonly string[]): readonly string[] {
  const list = join(directory, "loaded");
  const hook = join(directory, "hook.mjs");
  writeFileSync(
    hook,
    `import { appendFileSync } from "node:fs";
import { registerHooks } from "node:module";
registerHooks({
  load(url, context, next) {
    appendFileSync(${JSON.stringify(list)}, url + "\\n");
    return next(url, context);
  },
});`,
  );
  const ended = patchbay(args, ["--import", hook]);
  expect(ended.err).toBe("");
  expect(ended.code).toBe(0);
  const urls = readFileSync(list, "utf8").split("\n");
  return urls.filter((url) => url.startsWith("file:") && url !== `file://${hook}`);
}

describe("help, completion and version", () => {
  test.each([
    { args: ["--help"] },
    { args: ["addinterface", "--help"] },
    { args: ["get", "--help"] },
    { args: ["completion", "bash"] },
    { args: ["completion", "zsh"] },
    { args: ["version"] },
  ])("patchbay $args load commander and this package only", ({ args }) => {
    const foreign = loadedBy(args).filter(
      (url) => !url.includes("/packages/patchbay/") && !url.includes("/node_modules/commander/"),
    );
    expect(foreign).toEqual([]);
  });
});

describe("an exit code", () => {
  test.each([
    { name: "of a wrong call is 2", args: ["start"], want: 2 },
    { name: "of an unknown shell is 2", args: ["completion", "fish"], want: 2 },
    { name: "of help is 0", args: ["help"], want: 0 },
  ])("$name", ({ args, want }) => {
    expect(patchbay(args).code).toBe(want);
  });
});

describe("without a server", () => {
  test("a command says what to do and ends with 1", () => {
    const { code, err } = patchbay(["get", "interfaces", "vm", "--data-dir", directory]);
    expect(code).toBe(1);
    expect(err).toContain(`${directory}/kubeconfig`);
    expect(err).toContain("hint: start a machine with: patchbay up");
  });

  test("that answers it ends with 5", () => {
    const kubeconfig = join(directory, "config");
    writeFileSync(
      kubeconfig,
      `current-context: a
contexts: [{ name: a, context: { cluster: a, user: a } }]
clusters: [{ name: a, cluster: { server: "http://127.0.0.1:9" } }]
users: [{ name: a, user: {} }]
`,
    );
    const { code, err } = patchbay(["start", "vm", "--kubeconfig", kubeconfig]);
    expect(code).toBe(5);
    expect(err).toContain("http://127.0.0.1:9 cannot be reached");
  });
});
