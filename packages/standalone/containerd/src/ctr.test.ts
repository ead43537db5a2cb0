// SPDX-License-Identifier: Apache-2.0
import { createFakeClock, createFakeProcessRunner, settle } from "@patchbay/os/testing";
import { expect, test } from "vitest";
import { ctr, waitUntilServing } from "./ctr.ts";

const layout = { socket: "/s" };
const REFUSED = {
  exitCode: 1,
  stderr: 'ctr: failed to dial "/s": connect: connection refused\n',
};

test("calls the socket in the CRI namespace, and reports ctr's error", async () => {
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

test("retries a socket without a listener", async () => {
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

test("reports a socket that never gets a listener after a timeout, with the reason", async () => {
  const clock = createFakeClock();
  const runner = createFakeProcessRunner({ ctr: () => REFUSED });
  const waiting = waitUntilServing({ runner, layout, clock }, 1000).catch(String);
  await clock.advance(1100);
  expect(await waiting).toContain("failed at start: failed to dial");
});
