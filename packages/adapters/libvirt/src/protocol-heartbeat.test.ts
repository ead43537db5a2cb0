// SPDX-License-Identifier: Apache-2.0
import type { Clock } from "@patchbay/base";
import { beforeEach, describe, expect, test } from "vitest";
import { startHeartbeat, type Heartbeat } from "./protocol.ts";

let probes = 0;
let silences: string[] = [];
let pass: () => void = () => undefined;
let end = new AbortController();

const clock: Clock = {
  now: () => 0,
  monotonicMs: () => 0,
  sleep: (_ms, signal) => {
    const { promise, resolve, reject } = Promise.withResolvers<undefined>();
    pass = () => {
      resolve(undefined);
    };
    signal.addEventListener("abort", () => {
      reject(new Error("aborted"));
    });
    return promise;
  },
};

function watch(): Heartbeat {
  return startHeartbeat({
    clock,
    beatMs: 1000,
    signal: end.signal,
    send: () => {
      probes += 1;
    },
    onSilent: (reason) => {
      silences.push(reason);
    },
  });
}

/** One beat later. */
async function beat(): Promise<void> {
  pass();
  await new Promise((resolve) => {
    setImmediate(resolve);
  });
}

beforeEach(() => {
  probes = 0;
  silences = [];
  end = new AbortController();
});

describe("the heartbeat of a child", () => {
  test("is requested again after each response", async () => {
    const heart = watch();
    for (let round = 1; round <= 5; round += 1) {
      expect(probes).toBe(round);
      heart.accept({ kind: "beat", eventLoopAgeMs: 1000 });
      await beat();
    }
    expect(silences).toEqual([]);
  });

  test("may be missed once, not twice", async () => {
    const heart = watch();
    await beat();
    heart.accept({ kind: "beat", eventLoopAgeMs: 0 });
    await beat();
    await beat();
    expect(silences).toEqual([]);
    await beat();
    expect(silences).toEqual(["it no longer answers"]);
    expect(probes).toBe(4);
  });

  test("counts as missed when the child's libvirt event loop is stuck", async () => {
    const heart = watch();
    heart.accept({ kind: "beat", eventLoopAgeMs: 1001 });
    await beat();
    expect(silences).toEqual(["its libvirt event loop is stuck"]);
  });

  test("is no longer requested after the child ended", async () => {
    watch();
    end.abort();
    await beat();
    expect([probes, silences]).toEqual([1, []]);
  });
});
