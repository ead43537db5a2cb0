// SPDX-License-Identifier: Apache-2.0
// Requests that a client sends without waiting for responses.
import { expect, test } from "vitest";
import { ApiServerProcess, GREETING_MS } from "../api-server-process.ts";

/** Each waiting request took 7 KiB: 400,000 took 2.8 GB, and other clients without credentials had to wait for them. */
const REQUESTS = 100_000;
const REQUESTS_PER_WRITE = 1000;
const MEMORY_MAX = 64 * 1024 * 1024;
const REQUEST = "GET /healthz HTTP/1.1\r\nhost: x\r\n\r\n";

test.each([
  { client: "an unauthenticated client", isKnown: false },
  { client: "a user", isKnown: true },
])(
  "attack 163: closes the connection of $client that sends 100,000 requests at once",
  async ({ isKnown }) => {
    await using api = await ApiServerProcess.start();
    await api.greet();
    const { most: before } = await api.memory();
    const socket = await api.connect(isKnown);
    const { promise: closed, resolve } = Promise.withResolvers<undefined>();
    socket.once("close", () => {
      resolve(undefined);
    });
    socket.resume();
    const block = REQUEST.repeat(REQUESTS_PER_WRITE);
    for (let sent = 0; sent < REQUESTS; sent += REQUESTS_PER_WRITE) socket.write(block);
    await closed;
    expect(await api.greet()).toBeLessThan(GREETING_MS);
    const { most } = await api.memory();
    expect(most - before).toBeLessThan(MEMORY_MAX);
  },
);
