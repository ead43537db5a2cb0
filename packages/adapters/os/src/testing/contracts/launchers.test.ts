// SPDX-License-Identifier: Apache-2.0
// The fake of launchers keeps the contract.
import { expect, test } from "vitest";
import { createFakeLaunchers } from "../fakes/launchers.ts";
import { describeLaunchersContract } from "./launchers.ts";

const POD = { uid: "uid-1", namespace: "default", name: "virt-launcher-vm1-abcde" };
const AT = { socketFd: 7, netns: { fd: 8, inode: "402" } };

describeLaunchersContract("fake", () => {
  const launchers = createFakeLaunchers();
  return Promise.resolve({
    launchers,
    pod: POD,
    start: () => {
      launchers.start(POD, AT);
      return Promise.resolve(AT.netns.inode);
    },
    kill: () => {
      launchers.kill(POD.uid);
      return Promise.resolve();
    },
    close: () => Promise.resolve(),
  });
});

test("the fake reports open launchers and watchers", async () => {
  const launchers = createFakeLaunchers();
  const abort = new AbortController();
  launchers.watch(POD, () => undefined, abort.signal);
  launchers.start(POD, AT);
  const launcher = await launchers.open(POD);
  expect([launchers.openCount, launchers.watchCount]).toEqual([1, 1]);
  launcher.close();
  abort.abort();
  expect([launchers.openCount, launchers.watchCount]).toEqual([0, 0]);
  launchers.take(POD.uid);
  await expect(launcher.ended).resolves.toBeUndefined();
  await expect(launchers.open(POD)).rejects.toMatchObject({ code: "LAUNCHER_UNREACHABLE" });
});
