// SPDX-License-Identifier: Apache-2.0
// Link counters equal the kernel's, whatever the namespace of this process.
import { readFileSync } from "node:fs";
import { createLinkCounters } from "@patchbay/os";
import type { NetnsHandle } from "@patchbay/core/interfaces";
import { describeLinkCountersContract } from "@patchbay/podnet/testing";
import { run } from "@patchbay/support";
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { Namespaces } from "./links.ts";

/** Header bytes of a datagram: Ethernet, IPv4 and UDP. */
const HEADERS = 14 + 20 + 8;

/** `one` is a veth whose peer in the same namespace receives its frames. */
function addPair(name: string): void {
  const ip = (...words: readonly string[]): void => {
    run("ip", "-n", name, ...words);
  };
  ip("link", "add", "one", "type", "veth", "peer", "name", "two");
  for (const link of ["one", "two"]) ip("link", "set", link, "addrgenmode", "none");
  ip("addr", "add", "10.9.9.1/24", "dev", "one");
  ip("link", "set", "two", "up");
  ip("link", "set", "one", "up");
  // A static neighbor entry avoids ARP.
  ip("neigh", "add", "10.9.9.2", "lladdr", "02:00:00:00:00:99", "dev", "one", "nud", "permanent");
}

describeLinkCountersContract("of the kernel", () => {
  const namespaces = new Namespaces();
  const names = new Map<NetnsHandle, string>();
  const open = (role: string): NetnsHandle => {
    const name = namespaces.add(role);
    addPair(name);
    const netns = namespaces.open(name);
    names.set(netns, name);
    return netns;
  };
  return Promise.resolve({
    counters: createLinkCounters(),
    netns: open("counted"),
    other: open("silent"),
    closed: { fd: 987_654, inode: "0" },
    send: (netns, packets, bytes) => {
      const size = String(bytes / packets - HEADERS);
      const send = `printf %0${size}d 0 > /dev/udp/10.9.9.2/9`;
      const text = `for turn in $(seq ${String(packets)}); do ${send}; done`;
      run("ip", "netns", "exec", names.get(netns) ?? "", "bash", "-c", text);
    },
    close: () => {
      namespaces.close();
      return Promise.resolve();
    },
  });
});

describe("a reading", () => {
  const namespaces = new Namespaces();
  let netns: NetnsHandle;

  beforeAll(() => {
    const name = namespaces.add("pod");
    addPair(name);
    netns = namespaces.open(name);
  });
  afterAll(() => {
    namespaces.close();
  });

  test("leaves every thread of this process in its namespace", async () => {
    const before = readFileSync("/proc/self/net/dev", "utf8").includes(" one:");
    await Promise.all(Array.from({ length: 64 }, () => createLinkCounters().read(netns)));
    expect(before).toBe(false);
    expect(readFileSync("/proc/self/net/dev", "utf8")).not.toContain(" one:");
  });

  test("lists every link, also in 200 concurrent readings", async () => {
    const counters = createLinkCounters();
    const all = await Promise.all(Array.from({ length: 200 }, () => counters.read(netns)));
    expect(all.map((links) => links.length)).toEqual(Array(200).fill(3));
  });
});
