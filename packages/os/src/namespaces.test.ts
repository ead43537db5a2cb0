// SPDX-License-Identifier: Apache-2.0
import { statSync } from "node:fs";
import { expect, test } from "vitest";
import { createNamespaces, readOwnNetnsInode } from "./namespaces.ts";

test("a namespace is opened with its inode", () => {
  const own = createNamespaces().open("/proc/self/ns/net");
  expect(own?.inode).toBe(String(statSync("/proc/self/ns/net").ino));
  own?.close();
});

test("a process can tell the namespace that it is in", () => {
  expect(readOwnNetnsInode()).toBe(String(statSync("/proc/self/ns/net").ino));
});

test.each(["/proc/self/ns/none", "/etc/hostname"])("%s is no namespace", (path) => {
  expect(createNamespaces().open(path)).toBeUndefined();
});
