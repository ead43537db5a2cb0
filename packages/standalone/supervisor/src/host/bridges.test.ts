// SPDX-License-Identifier: Apache-2.0
import { createFakeFiles, createFakeProcessRunner, type FakeFiles } from "@patchbay/os/testing";
import { createFakeLogger } from "@patchbay/telemetry/testing";
import { beforeEach, expect, test } from "vitest";
import { buildPaths } from "../data-dir/paths.ts";
import { removeBridges } from "./bridges.ts";

const PATHS = buildPaths("/d");

let files: FakeFiles;
beforeEach(async () => {
  files = createFakeFiles();
  const write = (stateDir: string, name: string, record: object): Promise<void> =>
    files.writeAtomic(`${stateDir}/bridges/${name}.json`, JSON.stringify({ name, ...record }));
  await write(PATHS.netAgent, "br-blue", { index: 7, bootId: "boot" });
  await write(PATHS.netAgent, "br-old", { index: 8, bootId: "boot before" });
  await write(PATHS.nodeRuntime, "patchbay0", { index: 5, bootId: "boot" });
});

/** Links that are deleted, and what the log warns of. */
async function remove(links: readonly object[], delExitCode = 0) {
  const log = createFakeLogger();
  const deleted: string[] = [];
  const runner = createFakeProcessRunner({
    ip: ({ argv }) => {
      if (argv.includes("show")) return { stdout: JSON.stringify(links) };
      deleted.push(argv.slice(3).join(" "));
      return { exitCode: delExitCode, stderr: "Operation not permitted\n" };
    },
  });
  await removeBridges({ files, runner, log, paths: PATHS, bootId: "boot" });
  const warned = log.lines.filter(({ level }) => level === "warn").map(({ fields }) => fields);
  return { deleted, warned };
}

test("removes the bridges that plugins created for pods and networks", async () => {
  const links = [
    { ifname: "lo", ifindex: 1 },
    { ifname: "patchbay0", ifindex: 5 },
    { ifname: "br-blue", ifindex: 7 },
  ];
  const deleted = ["br-blue type bridge", "patchbay0 type bridge"];
  expect(await remove(links)).toEqual({ deleted, warned: [] });
});

test.each([
  { name: "a bridge that no plugin created", link: { ifname: "br-admin", ifindex: 9 } },
  { name: "a bridge that was created anew by hand", link: { ifname: "br-blue", ifindex: 12 } },
  { name: "a bridge of another boot", link: { ifname: "br-old", ifindex: 8 } },
])("retains: $name", async ({ link }) => {
  expect(await remove([link])).toEqual({ deleted: [], warned: [] });
});

test("retains a bridge with a port, and logs its name", async () => {
  const links = [
    { ifname: "br-blue", ifindex: 7 },
    { ifname: "eth0", ifindex: 2, master: "br-blue" },
  ];
  expect(await remove(links)).toEqual({ deleted: [], warned: [{ link: "br-blue" }] });
});

test("logs the reason when a bridge cannot be deleted", async () => {
  const { warned } = await remove([{ ifname: "br-blue", ifindex: 7 }], 2);
  expect(warned).toEqual([{ link: "br-blue", reason: "Operation not permitted" }]);
});
