// SPDX-License-Identifier: Apache-2.0
import { createFakeClock } from "@patchbay/os/testing";
import { createFakeLogger } from "@patchbay/telemetry/testing";
import { expect, test } from "vitest";
import { Renewal, renewDaily, type RestartableService } from "./renewal.ts";

const RENEWAL_INTERVAL_MS = 24 * 3_600_000;
const UNTIL = new AbortController().signal;

/** A machine whose newest certificate holds since `newestMs`, milliseconds before now. */
function setUp(newestAgoMs: number) {
  const clock = createFakeClock();
  const now = clock.now();
  const machine = {
    calls: [] as string[],
    newestMs: now - newestAgoMs,
    looks: 0,
    /** What is to happen at a call, once. */
    faults: new Map<string, Error>(),
    started: { apiserver: now - 30, "virt-api": now - 10, away: undefined } as Record<
      string,
      number | undefined
    >,
  };
  const call = (name: string): Promise<void> => {
    machine.calls.push(name);
    const fault = machine.faults.get(name);
    machine.faults.delete(name);
    return fault === undefined ? Promise.resolve() : Promise.reject(fault);
  };
  const deps = {
    clock,
    log: createFakeLogger(),
    renew: (): Promise<void> => {
      machine.looks += 1;
      const fault = machine.faults.get("renew");
      machine.faults.delete("renew");
      return fault === undefined ? Promise.resolve() : Promise.reject(fault);
    },
    readNewestValidityStartMs: () => Promise.resolve(machine.newestMs),
    listServices: (): readonly RestartableService[] =>
      Object.keys(machine.started).map((name) => ({
        name,
        startedAtMs: () => Promise.resolve(machine.started[name]),
        restart: async () => {
          await call(name);
          machine.started[name] = clock.now();
        },
      })),
    announce: () => call("announce"),
  };
  return { deps, machine };
}

test("restarts only components that started before the newest certificate", async () => {
  const { deps, machine } = setUp(20);
  const renewal = new Renewal(deps);
  await renewal.renewAndRestart(UNTIL);
  await renewal.renewAndRestart(UNTIL);
  expect(machine.calls).toEqual(["apiserver", "announce"]);
});

test("restarts all running components after a renewal, although the certificate is backdated", async () => {
  const { deps, machine } = setUp(1000);
  const renew = async (): Promise<void> => {
    await deps.renew();
    machine.newestMs = deps.clock.now() - 300;
    await deps.clock.advance(1);
  };
  await new Renewal({ ...deps, renew }).renewAndRestart(UNTIL);
  expect(machine.calls).toEqual(["apiserver", "virt-api", "announce"]);
});

test("a component that fails to restart delays no other, and is retried", async () => {
  const { deps, machine } = setUp(0);
  machine.faults.set("apiserver", new Error("it died"));
  const renewal = new Renewal(deps);
  await expect(renewal.renewAndRestart(UNTIL)).rejects.toThrow("it died");
  await renewal.renewAndRestart(UNTIL);
  const first = ["apiserver", "virt-api", "announce"];
  expect(machine.calls).toEqual([...first, "apiserver", "announce"]);
});

test("retries a failed announcement at the next check", async () => {
  const { deps, machine } = setUp(20);
  machine.faults.set("announce", new Error("no answer"));
  const renewal = new Renewal(deps);
  await expect(renewal.renewAndRestart(UNTIL)).rejects.toThrow("no answer");
  await renewal.renewAndRestart(UNTIL);
  expect(machine.calls).toEqual(["apiserver", "announce", "announce"]);
});

test("starts nothing while the machine shuts down", async () => {
  const { deps, machine } = setUp(0);
  await new Renewal(deps).renewAndRestart(AbortSignal.abort());
  expect(machine.calls).toEqual([]);
});

test("checks at once and once a day, and logs a failed check", async () => {
  const { deps, machine } = setUp(RENEWAL_INTERVAL_MS);
  const ending = new AbortController();
  const done = renewDaily(deps, ending.signal);
  for (let day = 1; day <= 4; day += 1) {
    await expect.poll(() => deps.clock.dueMs).toHaveLength(1);
    expect(machine.looks).toBe(day);
    if (day === 1) machine.faults.set("renew", new Error("the disk is full"));
    if (day < 4) await deps.clock.advance(RENEWAL_INTERVAL_MS);
  }
  expect(deps.log.lines.map(({ fields }) => fields["reason"])).toEqual(["the disk is full"]);
  expect(machine.calls).toEqual([]);
  ending.abort(new Error("over"));
  await done;
});
