// SPDX-License-Identifier: Apache-2.0
import { once } from "node:events";
import { createServer } from "node:net";
import type { ProcessRunner } from "@patchbay/core/interfaces";
import { createFakeFiles, createFakeProcessRunner } from "@patchbay/os/testing";
import { expect, test } from "vitest";
import { buildPaths } from "./data-dir/paths.ts";
import { createMachineFacts, buildServerUrl } from "./prepare.ts";

function factsOf(runner: ProcessRunner) {
  return createMachineFacts({ files: createFakeFiles(), paths: buildPaths("/data"), runner });
}

test("a port is free when nobody listens at it on the loopback address", async () => {
  const { isPortFree } = factsOf(createFakeProcessRunner({}));
  const server = createServer();
  await once(server.listen(0, "127.0.0.1"), "listening");
  const address = server.address();
  const port = typeof address === "object" ? (address?.port ?? 0) : 0;
  expect(await isPortFree(port)).toBe(false);
  server.close();
  await once(server, "close");
  expect(await isPortFree(port)).toBe(true);
  expect(buildServerUrl(port)).toBe(`https://127.0.0.1:${String(port)}`);
});

test("lists links and routes with ip, and claims a network", async () => {
  const runner = createFakeProcessRunner({
    ip: ({ argv }) => {
      if (argv.includes("link")) return { stdout: '[{"ifname":"lo"},{}]' };
      if (argv.includes("show")) return { stdout: '[{"dst":"default"},{"dst":"10.0.0.0/8"}]' };
      return { exitCode: argv.includes("10.96.0.0/16") ? 0 : 2 };
    },
  });
  const facts = factsOf(runner);
  expect(await facts.listLinks()).toEqual(["lo", ""]);
  expect(await facts.listRoutes()).toEqual(["10.0.0.0/8"]);
  expect(await facts.claimServiceSubnet("10.96.0.0/16")).toBe(true);
  expect(await facts.claimServiceSubnet("10.97.0.0/16")).toBe(false);
  expect(facts.hostname).toBe(facts.hostname.toLowerCase());
});

test("throws if ip cannot list links and routes", async () => {
  const failed = { exitCode: 1, stderr: "Cannot open netlink socket\n" };
  const facts = factsOf(createFakeProcessRunner({ ip: () => failed }));
  const want = {
    code: "OS_PROGRAM_FAILED",
    details: { program: "ip", exitCode: 1, stderr: "Cannot open netlink socket" },
  };
  await expect(facts.listLinks()).rejects.toMatchObject(want);
  await expect(facts.listRoutes()).rejects.toMatchObject(want);
});
