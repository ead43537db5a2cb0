// SPDX-License-Identifier: Apache-2.0
import { createFakeFiles, describeSandboxesContract } from "@patchbay/ports/testing";
import { expect, test } from "vitest";
import { createNodeRuntimeSandboxes } from "./node-runtime-sandboxes.ts";

const OLD = { id: "box", podUid: "uid-1", netnsPath: "/run/netns/box", netnsInode: "402" };
const SANDBOX = { ...OLD, pod: { namespace: "ns1", name: "pod" } };

describeSandboxesContract("what the node runtime writes", () => {
  const files = createFakeFiles();
  return {
    sandboxes: createNodeRuntimeSandboxes(files, "/pods"),
    put: (sandbox) =>
      files.writeAtomic(`/pods/${sandbox.podUid}/sandbox.json`, JSON.stringify(sandbox)),
    take: (podUid) => files.remove(`/pods/${podUid}`),
  };
});

test.each([
  { name: "as the runtime wrote it", text: JSON.stringify(SANDBOX), want: SANDBOX },
  { name: "as an older runtime wrote it", text: JSON.stringify(OLD), want: OLD },
  ...["id", "netnsPath", "netnsInode"].map((key) => ({
    name: `none without ${key}`,
    text: JSON.stringify({ ...SANDBOX, [key]: undefined }),
    want: undefined,
  })),
  { name: "none that is a list", text: "[]", want: undefined },
  {
    name: "none whose pod has no name",
    text: JSON.stringify({ ...OLD, pod: { namespace: "ns1" } }),
    want: undefined,
  },
  { name: "none before it is written", text: undefined, want: undefined },
  { name: "none that is cut short", text: '{"id":', want: undefined },
  {
    name: "none of another pod",
    text: JSON.stringify({ ...SANDBOX, podUid: "uid-2" }),
    want: undefined,
  },
])("the sandbox is found: $name", async ({ text, want }) => {
  const files = createFakeFiles();
  await files.writeAtomic("/pods/uid-1/sandbox.json", text ?? "");
  expect(await createNodeRuntimeSandboxes(files, "/pods").find("uid-1")).toEqual(want);
});

test.each(["../uid-1", "uid-1/.", "-uid-1", ""])("%j is no uid of a pod", async (podUid) => {
  const files = createFakeFiles();
  await files.writeAtomic(`/pods/${podUid}/sandbox.json`, JSON.stringify({ ...SANDBOX, podUid }));
  expect(await createNodeRuntimeSandboxes(files, "/pods").find(podUid)).toBeUndefined();
});
