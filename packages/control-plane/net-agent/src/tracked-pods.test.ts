// SPDX-License-Identifier: Apache-2.0
import { createJournal } from "@patchbay/cni";
import { createFakeFiles } from "@patchbay/os/testing";
import { createSilentLogger } from "@patchbay/telemetry";
import { expect, test } from "vitest";
import { loadTrackedPods } from "./tracked-pods.ts";

const ROW = {
  podNamespace: "ns1",
  network: "ns1/blue",
  netnsInode: "1",
  bootId: "b",
  sequence: 1,
  state: "attached" as const,
  request: {
    containerId: "box",
    interfaceName: "net1",
    args: [],
    capabilityArgs: {},
    config: { cniVersion: "1.0.0", name: "blue", plugins: [{ type: "bridge" }] },
  },
};

test("loads the journal's pods by key; an unreadable one is logged and hides no other", async () => {
  const files = createFakeFiles();
  const journal = createJournal(files, "/j");
  for (const podUid of ["uid-2", "uid-1"]) await journal.write({ ...ROW, podUid, podName: "pod" });
  await journal.write({ ...ROW, podUid: "uid-3", podName: "another" });
  await files.writeAtomic("/j/uid-0/box.net1.json", "{");
  const errors: unknown[] = [];
  const log = {
    ...createSilentLogger(),
    error: (_message: string, fields?: Readonly<Record<string, unknown>>) => errors.push(fields),
  };
  const trackedPods = await loadTrackedPods(journal, log);
  expect(trackedPods.keys()).toEqual(["ns1/another", "ns1/pod"]);
  expect(trackedPods.listUids("ns1/pod")).toEqual(["uid-1", "uid-2"]);
  expect(errors).toEqual([
    { uid: "uid-0", reason: expect.stringContaining("/j/uid-0/") as string },
  ]);
});

test("forgets a key with its last pod", async () => {
  const trackedPods = await loadTrackedPods(
    createJournal(createFakeFiles(), "/j"),
    createSilentLogger(),
  );
  trackedPods.add("ns1/pod", "uid-2");
  trackedPods.add("ns1/pod", "uid-1");
  trackedPods.remove("ns1/pod", "uid-2");
  trackedPods.remove("ns1/other", "uid-2");
  expect(trackedPods.listUids("ns1/pod")).toEqual(["uid-1"]);
  trackedPods.remove("ns1/pod", "uid-1");
  expect(trackedPods.keys()).toEqual([]);
  expect(trackedPods.listUids("ns1/pod")).toEqual([]);
});
