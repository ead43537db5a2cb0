// SPDX-License-Identifier: Apache-2.0
// tcpdump captures a link's packets as an unprivileged user and ends with its client.
import { readFileSync } from "node:fs";
import { createProcessRunner } from "@patchbay/os";
import { createPacketCaptures } from "@patchbay/podnet";
import { CAPTURED_LINK, describePacketCapturesContract } from "@patchbay/podnet/testing";
import { eventually, run } from "@patchbay/support";
import { expect, test } from "vitest";
import { Namespaces, PREFIX } from "./links.ts";

const processFamily = `${PREFIX}-capture`;
const captures = createPacketCaptures({ runner: createProcessRunner(), processFamily });

/** Pids of this test's captures. */
function pids(): readonly string[] {
  const all = run("sh", "-c", "pidof tcpdump || true").trim().split(" ");
  return all.filter((pid) => {
    try {
      return readFileSync(`/proc/${pid}/environ`, "latin1").includes(processFamily);
    } catch {
      return false;
    }
  });
}

/** A pod with a link, whose peer is in its own namespace. */
function makePod(namespaces: Namespaces): string {
  const [pod, guest] = [namespaces.add("cap"), namespaces.add("capg")];
  const peer = ["peer", "name", "eth0", "netns", guest];
  run("ip", "-n", pod, "link", "add", CAPTURED_LINK, "type", "veth", ...peer);
  for (const [netns, link, address] of [
    [pod, CAPTURED_LINK, "10.9.3.1/24"],
    [guest, "eth0", "10.9.3.2/24"],
  ] as const) {
    run("ip", "-n", netns, "addr", "add", address, "dev", link);
    run("ip", "-n", netns, "link", "set", link, "up");
  }
  return pod;
}

describePacketCapturesContract("tcpdump", () => {
  const namespaces = new Namespaces();
  const pod = makePod(namespaces);
  return Promise.resolve({
    captures,
    netns: namespaces.open(pod),
    pass: () => {
      run("ip", "netns", "exec", pod, "busybox", "ping", "-c", "1", "-W", "10", "10.9.3.2");
      return Promise.resolve();
    },
    kill: () => {
      for (const pid of pids()) process.kill(Number(pid), "SIGKILL");
      return Promise.resolve();
    },
    close: async () => {
      await captures.killLeftovers();
      namespaces.close();
    },
  });
});

test("the process that parses a tenant's filter may only open packet sockets", async () => {
  const namespaces = new Namespaces();
  try {
    const netns = namespaces.open(makePod(namespaces));
    const what = { link: CAPTURED_LINK, filter: "" };
    const capture = await captures.start(netns, what, () => undefined);
    const [pid = ""] = await eventually(() => (pids().length > 0 ? pids() : undefined), {
      withinMs: 10_000,
    });
    const status = readFileSync(`/proc/${pid}/status`, "utf8");
    expect(status).toMatch(/^Uid:\t1610612736\t1610612736\t/m);
    // CAP_NET_RAW is the 13th. Source: linux/capability.h
    for (const set of ["CapEff", "CapBnd"]) {
      expect(status).toMatch(new RegExp(`^${set}:\t0000000000002000$`, "m"));
    }
    expect(status).toMatch(/^NoNewPrivs:\t1$/m);
    await capture.stop();
    expect(pids()).toEqual([]);
  } finally {
    namespaces.close();
  }
});
