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

test("a process can tell the namespace that it is in, and that of another one", () => {
  const own = String(statSync("/proc/self/ns/net").ino);
  expect(readNetnsInode()).toBe(own);
  expect(readNetnsInode(process.pid)).toBe(own);
});

test("a process that is not there is told", () => {
  expect(() => readNetnsInode(2 ** 30)).toThrow("/proc/1073741824/ns/net");
});

test("a plain file is no namespace", () => {
  expect(createNamespaces().open("/etc/hostname")).toBeUndefined();
});

test("a path that the kernel does not take is an error", () => {
  expect(() => createNamespaces().open("/a".repeat(3000))).toThrow(
    expect.objectContaining({ code: "OS_FILE_FAILED" }) as Error,
  );
});

test("nothing stays open of a plain file and of a namespace that is closed", () => {
  const before = readdirSync("/proc/self/fd");
  createNamespaces().open("/etc/hostname");
  const netns = createNamespaces().open("/proc/self/ns/net");
  expect(netns === undefined ? undefined : fstatSync(netns.fd).isFile()).toBe(true);
  netns?.close();
  expect(readdirSync("/proc/self/fd")).toEqual(before);
});
