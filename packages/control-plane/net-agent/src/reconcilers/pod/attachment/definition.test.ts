// SPDX-License-Identifier: Apache-2.0
// Definitions without spec.config use a file of the node.
import { DEFAULT_POLICY } from "@patchbay/core/nics";
import { beforeEach, expect, test } from "vitest";
import { DEFINITIONS_DIR } from "../../../testing/node-files.ts";
import { World } from "../../../testing/world.ts";

let world: World;

beforeEach(async () => {
  world = new World();
  world.putEmptyNad("blue");
  await world.putPod({ networks: "blue" });
});

async function putFile(name: string, config: unknown): Promise<void> {
  const text = typeof config === "string" ? config : JSON.stringify(config);
  await world.files.writeAtomic(`${DEFINITIONS_DIR}/${name}`, text);
}

test("attaches with the configuration in the file, although other files are broken", async () => {
  await putFile("00-broken.conf", "{");
  await putFile("10-blue.conflist", {
    cniVersion: "1.0.0",
    name: "blue",
    plugins: [{ type: "bridge", bridge: "br7" }, { type: "tuning" }],
  });
  await world.pass();
  expect(world.requests[0]?.request.config).toEqual({
    cniVersion: "1.0.0",
    name: "blue",
    plugins: [{ type: "bridge", bridge: "br7" }, { type: "tuning" }],
  });
  expect(await world.errorReasons()).toEqual({});
});

test("prefers spec.config to the file", async () => {
  await putFile("blue.conf", { name: "blue", type: "macvlan" });
  world.putNad({ namespace: "ns1", name: "blue" }, { cniVersion: "1.0.0", type: "bridge" });
  await world.pass();
  expect(world.requests[0]?.request.config.plugins).toMatchObject([{ type: "bridge" }]);
});

test("reports which networks the files define when none defines this one", async () => {
  await putFile("a.conf", { name: "green", type: "bridge" });
  await putFile("b.conf", "no JSON");
  await world.pass();
  expect(await world.errorReasons()).toEqual({ net1: "DefinitionFileMissing" });
  const [note] = world.notes.filter(({ reason }) => reason === "DefinitionFileMissing");
  expect(note?.message).toMatch(
    /^NetworkAttachmentDefinition ns1\/blue has no spec\.config, and no file in \/definitions of the node defines a network named blue; files there define green; b\.conf is not a JSON object: .*; write the configuration into spec\.config of NetworkAttachmentDefinition ns1\/blue, or have an administrator/,
  );
});

test("lists at most sixteen names in a message", async () => {
  for (let index = 10; index < 30; index += 1) {
    await putFile(`${String(index)}.conf`, { name: `n${String(index)}`, type: "bridge" });
  }
  await world.pass();
  expect(world.notes[0]?.message).toContain("define n10, n11,");
  expect(world.notes[0]?.message).toContain("n25 and 4 more");
});

test("attaches once a file defines it", async () => {
  await world.pass();
  await putFile("blue.conf", { name: "blue", cniVersion: "1.0.0", type: "bridge" });
  world.nowMs += 60_000;
  await world.continuePass();
  expect(world.cni.attachments).toEqual(["box-uid-1/net1"]);
});

test("reports a file without plugins by its path", async () => {
  await putFile("blue.conf", { name: "blue", plugins: [{}] });
  await world.pass();
  expect(await world.errorReasons()).toEqual({ net1: "NetworkInvalid" });
  expect(world.notes[0]?.message).toContain(
    "/definitions/blue.conf.plugins[0].type: must be the file name of a plugin",
  );
});

test("applies the tenant policy to a file that a tenant's definition refers to", async () => {
  world.policy = DEFAULT_POLICY;
  await putFile("blue.conf", { name: "blue", type: "host-device", device: "eth0" });
  await world.pass();
  expect(world.cni.calls).toEqual([]);
  expect(await world.errorReasons()).toEqual({ net1: "DefinitionForbidden" });
  world.policy = { ...DEFAULT_POLICY, trustedNamespaces: ["ns1"] };
  await world.pass();
  expect(world.cni.attachments).toEqual(["box-uid-1/net1"]);
});
