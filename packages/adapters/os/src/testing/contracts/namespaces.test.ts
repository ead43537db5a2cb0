// SPDX-License-Identifier: Apache-2.0
// The fake of namespaces keeps the contract.
import { expect, test } from "vitest";
import { createFakeNamespaces } from "../fakes/namespaces.ts";
import { describeNamespacesContract } from "./namespaces.ts";

describeNamespacesContract("fake", () => {
  const namespaces = createFakeNamespaces();
  namespaces.put("/run/netns/box", "402");
  return { namespaces, path: "/run/netns/box", inode: "402", emptyPath: "/run/netns/none" };
});

test("the fake reports open namespaces, and loses those that the runtime removes", () => {
  const namespaces = createFakeNamespaces();
  namespaces.put("/run/netns/box", "402");
  const netns = namespaces.open("/run/netns/box");
  namespaces.take("/run/netns/box");
  expect(namespaces.open("/run/netns/box")).toBeUndefined();
  expect(namespaces.openCount).toBe(1);
  netns?.close();
  expect(namespaces.openCount).toBe(0);
});
