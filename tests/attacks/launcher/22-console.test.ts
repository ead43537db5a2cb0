// SPDX-License-Identifier: Apache-2.0
// The launchers' user owns the console's directory; virt-handler opens it as root for its clients.
import { once } from "node:events";
import { mkdirSync, mkdtempSync, rmSync, symlinkSync } from "node:fs";
import { createServer, type Server, type Socket } from "node:net";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterEach, beforeEach, expect, test } from "vitest";
import { connectInPodsDir } from "../../../packages/control-plane/virt-handler/src/server/guest-streams.ts";

const POD = { uid: "0f1e2d3c-0000-4000-8000-000000000001", namespace: "default", name: "vm" };

let directory: string;
let launcherDir: string;
let target: string;
let server: Server;
let visitors: Socket[];

beforeEach(async () => {
  directory = mkdtempSync(join(tmpdir(), "attack-"));
  launcherDir = join(directory, "pods", POD.uid, "volumes/kubernetes.io~empty-dir/launcher");
  mkdirSync(launcherDir, { recursive: true });
  target = join(directory, "root");
  mkdirSync(target, { mode: 0o700 });
  visitors = [];
  server = createServer((socket) => visitors.push(socket));
  server.listen(join(target, "serial0.sock"));
  await once(server, "listening");
});

afterEach(() => {
  server.close();
  rmSync(directory, { recursive: true });
});

test.each([
  {
    name: "the socket is a link to a root socket",
    make: () => {
      symlinkSync(join(target, "serial0.sock"), join(launcherDir, "serial0.sock"));
    },
  },
  {
    name: "the volume is a link to a root directory",
    make: () => {
      rmSync(launcherDir, { recursive: true });
      symlinkSync(target, launcherDir);
    },
  },
])("attack 22: does not follow the console socket when $name", async ({ make }) => {
  make();
  const connect = connectInPodsDir(join(directory, "pods"));
  await expect(connect(POD, "serial0.sock")).rejects.toMatchObject({
    code: "OS_PATH_REFUSED",
    message: expect.stringContaining("serial0.sock is refused: ") as string,
  });
  expect(visitors).toEqual([]);
});
