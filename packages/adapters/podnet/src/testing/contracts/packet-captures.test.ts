// SPDX-License-Identifier: Apache-2.0
import { createFakePacketCaptures } from "../fakes/packet-captures.ts";
import { CAPTURED_LINK, describePacketCapturesContract } from "./packet-captures.ts";

describePacketCapturesContract("fake", () => {
  const captures = createFakePacketCaptures([CAPTURED_LINK]);
  return Promise.resolve({
    captures,
    netns: { fd: 8, inode: "42" },
    pass: () => captures.pass(CAPTURED_LINK, new Uint8Array(60)),
    kill: () => {
      captures.kill();
      return Promise.resolve();
    },
    close: () => Promise.resolve(),
  });
});
