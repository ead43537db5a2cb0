// SPDX-License-Identifier: Apache-2.0
// The file of a served socket, while its process lives and afterwards.
import { once } from "node:events";
import { mkdtempSync, rmSync, statSync } from "node:fs";
import { createServer } from "node:net";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterEach, beforeEach, expect, test } from "vitest";
import { isSocketServed, publishSocket, touchFile } from "./unix-sockets.ts";

let directory: string;
beforeEach(() => {
  directory = mkdtempSync(join(tmpdir(), "socket-file-"));
});
afterEach(() => {
  rmSync(directory, { recursive: true });
});

test("a published socket responds, belongs to root, and its file remains when its server ends", async () => {
  const [made, path] = [join(directory, "made"), join(directory, "socket")];
  expect(await isSocketServed(path)).toBe(false);
  const server = createServer((socket) => socket.destroy());
  await once(server.listen(made), "listening");
  await publishSocket(made, path);
  expect(await isSocketServed(path)).toBe(true);
  expect(statSync(path).mode & 0o777).toBe(0o600);
  await touchFile(path, 5_000);
  expect(statSync(path).mtimeMs).toBe(5_000);
  server.close();
  await once(server, "close");
  expect(await isSocketServed(path)).toBe(false);
  expect(statSync(path).isSocket()).toBe(true);
});

test("a missing socket can be neither published nor touched", async () => {
  const failed = { code: "OS_FILE_FAILED" };
  const path = join(directory, "socket");
  await expect(publishSocket(join(directory, "made"), path)).rejects.toMatchObject(failed);
  await expect(touchFile(path, 0)).rejects.toMatchObject(failed);
});
