// SPDX-License-Identifier: Apache-2.0
// virt-probe, as the kubelet runs it in a launcher, and a guest with QEMU's agent.
import { afterAll, beforeAll, expect, test } from "vitest";
import { eventually } from "@patchbay/support";
import { makeGuestImage } from "../guest-image.ts";
import { LauncherBench, type LauncherPod } from "./pod.ts";

/** Making the images takes most of a minute, once. */
const IMAGES_MS = 300_000;

let bench: LauncherBench;
let pod: LauncherPod;

beforeAll(async () => {
  bench = await LauncherBench.open(makeGuestImage());
  pod = await bench.launch({ hasAgent: true });
  await pod.boot();
  const answers = async (): Promise<boolean> =>
    (await pod.exec("virt-probe", "vm", "5")).exitCode === 0;
  await eventually(answers, { withinMs: 60_000 });
}, IMAGES_MS);

afterAll(async () => {
  await pod.remove();
  await bench.close();
});

async function probe(command: readonly string[], seconds = 10): Promise<readonly [number, string]> {
  const [path = "", ...arg] = command;
  const fields = { path, arg, "capture-output": true };
  const request = JSON.stringify({ execute: "guest-exec", arguments: fields });
  const { exitCode, stdout } = await pod.exec("virt-probe", "vm", String(seconds), request);
  return [exitCode, stdout];
}

test.each([
  { name: "a success", command: ["true"], want: [0, ""] },
  { name: "an exit code", command: ["sh", "-c", "exit 7"], want: [7, ""] },
  {
    name: "arguments with blanks, quotes and shell metacharacters",
    command: ["printf", "%s|", 'a b "c"', "$(reboot) `reboot`"],
    want: [0, 'a b "c"|$(reboot) `reboot`|'],
  },
  {
    name: "both outputs without control characters",
    command: ["sh", "-c", 'printf "out\\033[2J\\n"; printf "err" >&2; exit 1'],
    want: [1, "out[2J\nerr"],
  },
  { name: "termination by a signal", command: ["sh", "-c", "kill -9 $$"], want: [1, ""] },
])("reports $name of a command in the guest", async ({ command, want }) => {
  expect(await probe(command)).toEqual(want);
});

test("a missing command fails with the agent's message", async () => {
  const [code, output] = await probe(["/no/such/program"]);
  expect(code).toBe(1);
  expect(output).toContain("/no/such/program");
});

test("a command that exceeds its time limit fails", async () => {
  expect(await probe(["sleep", "20"], 1)).toEqual([124, "no answer of the guest within 1 s\n"]);
});

test("a paused guest fails", async () => {
  await pod.virsh("suspend", "vm");
  expect((await pod.exec("virt-probe", "vm", "1")).exitCode).not.toBe(0);
  await pod.virsh("resume", "vm");
});
