// SPDX-License-Identifier: Apache-2.0
// Controllers on an in-memory server.
import type { VerbDeps } from "../verbs/deps.ts";
import {
  type TestServer,
  type TestServerOptions,
  runTurns,
  startTestServer,
} from "./test-server.ts";

/** A server on which a test starts controllers, which end with the test. */
export class ControllerTest {
  readonly server: TestServer;
  readonly #stop = new AbortController();

  constructor(server: TestServer) {
    this.server = server;
  }

  /** Starts a controller with the server's dependencies and `extraDeps`. */
  async start<Deps extends VerbDeps>(
    start: (deps: Deps, stop: AbortSignal) => void | Promise<void>,
    extraDeps: Omit<Deps, keyof VerbDeps> = {} as Omit<Deps, keyof VerbDeps>,
  ): Promise<void> {
    // the server has what verbs need, and `extraDeps` has the rest
    await start({ ...this.server.deps, ...extraDeps } as unknown as Deps, this.#stop.signal);
    await runTurns(20);
  }

  /** Stops the controllers, but not the server. */
  stop(): void {
    this.#stop.abort();
  }

  async [Symbol.asyncDispose](): Promise<void> {
    this.stop();
    await this.server.close();
  }
}

export async function startControllerTest(
  options: TestServerOptions = {},
): Promise<ControllerTest> {
  return new ControllerTest(await startTestServer(options));
}
