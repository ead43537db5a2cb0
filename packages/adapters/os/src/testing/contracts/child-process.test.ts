// SPDX-License-Identifier: Apache-2.0
// The fake of children keeps the contract.
import { expect, test } from "vitest";
import type { ChildMain } from "@patchbay/core/interfaces";
import { createFakeChildStarter } from "../fakes/child-process.ts";
import { describeChildStarterContract } from "./child-process.ts";

const echo: ChildMain = (channel) => {
  channel.send("begun");
  channel.onMessage((message) => {
    channel.send(message);
  });
};

describeChildStarterContract("fake", () => ({
  starter: createFakeChildStarter({ "file:///echo.js": echo }),
  echo: "file:///echo.js",
}));

test("a descriptor arrives with its token, once", async () => {
  const descriptors: number[] = [];
  const main: ChildMain = (channel) => {
    channel.onMessage(() => {
      descriptors.push(channel.claimDescriptor(7).fd);
    });
  };
  const starter = createFakeChildStarter({ "file:///taker.js": main });
  const child = await starter.start({ module: "file:///taker.js", env: {}, readyTimeoutMs: 1 });
  child.sendDescriptor(42, 7);
  child.send("take");
  await Promise.resolve();
  expect(descriptors).toEqual([42]);
  expect(starter.children).toEqual([child]);
});
