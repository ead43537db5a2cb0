// SPDX-License-Identifier: Apache-2.0
// System calls in a launcher's container that reach beyond it.
import { execFileSync } from "node:child_process";
import { mkdirSync, readFileSync } from "node:fs";
import { join } from "node:path";
import { names } from "@patchbay/api";
import { afterAll, afterEach, beforeAll, expect, test } from "vitest";
import {
  IMAGES_MS,
  readOut,
  scriptPod,
  startProbedMachine,
  type ProbedMachine,
} from "./pod-machine.ts";

const NAMESPACES = ["unshare", "clone", "clone3"].map((call) => `user namespace by ${call}`);
const KEYS = ["key", "keyring of the user", "keyring of the session"];

let probed: ProbedMachine;

beforeAll(async () => {
  probed = await startProbedMachine();
}, IMAGES_MS);
afterEach(() => probed.machine.clear());
afterAll(() => probed.close());

/** What works for the launchers' user outside any container. */
function worksOutside(): readonly string[] {
  const out = join(probed.directory, "out");
  mkdirSync(out, { mode: 0o777 });
  const user = String(names.LAUNCHER_UID);
  execFileSync("chown", [user, out]);
  execFileSync("chmod", ["755", probed.directory]);
  const flags = ["--reuid", user, "--regid", user, "--clear-groups", "--no-new-privs"];
  execFileSync("setpriv", [...flags, join(probed.directory, "program"), join(out, "said")]);
  return readFileSync(join(out, "said"), "utf8").trimEnd().split("\n");
}

async function worksInPod(): Promise<readonly string[]> {
  const volumeMounts = [{ name: "out", mountPath: "/out" }];
  const command = ["/program", "/out/said"];
  const container = { name: "compute", image: "attacker", volumeMounts, command };
  const containers = [{ ...container, imagePullPolicy: "Never" as const }];
  await probed.machine.create(scriptPod("a", "", { containers }));
  return (await readOut(probed.machine, "a", "said")).trimEnd().split("\n");
}

test("attack 24: a launcher cannot create a user namespace with any system call", async () => {
  // Ensures that no attempt fails for another reason.
  expect(worksOutside()).toEqual([...NAMESPACES, ...KEYS, "done"]);
  const works = await worksInPod();
  expect(works.filter((line) => NAMESPACES.includes(line))).toEqual([]);
  expect(works).toContain("done");
});

test("attack 25: a launcher cannot reach its user's keyring or create one", async () => {
  const works = await worksInPod();
  expect(works.filter((line) => KEYS.includes(line))).toEqual([]);
  expect(works).toContain("done");
});
