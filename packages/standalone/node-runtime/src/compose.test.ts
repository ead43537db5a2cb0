// SPDX-License-Identifier: Apache-2.0
import { createFakeFiles } from "@patchbay/os/testing";
import { expect, test } from "vitest";
import { readNetworkConfigs } from "./compose.ts";

test("reads the configurations of the default network and skips broken files", async () => {
  const files = createFakeFiles();
  expect(await readNetworkConfigs(files, "/net.d")).toEqual([]);
  const own = { cniVersion: "1.0.0", name: "own", plugins: [{ type: "bridge", bridge: "br1" }] };
  await files.writeAtomic("/net.d/10-own.conflist", JSON.stringify(own));
  await files.writeAtomic("/net.d/20-broken.conf", "{");
  const configs = await readNetworkConfigs(files, "/net.d");
  expect(configs.map(({ name, plugins }) => [name, plugins])).toEqual([["own", own.plugins]]);
});
