// SPDX-License-Identifier: Apache-2.0
import { closeSync, existsSync, fstatSync, mkdtempSync, openSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import type { ChildProcessHandle } from "@patchbay/core/interfaces";
import { describeChildStarterContract } from "@patchbay/os/testing";
import { afterEach, describe, expect, onTestFinished, test } from "vitest";
import { createChildStarter } from "./child.ts";

/** Answers `inode` (of the descriptor with token 7) and `exit`; anything else is sent back. */
const module = `data:text/javascript,${encodeURIComponent(`
  import { fstatSync } from "node:fs";
  export function main(channel) {
    channel.onMessage((message) => {
      if (message === "inode") channel.send(fstatSync(channel.claimDescriptor(7).fd).ino);
      else if (message === "exit") process.exit(3);
      else channel.send(message);
    });
  }`)}`;
/** Says two things at once, and leaves a file when it has. */
const hasty = `data:text/javascript,${encodeURIComponent(`
  import { writeFileSync } from "node:fs";
  export function main(channel) {
    channel.send("one");
    channel.send("two");
    writeFileSync(process.env.SAID, "");
  }`)}`;
const children: ChildProcessHandle[] = [];

async function startChild(): Promise<ChildProcessHandle> {
  const child = await createChildStarter().start({ module, env: {}, readyTimeoutMs: 20_000 });
  children.push(child);
  return child;
}

function nextMessage(child: ChildProcessHandle): Promise<unknown> {
  const { promise, resolve } = Promise.withResolvers<unknown>();
  child.onMessage(resolve);
  return promise;
}

afterEach(async () => {
  for (const child of children.splice(0)) {
    child.kill();
    await child.ended;
  }
});

const echo = `data:text/javascript,${encodeURIComponent(`
  export function main(channel) {
    channel.send("begun");
    channel.onMessage((message) => channel.send(message));
  }`)}`;

describeChildStarterContract("processes", () => ({ starter: createChildStarter(), echo }));

describe("ChildStarter", () => {
  test("sends large messages both ways", async () => {
    const child = await startChild();
    const text = "ä\n".repeat(500_000);
    child.send({ text });
    expect(await nextMessage(child)).toEqual({ text });
  });

  test("messages read together with the ready message are delivered to the later listener", async () => {
    const directory = mkdtempSync(join(tmpdir(), "patchbay-child-"));
    onTestFinished(() => {
      rmSync(directory, { recursive: true });
    });
    const outputPath = join(directory, "said");
    const starting = createChildStarter().start({
      module: hasty,
      env: { SAID: outputPath },
      readyTimeoutMs: 20_000,
    });
    // Nothing is read before the child has said that it is ready, and all that follows.
    const deadline = performance.now() + 20_000;
    while (!existsSync(outputPath) && performance.now() < deadline);
    const child = await starting;
    children.push(child);
    const received: unknown[][] = [[], []];
    const { promise: both, resolve } = Promise.withResolvers<undefined>();
    child.onMessage((message) => {
      received[0]?.push(message);
      child.onMessage((next) => {
        received[1]?.push(next);
        resolve(undefined);
      });
    });
    await both;
    expect(received).toEqual([["one"], ["two"]]);
  });

  test("a descriptor arrives with its token", async () => {
    const child = await startChild();
    const fd = openSync(import.meta.filename, "r");
    child.sendDescriptor(fd, 7);
    const { ino } = fstatSync(fd);
    closeSync(fd);
    child.send("inode");
    expect(await nextMessage(child)).toBe(ino);
  });

  test("reports the end of a child with its reason", async () => {
    const child = await startChild();
    child.send("exit");
    expect(await child.ended).toBe("exit code 3");
  });

  test("sends no descriptor to an ended child, even if its socket's number was reused", async () => {
    const child = await startChild();
    child.kill();
    await child.ended;
    const fd = openSync(import.meta.filename, "r");
    expect(() => {
      child.sendDescriptor(fd, 7);
    }).toThrow(/the other end is gone/);
    closeSync(fd);
  });

  test("rejects a module that cannot be loaded, with its output", async () => {
    const start = createChildStarter().start({
      module: "file:///nonexistent/module.js",
      env: {},
      readyTimeoutMs: 20_000,
    });
    await expect(start).rejects.toMatchObject({
      code: "OS_PROGRAM_FAILED",
      message: expect.stringContaining("/nonexistent/module.js") as string,
    });
  });

  test("kills a child that is not ready in time", async () => {
    const start = createChildStarter().start({ module, env: {}, readyTimeoutMs: 1 });
    await expect(start).rejects.toMatchObject({ code: "OS_TIMED_OUT" });
  });
});
