// SPDX-License-Identifier: Apache-2.0
// Plugins that die, print invalid or endless results, or leave children: the report, and a working DEL.
import { existsSync, readFileSync } from "node:fs";
import { join } from "node:path";
import { createCni } from "@patchbay/cni";
import type { AttachmentRequest, Cni, Sandbox } from "@patchbay/core/interfaces";
import { createProcessRunner } from "@patchbay/os";
import { afterEach, beforeEach, expect, test } from "vitest";
import { CniNode } from "./node.ts";

/** Longest message that an event or an annotation stores in full, in characters. */
const MESSAGE_MAX = 2_000;

let node: CniNode;
let sandbox: Sandbox;
let cni: Cni;

beforeEach(() => {
  node = new CniNode();
  sandbox = node.addSandbox();
  cni = createCni({
    runner: createProcessRunner(),
    binDirs: [node.binDir, "/usr/lib/cni"],
    family: node.directory,
  });
});

afterEach(() => {
  node.close();
});

/** A plugin that creates the NIC and then misbehaves instead of returning a result. */
function unruly(name: string, then: string): AttachmentRequest {
  return pluginOf(name, `/usr/lib/cni/bridge >/dev/null\n${then}`);
}

/** Plugin bridge, with a different ADD. */
function pluginOf(name: string, add: string): AttachmentRequest {
  node.addPlugin(name, `[ "$CNI_COMMAND" = ADD ] || exec /usr/lib/cni/bridge\n${add}`);
  const plugins = [{ ...node.bridgePlugin(), type: name }];
  return {
    containerId: sandbox.id,
    netnsPath: sandbox.netnsPath,
    interfaceName: "net1",
    config: { cniVersion: "1.0.0", name: "blue", plugins },
    args: [["IgnoreUnknown", "1"]],
    capabilityArgs: {},
  };
}

test.each([
  { name: "dies", then: "kill -9 $$", want: /^exit code/ },
  {
    name: "dies with a message",
    then: "echo out of luck >&2; exit 3",
    want: /exit code 3: out of luck/,
  },
  { name: "prints nothing", then: "exit 0", want: /not a CNI result/ },
  { name: "prints garbage", then: "head -c 4096 /dev/urandom", want: /not a CNI result/ },
  {
    name: "prints garbage and fails",
    then: "head -c 4096 /dev/urandom; exit 1",
    want: /exit code 1/,
  },
  { name: "prints another JSON", then: `echo '["net1"]'`, want: /not a CNI result/ },
  {
    name: "prints 100 MB",
    then: "head -c 100000000 /dev/zero | tr '\\0' x",
    want: /more than \d+ bytes/,
  },
  {
    name: "prints 100 MB of errors",
    then: "head -c 100000000 /dev/zero | tr '\\0' x >&2; exit 1",
    want: /more than \d+ bytes/,
  },
  {
    name: "fails with 1 MB of text",
    then: "head -c 1000000 /dev/zero | tr '\\0' x >&2; exit 1",
    want: /exit code 1: x/,
  },
])(
  "reports a plugin that $name in a short message and undoes its changes",
  async ({ then, want }) => {
    const request = unruly("unruly", then);
    const error: unknown = await cni.add(request).catch((thrown: unknown) => thrown);
    expect(error).toMatchObject({ code: "CNI_PLUGIN_FAILED", details: { plugin: "unruly" } });
    const { message } = (error as { details: { message: string } }).details; // checked by the caller
    expect(message).toMatch(want);
    expect(message.length).toBeLessThan(MESSAGE_MAX);
    expect(node.nics(sandbox)).toEqual(["net1"]);
    await cni.del(request);
    expect(node.nics(sandbox)).toEqual([]);
    expect(node.leases("blue")).toEqual([]);
  },
);

/** Whether the process whose pid is in that file runs and is not a zombie. */
function isRunning(file: string): boolean {
  const path = `/proc/${readFileSync(file, "utf8").trim()}/stat`;
  return existsSync(path) && !/\) Z /.test(readFileSync(path, "utf8"));
}

test.each([
  { name: "a child in its process group", start: "sleep 600" },
  { name: "a child in its own session", start: "setsid sleep 600" },
  {
    name: "a child in its own session that closed all descriptors",
    start: "setsid sleep 600 0</dev/null 1>/dev/null 2>/dev/null",
  },
])(
  "a plugin that succeeds and leaves $name is a success, and the child ends",
  async ({ start }) => {
    const file = join(node.directory, "pid");
    const request = pluginOf("unruly", `${start} & echo $! > ${file}; exec /usr/lib/cni/bridge`);
    const result = await cni.add(request);
    expect(node.nics(sandbox)).toEqual(["net1"]);
    await expect.poll(() => isRunning(file)).toBe(false);
    await cni.del(request, result);
    expect(node.nics(sandbox)).toEqual([]);
  },
);
