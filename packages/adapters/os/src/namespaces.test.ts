// SPDX-License-Identifier: Apache-2.0
import { fstatSync, readdirSync, statSync } from "node:fs";
import { describeNamespacesContract } from "@patchbay/os/testing";
import { expect, test } from "vitest";
import { createNamespaces, listListeningPorts, readNetnsInode } from "./namespaces.ts";

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

test("lists the ports of listening sockets", async () => {
  const header = "  sl  local_address rem_address   st tx_queue\n";
  const row = (local: string, state: string): string =>
    `   0: ${local} 00000000:0000 ${state} 00000000:00000000\n`;
  const [any6, loopback6] = ["0".repeat(32), `${"0".repeat(24)}01000000`];
  const mapped = `${"0".repeat(16)}FFFF00000100007F`;
  const texts: Readonly<Record<string, string>> = {
    "/proc/7/net/tcp": `${header}${row("0100007F:192B", "0A")}${row("0102007F:0016", "01")}${row("7F000A0A:1F91", "0A")}`,
    "/proc/7/net/tcp6": `${header}${row(`${any6}:1F90`, "0A")}${row(`${loopback6}:1F92`, "0A")}${row(`${mapped}:1F93`, "0A")}`,
    "/proc/7/net/udp": `${header}${row("00000000:0035", "07")}${row("00000000:0036", "01")}`,
  };
  const files = { readText: (path: string) => Promise.resolve(texts[path]) };
  expect(await listListeningPorts(files, "/proc/7/net")).toEqual([
    { protocol: "tcp", port: 0x192b, isLoopback: true },
    { protocol: "tcp", port: 0x1f91, isLoopback: false },
    { protocol: "tcp", port: 0x1f90, isLoopback: false },
    { protocol: "tcp", port: 0x1f92, isLoopback: true },
    { protocol: "tcp", port: 0x1f93, isLoopback: true },
    { protocol: "udp", port: 0x35, isLoopback: false },
  ]);
  expect(await listListeningPorts(files, "/proc/8/net")).toBeUndefined();
});
