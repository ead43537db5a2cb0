// SPDX-License-Identifier: Apache-2.0
// Contract of ChildStarter, for the fake and for real processes.

import { afterEach, beforeEach, describe, expect, test } from "vitest";
import type { ChildProcessHandle, ChildStarter } from "@patchbay/core/interfaces";

/** Starter of children and their module. */
export interface ChildStarterBench {
  readonly starter: ChildStarter;
  /** URL of a module that sends `begun` at once, and echoes each message. */
  readonly echo: string;
}

const MAX_BYTES = 8 * 1024 * 1024;

function nextMessage(child: ChildProcessHandle): Promise<unknown> {
  const { promise, resolve } = Promise.withResolvers<unknown>();
  child.onMessage(resolve);
  return promise;
}

/** Defines the contract's tests. Each test makes a new bench. */
export function describeChildStarterContract(name: string, make: () => ChildStarterBench): void {
  describe(`ChildStarter: ${name}`, { timeout: 20_000 }, () => {
    let bench: ChildStarterBench;
    let child: ChildProcessHandle;
    const start = (module: string): Promise<ChildProcessHandle> =>
      bench.starter.start({ module, env: {}, readyTimeoutMs: 20_000 });
    beforeEach(async () => {
      bench = make();
      child = await start(bench.echo);
    });
    afterEach(async () => {
      child.kill();
      await child.ended;
    });

    test("retains messages that the child sent before a listener was added", async () => {
      expect(await nextMessage(child)).toBe("begun");
    });

    test("sends messages both ways in order, as JSON", async () => {
      const received: unknown[] = [];
      const { promise: all, resolve } = Promise.withResolvers<undefined>();
      child.onMessage((message) => {
        received.push(message);
        if (received.length === 4) resolve(undefined);
      });
      for (const message of [{ text: "ä\n" }, [1, null], "last"]) child.send(message);
      await all;
      expect(received).toEqual(["begun", { text: "ä\n" }, [1, null], "last"]);
    });

    test("rejects a message that is too long, and the child survives", async () => {
      expect(await nextMessage(child)).toBe("begun");
      expect(() => {
        child.send("x".repeat(MAX_BYTES));
      }).toThrow(expect.objectContaining({ code: "OS_MESSAGE_TOO_LONG" }) as Error);
      child.send("still there");
      expect(await nextMessage(child)).toBe("still there");
    });

    test("a descriptor that was not sent cannot be claimed", () => {
      expect(() => child.claimDescriptor(7)).toThrow(
        expect.objectContaining({ code: "OS_FILE_FAILED" }) as Error,
      );
    });

    test("a killed child has ended and receives no more descriptors", async () => {
      child.kill();
      expect(await child.ended).toBe("SIGKILL");
      expect(() => {
        child.sendDescriptor(0, 7);
      }).toThrow(expect.objectContaining({ code: "OS_FILE_FAILED" }) as Error);
    });

    test("rejects a module that cannot be loaded", async () => {
      await expect(start("file:///nonexistent/module.js")).rejects.toMatchObject({
        code: "OS_PROGRAM_FAILED",
        details: { program: "file:///nonexistent/module.js" },
      });
    });
  });
}
