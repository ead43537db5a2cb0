// SPDX-License-Identifier: Apache-2.0
import { spawn, spawnSync } from "node:child_process";
import { once } from "node:events";
import { mkdtempSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import { afterEach, beforeEach, describe, expect, test } from "vitest";
import { FakeMachine, plugged, VMIS, vmiOf, VMS } from "./testing/fake-machine.ts";

const MAIN = fileURLToPath(new URL("main.ts", import.meta.url));
/** Inherits the environment and shares Node.js' compile cache. */
const { PATH = "", NODE_COMPILE_CACHE = "" } = process.env;
const KEPT = { PATH, NODE_COMPILE_CACHE };

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
    env: { HOME: directory, ...KEPT },
    timeout: 20_000,
  });
  return { code: status, out: stdout, err: stderr };
}

/** Modules that the program loads, without Node's built-in modules. */
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
  ])("patchbay $args loads only commander, the version and this package", ({ args }) => {
    const allowed = ["/packages/cli/", "/node_modules/commander/", "/base/src/version.ts"];
    const foreign = loadedBy(args).filter((url) => !allowed.some((part) => url.includes(part)));
    expect(foreign).toEqual([]);
  });
});

describe("exit codes", () => {
  test.each([
    { name: "of an invalid call is 2", args: ["start"], want: 2 },
    { name: "of an unknown shell is 2", args: ["completion", "fish"], want: 2 },
    { name: "of help is 0", args: ["help"], want: 0 },
  ])("$name", ({ args, want }) => {
    expect(patchbay(args).code).toBe(want);
  });
});

describe("without a server", () => {
  test("a command prints what to do and exits with 1", () => {
    const { code, err } = patchbay(["get", "interfaces", "vm", "--data-dir", directory]);
    expect(code).toBe(1);
    expect(err).toContain(`${directory}/kubeconfig`);
    expect(err).toContain("hint: start a machine with: patchbay up");
  });

  test("exits with 5 if the server rejects the request", () => {
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

test("Ctrl-C while waiting reports that the request continues, and exits with 130", async () => {
  const machine = new FakeMachine();
  const vm = {
    metadata: { namespace: "blue", name: "one" },
    spec: { template: { spec: { domain: {} } } },
  };
  machine.objects = { [`${VMS}/one`]: vm, [`${VMIS}/one`]: vmiOf("1") };
  machine.after = [plugged("2", { phase: "Wiring" })];
  const kubeconfig = await machine.start(directory);
  const words = ["addinterface", "one", "--name", "red", "--wait", "--kubeconfig", kubeconfig];
  const network = ["--network-attachment-definition-name", "red"];
  const argv = ["--conditions=@patchbay/source", MAIN, ...words, ...network];
  const child = spawn(process.execPath, argv, { stdio: ["ignore", "pipe", "pipe"] });
  let err = "";
  child.stderr.setEncoding("utf8").on("data", (text: string) => (err += text));
  await once(child.stdout, "data"); // the phase that it has got to
  child.kill("SIGINT");
  const [code] = (await once(child, "close")) as [number]; // what the event brings
  await machine.stop();
  expect(code).toBe(130);
  expect(err.split("\n")[0]).toBe(
    "error: virtualmachine one: plug of interface red was requested and is still in progress; it is Wiring",
  );
});
