// SPDX-License-Identifier: Apache-2.0
import { createFakeClock } from "@patchbay/os/testing";
import { createSilentLogger } from "@patchbay/telemetry";
import type { LauncherPod } from "@patchbay/core/interfaces";
import { beforeEach, expect, test } from "vitest";
import { createGuestHooks, type GuestHooks } from "./guest-hooks.ts";

let guestHooks: GuestHooks;
/** Pods whose hooks are being called, and functions that let the calls fail. */
let running: Map<string, () => void>;

beforeEach(() => {
  running = new Map();
  guestHooks = createGuestHooks({
    clock: createFakeClock(),
    log: createSilentLogger(),
    hooks: {
      connect: ({ name }) => {
        const { promise, reject } = Promise.withResolvers<never>();
        running.set(name, () => {
          running.delete(name);
          reject(new Error("no"));
        });
        return promise;
      },
    },
  });
});

function notify(namespace: string, name: string): void {
  const pod: LauncherPod = { namespace, name, uid: `${namespace} ${name}` };
  guestHooks.onGuestEnd({ pod, sidecars: ["hook"] });
}

const settled = (): Promise<unknown> => new Promise((resolve) => setImmediate(resolve));

async function end(name: string): Promise<void> {
  running.get(name)?.();
  await settled();
}

test("calls hooks of two pods of a namespace at a time, without blocking other namespaces", async () => {
  for (const name of ["a", "b", "c", "d"]) notify("hostile", name);
  notify("other", "e");
  await settled();
  expect([...running.keys()]).toEqual(["a", "b", "e"]);
  await end("a");
  expect([...running.keys()]).toEqual(["b", "e", "c"]);
});

test("calls hooks of eight pods of the node at a time, and frees the place of a failed call", async () => {
  for (let index = 0; index < 9; index += 1) notify(String(index), `pod${String(index)}`);
  await settled();
  expect(running.size).toBe(8);
  await end("pod3");
  expect([running.size, running.has("pod8")]).toEqual([8, true]);
});
