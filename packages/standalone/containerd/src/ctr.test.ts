// SPDX-License-Identifier: Apache-2.0
import { createFakeClock, createFakeProcessRunner, settle } from "@patchbay/os/testing";
import { expect, test } from "vitest";
import { ctr, waitUntilServing } from "./ctr.ts";

const layout = { socket: "/s" };
const REFUSED = {
  exitCode: 1,
  stderr: 'ctr: failed to dial "/s": connect: connection refused\n',
};

test("a call speaks to that socket in the namespace of CRI, and fails in ctr's words", async () => {
  const runner = createFakeProcessRunner({ ctr: () => REFUSED });
  await expect(ctr({ runner, layout }, ["images", "ls"])).rejects.toThrow(
    'containerd failed at images ls: failed to dial "/s": connect: connection refused',
  );
  expect(runner.commands[0]?.argv).toEqual([
    "ctr",
    "--address",
    "/s",
    "--namespace",
    "k8s.io",
    "images",
    "ls",
  ]);
});

test("a socket at which nobody listens yet is asked again", async () => {
  const clock = createFakeClock();
  let asked = 0;
  const runner = createFakeProcessRunner({
    ctr: () => {
      asked += 1;
      return asked < 3 ? REFUSED : {};
    },
  });
  const waiting = waitUntilServing({ runner, layout, clock }, 1000);
  await settle();
  await clock.advance(50);
  await clock.advance(50);
  await waiting;
  expect(asked).toBe(3);
});

test("one that is never listened at is given up in time, with the reason", async () => {
  const clock = createFakeClock();
  const runner = createFakeProcessRunner({ ctr: () => REFUSED });
  const waiting = waitUntilServing({ runner, layout, clock }, 1000).catch(String);
  await clock.advance(1100);
  expect(await waiting).toContain("failed at start: failed to dial");
});
