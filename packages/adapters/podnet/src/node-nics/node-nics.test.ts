// SPDX-License-Identifier: Apache-2.0
import { createFakeNamespaces } from "@patchbay/os/testing";
import { expect, test } from "vitest";
import { listHostLinks } from "./node-nics.ts";
import { createFakePodNetwork } from "../testing/fakes/pod-network.ts";

test("reads the host's links in the namespace of the host process, and closes it again", async () => {
  const namespaces = createFakeNamespaces();
  const podNetwork = createFakePodNetwork();
  namespaces.put("/proc/1/ns/net", "inode-host");
  podNetwork.putLink("inode-host", { name: "br0", kind: "bridge", mac: "", mtu: 1500, up: true });
  const links = await listHostLinks(1, { namespaces, podNetwork });
  expect(links.map(({ name }) => name)).toContain("br0");
  expect(namespaces.openCount).toBe(0);
  await expect(listHostLinks(undefined, { namespaces, podNetwork })).rejects.toMatchObject({
    code: "OS_PATH_REFUSED",
  });
});
