// SPDX-License-Identifier: Apache-2.0
// A controller on a server in memory.
import type { VerbDeps } from "../verbs/deps.ts";
import {
  type TestServer,
  type TestServerOptions,
  runTurns,
  startTestServer,
} from "./test-server.ts";

/** A server and the way to start controllers on it, which end with the test. */
export class ControllerTest {
  readonly server: TestServer;
  readonly #stop = new AbortController();

  constructor(server: TestServer) {
    this.server = server;
  }

  /** Starts a controller with the server's parts and those of `more`. */
  async start<Deps extends VerbDeps>(
    start: (deps: Deps, stop: AbortSignal) => void | Promise<void>,
    more: Omit<Deps, keyof VerbDeps> = {} as Omit<Deps, keyof VerbDeps>,
  ): Promise<void> {
    // The server has what verbs need; the caller gives the rest.
    await start({ ...this.server.deps, ...more } as unknown as Deps, this.#stop.signal);
    await runTurns(20);
  }

  /** Ends the controllers; the server goes on. */
  stop(): void {
    this.#stop.abort();
  }

  async [Symbol.asyncDispose](): Promise<void> {
    this.stop();
    await this.server.close();
  }
}

/** A server with its namespaces. */
export async function startControllerTest(
  options: TestServerOptions = {},
): Promise<ControllerTest> {
  return new ControllerTest(await startTestServer(options));
}
