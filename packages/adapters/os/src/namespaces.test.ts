// SPDX-License-Identifier: Apache-2.0
import { fstatSync, readdirSync, statSync } from "node:fs";
import { describeNamespacesContract } from "@patchbay/os/testing";
import { expect, test } from "vitest";
import { createNamespaces, readNetnsInode } from "./namespaces.ts";

describeNamespacesContract("the kernel", () => ({
  namespaces: createNamespaces(),
  path: "/proc/self/ns/net",
  inode: String(statSync("/proc/self/ns/net").ino),
  emptyPath: "/proc/self/ns/none",
}));

test("reads the inode of its own namespace and of another process's namespace", () => {
  const own = String(statSync("/proc/self/ns/net").ino);
  expect(readNetnsInode()).toBe(own);
  expect(readNetnsInode(process.pid)).toBe(own);
});

test("reports a missing process", () => {
  expect(() => readNetnsInode(2 ** 30)).toThrow("/proc/1073741824/ns/net");
});

test("does not open a plain file as a namespace", () => {
  expect(createNamespaces().open("/etc/hostname")).toBeUndefined();
});

test("fails for a path that the kernel rejects", () => {
  expect(() => createNamespaces().open("/a".repeat(3000))).toThrow(
    expect.objectContaining({ code: "OS_FILE_FAILED" }) as Error,
  );
});

test("leaves nothing open after a plain file and a closed namespace", () => {
  const before = readdirSync("/proc/self/fd");
  createNamespaces().open("/etc/hostname");
  const netns = createNamespaces().open("/proc/self/ns/net");
  expect(netns === undefined ? undefined : fstatSync(netns.fd).isFile()).toBe(true);
  netns?.close();
  expect(readdirSync("/proc/self/fd")).toEqual(before);
});
