// SPDX-License-Identifier: Apache-2.0
// Hooks that listen at sockets, called by child processes.
import { mkdirSync, mkdtempSync, rmSync } from "node:fs";
import { createServer, type Server } from "node:net";
import { once } from "node:events";
import { tmpdir } from "node:os";
import { join } from "node:path";
import type { HookSidecars } from "@patchbay/core/interfaces";
import { createHookSidecars } from "@patchbay/hooks";
import { describeHookSidecarsContract, serveHook, type FakeHook } from "@patchbay/hooks/testing";
import { createClock, openVolumeSocket } from "@patchbay/os";
import { createBuiltChildStarter } from "@patchbay/support";

/** Long enough for a busy machine. */
const SHORT_MS = 5_000;

function hooksBelow(directory: string): HookSidecars {
  return createHookSidecars({
    starter: createBuiltChildStarter(),
    clock: createClock(),
    openSocket: (_pod, container) => openVolumeSocket({ directory, path: container }),
    infoTimeoutMs: SHORT_MS,
    callTimeoutMs: SHORT_MS,
  });
}

/** Accepts connections and never answers. */
async function listenSilently(path: string): Promise<{ close(): void }> {
  const server: Server = createServer();
  await once(server.listen(path), "listening");
  return {
    close: () => {
      server.close();
    },
  };
}

describeHookSidecarsContract("processes", () => {
  const directory = mkdtempSync(join(tmpdir(), "hooks-"));
  const served = new Map<string, { close(): void }>();
  const end = (container: string): void => {
    served.get(container)?.close();
    served.delete(container);
  };
  return Promise.resolve({
    hooks: hooksBelow(directory),
    start: async (container: string, hook: FakeHook) => {
      const path = join(directory, container, "hook.sock");
      mkdirSync(join(directory, container));
      served.set(
        container,
        hook === "silent" ? await listenSilently(path) : await serveHook(path, hook),
      );
    },
    end: (container: string) => {
      end(container);
      return Promise.resolve();
    },
    close: () => {
      for (const container of served.keys()) end(container);
      rmSync(directory, { recursive: true, force: true });
      return Promise.resolve();
    },
  });
});
