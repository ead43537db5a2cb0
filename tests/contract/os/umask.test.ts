// SPDX-License-Identifier: Apache-2.0
// Services start with the same umask, whatever their caller's is.
import { join } from "node:path";
import { createProcessRunner } from "@patchbay/os";
import { expect, test } from "vitest";

const PACKAGES = join(import.meta.dirname, "../../../packages");
const REPORT = "process.on('exit',()=>console.log('umask '+process.umask().toString(8)))";

test.each([
  "standalone/service-net/bin/service-net --help",
  "standalone/node-runtime/bin/node-runtime --help",
  "control-plane/virt-controller/bin/virt-controller --help",
  "control-plane/virt-api/bin/virt-api --help",
  "control-plane/net-agent/bin/net-agent --help",
  "control-plane/virt-handler/bin/virt-handler --help",
])("%s has umask 022 when its caller has 077", async (command) => {
  const script = `umask 077; exec ${join(PACKAGES, command)}`;
  const options = `NODE_OPTIONS=--import "data:text/javascript,${REPORT}"`;
  const argv = ["env", options, "sh", "-c", script] as const;
  const { stdout } = await createProcessRunner().run({ argv, timeoutMs: 60_000 });
  expect(stdout.trim().split("\n").at(-1)).toBe("umask 22");
});

test("the supervisor and the API server, whose children inherit it, have umask 022", async () => {
  const main = join(PACKAGES, "standalone/supervisor/dist/main.js");
  const options = `NODE_OPTIONS=--import "data:text/javascript,${REPORT}"`;
  const script = `umask 077; exec node ${main} --help`;
  const argv = ["env", options, "sh", "-c", script] as const;
  const { stdout } = await createProcessRunner().run({ argv, timeoutMs: 60_000 });
  expect(stdout.trim().split("\n").at(-1)).toBe("umask 22");
});
