// SPDX-License-Identifier: Apache-2.0
import { createFakeFrameWatch, createFakeLinkWatch } from "../fakes/link-watch.ts";
import { describeFrameWatchContract, describeLinkWatchContract } from "./link-watch.ts";

describeLinkWatchContract("in memory", () => {
  const links = createFakeLinkWatch();
  const indices = new Map([["one", 11]]);
  const emit = (inode: string, name: string): void => {
    links.emit(inode, { index: indices.get(name) ?? 0, name });
  };
  return Promise.resolve({
    links,
    netns: { fd: -1, inode: "1" },
    other: { fd: -1, inode: "2" },
    add: ({ inode }, { name, index }) => {
      indices.set(name, index);
      emit(inode, name);
    },
    setMtu: ({ inode }, name) => {
      emit(inode, name);
    },
    remove: ({ inode }, name) => {
      emit(inode, name);
    },
    close: () => Promise.resolve(),
  });
});

describeFrameWatchContract("in memory", () => {
  const frames = createFakeFrameWatch();
  const netns = { fd: -1, inode: "1" };
  return Promise.resolve({
    frames,
    netns,
    send: (link, frame) => {
      frames.emit(netns, link, frame);
      return Promise.resolve();
    },
    remove: (link) => {
      frames.setMissing(link, true);
    },
    close: () => Promise.resolve(),
  });
});
