// SPDX-License-Identifier: Apache-2.0
import { statSync } from "node:fs";
import { describeNamespacesContract } from "@patchbay/ports/testing";
import { expect, test } from "vitest";
import { createNamespaces, readOwnNetnsInode } from "./namespaces.ts";

describeNamespacesContract("the kernel", () => ({
  namespaces: createNamespaces(),
  path: "/proc/self/ns/net",
  inode: String(statSync("/proc/self/ns/net").ino),
  emptyPath: "/proc/self/ns/none",
}));

test("a process can tell the namespace that it is in", () => {
  expect(readOwnNetnsInode()).toBe(String(statSync("/proc/self/ns/net").ino));
});

test("a plain file is no namespace", () => {
  expect(createNamespaces().open("/etc/hostname")).toBeUndefined();
});
