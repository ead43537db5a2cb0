// SPDX-License-Identifier: Apache-2.0
// The kernel reports selected frames of a link.
import { buildAnnouncementFilter } from "@patchbay/core/guest";
import { createFrameWatch, createNetlink } from "@patchbay/os";
import type { NetnsHandle, WatchedFrame } from "@patchbay/core/interfaces";
import { describeFrameWatchContract } from "@patchbay/podnet/testing";
import { run } from "@patchbay/support";
import { expect, onTestFinished, test } from "vitest";
import { Namespaces } from "./links.ts";

const netlink = createNetlink();

/** A namespace with links whose peers are in another namespace. */
class Pairs {
  readonly #namespaces = new Namespaces();
  readonly #pod = this.#namespaces.add("pod");
  readonly #guest = this.#namespaces.add("guest");
  readonly netns: NetnsHandle = this.#namespaces.open(this.#pod);
  readonly #peers: NetnsHandle = this.#namespaces.open(this.#guest);

  add(link: string): void {
    const peer = ["peer", "name", link, "netns", this.#guest];
    run("ip", "-n", this.#pod, "link", "add", link, "type", "veth", ...peer);
    for (const name of [this.#pod, this.#guest]) run("ip", "-n", name, "link", "set", link, "up");
  }

  async send(link: string, { isOutgoing, frame }: WatchedFrame): Promise<void> {
    await netlink.sendFrames(isOutgoing ? this.netns : this.#peers, link, [frame]);
  }

  remove(link: string): void {
    run("ip", "-n", this.#pod, "link", "del", link);
  }

  close(): Promise<void> {
    this.#namespaces.close();
    return Promise.resolve();
  }
}

describeFrameWatchContract("on the kernel", () => {
  const pairs = new Pairs();
  for (const link of ["one", "two"]) pairs.add(link);
  return Promise.resolve({
    frames: createFrameWatch(),
    netns: pairs.netns,
    send: (link, frame) => pairs.send(link, frame),
    remove: (link) => {
      pairs.remove(link);
    },
    close: () => pairs.close(),
  });
});

test("the kernel accepts the filter of a NIC with eight IPv6 addresses, also as a replacement", () => {
  const pairs = new Pairs();
  const stop = new AbortController();
  onTestFinished(async () => {
    stop.abort();
    await pairs.close();
  });
  pairs.add("one");
  const addresses = Array.from({ length: 8 }, (_none, index) => `fd00::${String(index)}`);
  const filter = buildAnnouncementFilter("02:00:00:00:00:01", addresses);
  const link = { netns: pairs.netns, name: "one", filter };
  const watched = createFrameWatch().watch(link, () => undefined, stop.signal);
  expect(() => {
    watched.setFilter(filter);
  }).not.toThrow();
});
