// SPDX-License-Identifier: Apache-2.0
// Selection of the pods' default network.
import { createFakeFiles, type FakeFiles } from "@patchbay/os/testing";
import { beforeEach, expect, test } from "vitest";
import { readDefaultNetwork } from "./default-network.ts";

const OURS = { cniVersion: "1.0.0", name: "patchbay", plugins: [{ type: "patchbay-cni" }] };
let files: FakeFiles;

function list(name: string): object {
  return { cniVersion: "1.0.0", name, plugins: [{ type: "bridge" }] };
}

beforeEach(async () => {
  files = createFakeFiles();
  await files.writeAtomic("/net.d/00-patchbay.conflist", JSON.stringify(OURS));
  await files.writeAtomic("/net.d/05-broken.conflist", "{");
  await files.writeAtomic("/net.d/07-notes.txt", JSON.stringify(list("notes")));
  await files.writeAtomic("/net.d/10-flannel.conflist", JSON.stringify(list("cbr0")));
  await files.writeAtomic("/net.d/20-one.conf", '{"name":"one","type":"ptp"}');
});

test.each([
  { name: "uses the first network of a directory", source: "/net.d", want: "cbr0" },
  { name: "uses a file", source: "/net.d/20-one.conf", want: "one" },
  { name: "uses a network by its name", source: "one", want: "one" },
])("$name", async ({ source, want }) => {
  expect(await readDefaultNetwork(files, { source, confDir: "/net.d" })).toMatchObject({
    name: want,
  });
});

test.each([
  { name: "a missing file", source: "/net.d/x.conf", why: /x\.conf does not exist/ },
  {
    name: "an invalid file",
    source: "/net.d/05-broken.conflist",
    why: /05-broken\.conflist: spec\.config/,
  },
  {
    name: "a network of an agent that attaches none",
    source: "none",
    why: /the container runtime attaches it, except for pods that name their own/,
  },
  { name: "an empty directory", source: "/empty", why: /no usable configuration in \/empty/ },
  {
    name: "Patchbay's own network name",
    source: "patchbay",
    why: /no usable configuration .*; \/net\.d\/05-broken/,
  },
])("$name is reported", async ({ source, why }) => {
  await expect(readDefaultNetwork(files, { source, confDir: "/net.d" })).rejects.toMatchObject({
    code: "CNI_DEFAULT_NETWORK_MISSING",
    message: expect.stringMatching(why) as string,
  });
});

test("reads the file for each pod", async () => {
  const source = { source: "/net.d", confDir: "/net.d" };
  await files.writeAtomic("/net.d/01-new.conflist", JSON.stringify(list("new")));
  expect(await readDefaultNetwork(files, source)).toMatchObject({ name: "new" });
  await files.remove("/net.d/01-new.conflist");
  expect(await readDefaultNetwork(files, source)).toMatchObject({ name: "cbr0" });
});
