// SPDX-License-Identifier: Apache-2.0
import { createFakeClock, createFakeLogger } from "@patchbay/ports/testing";
import { expect, test } from "vitest";
import { renewDaily, renewOnce, type Outdated } from "./renewal.ts";

const DAY_MS = 24 * 3_600_000;

function setUp(newestMs: () => number) {
  const clock = createFakeClock();
  const calls: string[] = [];
  const started: Record<string, number | undefined> = {
    apiserver: 10,
    "virt-api": 30,
    away: undefined,
  };
  const services = (): readonly Outdated[] =>
    Object.keys(started).map((name) => ({
      name,
      startedAtMs: () => Promise.resolve(started[name]),
      restart: () => {
        calls.push(name);
        started[name] = newestMs() + 1;
        return Promise.resolve();
      },
    }));
  const announce = (): Promise<void> => {
    calls.push("announce");
    return Promise.resolve();
  };
  const renew = (): Promise<number> => Promise.resolve().then(newestMs);
  return { deps: { clock, log: createFakeLogger(), renew, services, announce }, calls };
}

test("whoever was started before the newest certificate is started again, in order, and nobody else", async () => {
  const { deps, calls } = setUp(() => 20);
  await renewOnce(deps);
  expect(calls).toEqual(["apiserver", "announce"]);
  await renewOnce(deps);
  expect(calls).toEqual(["apiserver", "announce"]);
});

test("it is looked at once, and once a day; a look that fails is told, and the next day tries again", async () => {
  let days = 0;
  const { deps, calls } = setUp(() => {
    days += 1;
    if (days === 2) throw new Error("the disk is full");
    return 0;
  });
  const ending = new AbortController();
  const done = renewDaily(deps, ending.signal);
  for (let day = 1; day <= 4; day += 1) {
    await expect.poll(() => days).toBe(day);
    if (day < 4) await deps.clock.advance(DAY_MS);
  }
  expect(deps.log.lines.map(({ fields }) => fields["reason"])).toEqual(["the disk is full"]);
  expect(calls).toEqual([]);
  ending.abort(new Error("over"));
  await done;
});
